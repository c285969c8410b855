"""Changes of settings in the names of the product whose file has the settings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.checkup.changes import Change
from ackbench.experiments.results.checkup.configuration import OF_BROKER
from ackbench.experiments.results.checkup.files.found import SCOPES, FoundFile, Scope


def place_of(change: Change, file: FoundFile) -> tuple[Scope, str] | None:
    """Return the scope and the name of a change in a file: a broker's default of a topic's.

    `None`: it is a level of a feature, which no file sets.
    """
    scopes = _scopes_of(file)
    if change.scope == "cluster":
        return "broker", "default.replication.factor"
    if change.scope == "topic" and "topic" not in scopes and "broker" in scopes:
        return "broker", OF_BROKER.get(change.name, change.name)
    scope = next((one for one in SCOPES if one == change.scope), None)
    return (scope, change.name) if scope else None


def named_changes(changes: Sequence[Change], files: Sequence[FoundFile]) -> str:
    """Return changes by Kafka's names, each with how the files that may have it write it.

    `producer acks=all (spring.kafka.producer.acks=all)`; of one file's product that has no option
    for it, that it has none.

    Args:
        changes: what to set.
        files: where the settings are from.
    """
    return format_list([_named(change, files) for change in changes])


def _named(change: Change, files: Sequence[FoundFile]) -> str:
    written = list(dict.fromkeys(_written(change, files)))
    return f"{change} ({', '.join(written)})" if written else str(change)


def _written(change: Change, files: Sequence[FoundFile]) -> Iterator[str]:
    for file in files:
        place = place_of(change, file)
        if place is None or file.spelling is None or place[0] not in _scopes_of(file):
            continue
        scope, name = place
        text = file.spelling(scope, name, change.value)
        yield text or f"{file.format} has no option for it"


def _scopes_of(file: FoundFile) -> frozenset[Scope]:
    """Return what a file is about: a node without settings is a broker, too."""
    scopes = frozenset(one.scope for one in file.settings)
    return scopes | {"broker"} if file.nodes else scopes
