"""The settings of a file with their lines, its nodes and topics, and names that are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.infra.errors import InputError

Scope = Literal["broker", "topic", "producer", "consumer"]
SCOPES: Final[tuple[Scope, ...]] = ("broker", "topic", "producer", "consumer")
CLIENTS: Final[tuple[Scope, ...]] = ("producer", "consumer")


Spelling = Callable[[Scope, str, str], str | None]
"""Returns a setting, given by scope, name and value, as a product writes it.

`None`: the product has no option for it.
"""


@dataclass(frozen=True)
class FoundSetting:
    """One property with its value, as the file has it."""

    scope: Scope
    name: str
    value: str
    file: str
    line: int | None
    """From 1 on; `None`: a product sets it where the file does not."""

    @property
    def where(self) -> str:
        """Where it stands, `compose.yml:12`, or whose default it is."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class FoundNode:
    """One node, or several that are equal."""

    name: str
    count: int = 1
    roles: frozenset[str] = frozenset({"broker"})
    """`broker`, `controller`, or both."""
    settings: tuple[FoundSetting, ...] = ()
    volumes: tuple[str, ...] | None = None
    """What it keeps its data in, a name for each; `None`: the file does not say."""
    share_volumes: bool = False
    """Several that are equal have the same volumes, not one each."""


@dataclass(frozen=True)
class FoundTopic:
    """One topic; its properties are settings of the scope `topic`."""

    name: str
    replication_factor: int | None = None
    partitions: int | None = None


@dataclass(frozen=True)
class FoundFile:
    """All that was found in one file."""

    path: Path
    format: str
    """What the file is, in a few words: `Docker Compose`."""
    settings: tuple[FoundSetting, ...] = ()
    """Of brokers those that all nodes share."""
    nodes: tuple[FoundNode, ...] = ()
    topics: tuple[FoundTopic, ...] = ()
    client: ClientKind | None = None
    """Whose names and defaults its clients have; `None`: the names say it."""
    kafka_version: str | None = None
    """Of the brokers, as the file names it."""
    has_kafkas_names: bool = True
    """Whether a further property would be written as those that are there."""
    spelling: Spelling | None = None
    """Writes a setting as the file's product does; `None`: as Kafka does, or it is not known."""
    notes: tuple[str, ...] = ()
    """What somebody must know who reads the result; one line each."""
    sights: tuple[str, ...] = ()
    """What the product's own options lose or repeat, each with its source."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By reason: the names that decide nothing here."""

    @property
    def is_about_something(self) -> bool:
        """Whether the file says anything of brokers, topics or clients."""
        return bool(self.settings or self.nodes or self.topics or self.client)

    @property
    def has_something(self) -> bool:
        """Whether anything of the file was understood."""
        return self.is_about_something or bool(self.left_out)


class Taking:
    """Collects what is found in a file.

    Args:
        path: the file.
        format_name: what it is.
    """

    def __init__(self, path: Path, format_name: str) -> None:
        self.path = path
        self.format = format_name
        self.settings: list[FoundSetting] = []
        self.nodes: list[FoundNode] = []
        self.topics: list[FoundTopic] = []
        self.client: ClientKind | None = None
        self.kafka_version: str | None = None
        self.has_kafkas_names = True
        self.spelling: Spelling | None = None
        self.notes: list[str] = []
        self.sights: list[str] = []
        self._left_out: dict[str, list[str]] = {}

    def setting(
        self,
        scope: Scope,
        name: str,
        value: object,
        line: int | None = None,
        file: str | None = None,
    ) -> FoundSetting:
        """Return a setting of this file, or of one that it names, without taking it."""
        return FoundSetting(scope, name, str(value).strip(), file or self.path.name, line)

    def take(self, scope: Scope, name: str, value: object, line: int | None = None) -> None:
        """Take a setting; the last of two equal names counts, and a note says so."""
        self.take_found(self.setting(scope, name, value, line))

    def take_found(self, taken: FoundSetting) -> None:
        """Take a setting, as `take`."""
        key = (taken.scope, taken.name)
        for one in [one for one in self.settings if (one.scope, one.name) == key]:
            self.settings.remove(one)
            if one.value != taken.value and one.line is not None:
                self.notes.append(
                    f"{taken.scope} {taken.name} is set twice, {one.value} in line {one.line} and "
                    f"{taken.value} in line {taken.line}: the last one counts"
                )
        self.settings.append(taken)

    def default(self, scope: Scope, name: str, value: str, product: str) -> None:
        """Take what a product sets where the file does not."""
        if all((one.scope, one.name) != (scope, name) for one in self.settings):
            self.settings.append(FoundSetting(scope, name, value, f"default of {product}", None))

    def leave(self, reason: str, names: Iterable[str]) -> None:
        """Note names that decide nothing here, and why."""
        kept = self._left_out.setdefault(reason, [])
        kept += [name for name in names if name not in kept]

    def note(self, text: str) -> None:
        """Note what somebody must know, once."""
        if text not in self.notes:
            self.notes.append(text)

    def found(self) -> FoundFile:
        """Return what was taken.

        Raises:
            InputError: nothing was understood; an answer would be one about the defaults.
        """
        result = FoundFile(
            path=self.path,
            format=self.format,
            settings=tuple(self.settings),
            nodes=tuple(self.nodes),
            topics=tuple(self.topics),
            client=self.client,
            kafka_version=self.kafka_version,
            has_kafkas_names=self.has_kafkas_names,
            spelling=self.spelling,
            notes=tuple(self.notes),
            sights=tuple(self.sights),
            left_out={reason: tuple(names) for reason, names in self._left_out.items() if names},
        )
        if not result.has_something:
            raise InputError(f"{self.path} ({self.format}): no setting of Kafka was found in it")
        return result
