"""The lines of a program and the records that the broker stored, as the checks compare them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.trial.clients.programs.tables import ERROR, SUCCESS

Line = Mapping[str, Any]
_LONGEST_LINE_BYTES: Final = 100_000
_LONGEST_QUOTE: Final = 60


@dataclass(frozen=True)
class Stored:
    """A record in the topic."""

    partition: int
    offset: int
    key: str | None
    value: str
    timestamp_ms: int


@dataclass(frozen=True)
class Run:
    """A program's run, from its start to its exit."""

    lines: Sequence[Line]
    """The complete lines that are JSON objects, in order."""
    malformed: Sequence[str] = ()
    """The defects of lines that begin as JSON objects do."""
    exit_code: int | None = None
    """`None`: it did not exit by itself, and was killed."""
    errors: str = ""
    """The end of its standard error, in one line."""
    stored: Sequence[Stored] = ()
    """All records of the topic after the run."""
    prefix: int = 0
    """Of the values that the run was to write."""
    asked_records: int = 0
    waited_for_cpu_ms: float = 0
    """How long the program's working thread could run, and other processes had the CPUs."""
    notes: Sequence[str] = ()

    def named(self, *names: str) -> list[Line]:
        """Return the lines with these names."""
        return [line for line in self.lines if line.get("name") in names]

    def value(self, number: int) -> str:
        """Return the value of a record."""
        return f"{self.prefix}.{number}"

    def own_stored(self) -> list[Stored]:
        """Return the stored records with the run's prefix."""
        return [record for record in self.stored if record.value.startswith(f"{self.prefix}.")]

    def reports_by_value(self) -> Counter[str]:
        """Return how many success and error lines each value has."""
        return Counter(str(line.get("value")) for line in self.named(SUCCESS, ERROR))


def read_lines(path: Path) -> tuple[list[Line], list[str]]:
    """Return the JSON objects that a program printed, and what is wrong with the others.

    Lines that do not begin with a brace are ignored, as Kafka's own programs document; so is an
    incomplete last line.
    """
    text = path.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    lines: list[Line] = []
    malformed: list[str] = []
    for raw in complete.split(b"\n"):
        if raw.startswith(b"{"):
            if len(raw) > _LONGEST_LINE_BYTES:
                malformed.append(f"a line of {len(raw):,} bytes")
                continue
            try:
                lines.append(json.loads(raw))
            except ValueError:
                malformed.append(f"no JSON: {raw[:_LONGEST_QUOTE].decode(errors='replace')!r}")
    return lines, malformed


def partitions_of(line: Line) -> Iterator[Mapping[str, Any]]:
    """Yield the partitions that a consumer's line names; invalid ones are left out."""
    partitions = line.get("partitions")
    for one in partitions if isinstance(partitions, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("partition"), int):
            yield one


def partition_numbers(line: Line) -> set[int]:
    """Return the numbers of the partitions that a consumer's line names."""
    return {one["partition"] for one in partitions_of(line)}
