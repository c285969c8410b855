"""Property files: lines of `name=value`, as `java.util.Properties` and librdkafka read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import javaproperties

from ackbench.experiments.messages.phrases import list_some
from ackbench.experiments.results.checkup.files.found import (
    CLIENTS,
    SCOPES,
    FoundFile,
    Scope,
    Taking,
)
from ackbench.experiments.results.checkup.files.names import names_of, scopes_of_names
from ackbench.experiments.results.checkup.files.text import text_of
from ackbench.experiments.results.checkup.files.trees import LineText
from ackbench.infra.errors import InputError


def pairs_of(text: str, path: Path, first_line: int = 1) -> Iterator[tuple[LineText, str]]:
    """Yield each name with its value, comments left out, lines continued and escapes resolved.

    Args:
        text: the file, or a part of one.
        path: for messages.
        first_line: the number of its first line.

    Raises:
        InputError: an escape that is none.
    """
    line = first_line
    try:
        for entry in javaproperties.parse(text):
            if isinstance(entry, javaproperties.KeyValue):
                yield LineText(entry.key, line), entry.value
            line += entry.source.count("\n")
    except javaproperties.InvalidUEscapeError as error:
        raise InputError(f"{path} is no property file: {error} (line {line})") from error


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file by their names; the last of two equal names counts.

    Raises:
        InputError: it cannot be read, or is no property file.
    """
    return {str(name): value for name, value in pairs_of(text_of(path), path)}


def take_pairs(
    pairs: Sequence[tuple[LineText, str]], path: Path, format_name: str, scopes: Sequence[Scope]
) -> FoundFile:
    """Return settings by Kafka's own names.

    Args:
        pairs: names and values.
        path: of the file.
        format_name: what the file is.
        scopes: what it is about; empty: its names decide.

    Raises:
        InputError: no name is one of Kafka's.
    """
    taking = Taking(path, format_name)
    decided = tuple(scopes) or scopes_of_names([name for name, _ in pairs], path.name)
    if decided:
        take_named(taking, pairs, decided)
        return taking.found()
    others, prefixes = [], set()
    for name, value in pairs:
        place = _within(name)
        if place is None:
            others.append(name)
            continue
        prefix, suffix = place
        prefixes.add(f"{prefix}*")
        hinted = [scope for scope in CLIENTS if scope in prefix.lower()]
        known = [scope for scope in SCOPES if suffix in names_of(scope)]
        scope = next((one for one in hinted if one in known), None)
        for one in [scope] if scope else [one for one in CLIENTS if one in known] or known[:1]:
            taking.take(one, suffix, value, name.line)
    if not taking.settings:
        names = list_some([name for name, _ in pairs]) or "none"
        raise InputError(
            f"{path}: no name is a property of Kafka's brokers, topics or clients ({names})"
        )
    before = list_some(sorted(prefixes))
    taking.note(f"names are read as Kafka's without what stands before them ({before})")
    taking.has_kafkas_names = False
    taking.leave("names that are none of Kafka's", others)
    return taking.found()


def _within(name: str) -> tuple[str, str] | None:
    """Return a name as a prefix and a property of Kafka's, of more than one word; else `None`."""
    parts = name.split(".")
    for cut in range(1, len(parts) - 1):
        suffix = ".".join(parts[cut:])
        if any(suffix in names_of(scope) for scope in SCOPES):
            return ".".join(parts[:cut]) + ".", suffix
    if len(parts) > 1 and parts[-1] in _SHORT:
        return ".".join(parts[:-1]) + ".", parts[-1]
    return None


_SHORT: Final = ("acks", "retries")
"""Properties of one word that mean nothing else below a prefix."""


def take_named(
    taking: Taking, pairs: Sequence[tuple[LineText, str]], scopes: Sequence[Scope]
) -> None:
    """Take each pair in the scopes that know its name, in the first one if none does."""
    for name, value in pairs:
        fitting = [scope for scope in SCOPES if scope in scopes and name in names_of(scope)]
        for scope in fitting or scopes[:1]:
            taking.take(scope, name, value, name.line)
