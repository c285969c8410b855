"""Write a file again with safer settings, line by line: all else stays as it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.results.checkup.changes import Change
from ackbench.experiments.results.checkup.files.found import FoundFile, FoundSetting, Scope
from ackbench.experiments.results.checkup.files.names import variable_of
from ackbench.experiments.results.checkup.own_names import place_of

_ENVIRONMENT: Final = ("KAFKA_CFG_", "KAFKA_", "CONNECT_")


@dataclass(frozen=True)
class Fixed:
    """A file with changes."""

    text: str
    done: tuple[str, ...]
    """The changes, each with its line."""
    by_hand: tuple[Change, ...]
    """Changes that this file has no place for."""


def fixed(text: str, file: FoundFile, changes: Sequence[Change]) -> Fixed:
    """Return a file with changes: a line that sets a property gets the value, else one is added.

    A line is added in the form of another one of the same scope: `name=value`, a variable of a
    container, an entry of YAML.

    Args:
        text: of the file.
        file: what was found in it.
        changes: what to set.
    """
    lines = text.split("\n")
    done, by_hand, added = [], [], []
    for change in changes:
        scope, name = place_of(change, file) or (change.scope, change.name)
        settings = [*file.settings, *(one for node in file.nodes for one in node.settings)]
        own = [
            one
            for one in settings
            if (one.scope, one.name, one.file) == (scope, name, file.path.name) and one.line
        ]
        replaced = [one for one in own if _replace(lines, one, change.value)]
        sibling = next(_siblings(lines, file, scope), None)
        if replaced:
            numbers = sorted({one.line for one in replaced if one.line})
            done.append(f"line {', '.join(map(str, numbers))}: {name}={change.value}")
        elif sibling and not own and file.has_kafkas_names:
            added.append((sibling.line or 1, _like(lines, sibling, name, change.value)))
            done.append(f"after line {sibling.line}: {name}={change.value}")
        else:
            by_hand.append(change)
    for line, new in sorted(added, reverse=True):
        lines.insert(line, new)
    return Fixed("\n".join(lines), tuple(done), tuple(by_hand))


def _siblings(lines: Sequence[str], file: FoundFile, scope: str) -> Iterator[FoundSetting]:
    """Yield settings whose line has their name and their value, so that another can be like it."""
    for one in file.settings:
        if one.scope == scope and one.file == file.path.name and one.line and one.value:
            line = lines[one.line - 1]
            if _spelled(line, one.name) and one.value in line and not line.endswith("\\"):
                yield one


def _replace(lines: list[str], setting: FoundSetting, value: str) -> bool:
    """Set the value in a setting's line; `False`: the value does not stand there."""
    index = (setting.line or 1) - 1
    before, found, after = lines[index].rpartition(setting.value)
    if not found or not setting.value:
        return False
    lines[index] = f"{before}{value}{after}"
    return True


def _spelled(line: str, name: str) -> tuple[str, str] | None:
    """Return how a name stands in a line, and its kind of spelling; `None`: it does not."""
    for kind in _SPELLINGS:
        spelled = _spell(kind, name)
        if re.search(rf"(?<![\w.-]){re.escape(spelled)}(?![\w.-])", line):
            return spelled, kind
    return None


_SPELLINGS: Final = ("plain", *_ENVIRONMENT, "kebab")


def _spell(kind: str, name: str) -> str:
    if kind == "plain":
        return name
    if kind == "kebab":
        return name.replace(".", "-")
    return variable_of(kind, name)


def _like(lines: Sequence[str], sibling: FoundSetting, name: str, value: str) -> str:
    """Return a line like a sibling's, with another name and value."""
    line = lines[(sibling.line or 1) - 1]
    spelled = _spelled(line, sibling.name)
    before, _, after = line.rpartition(sibling.value)
    line = f"{before}{value}{after}"
    return line.replace(spelled[0], _spell(spelled[1], name), 1) if spelled else line


def changes_of(scopes: Sequence[Scope], improvements: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes that concern files of these scopes, each once."""
    server = {"broker", "topic"} & set(scopes)
    return tuple(
        dict.fromkeys(
            one
            for one in improvements
            if one.scope in scopes or (one.scope in {"topic", "cluster"} and server)
        )
    )
