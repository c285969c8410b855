"""A check of settings as text and as JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from ackbench.experiments.messages.phrases import (
    format_count,
    format_list,
    list_some,
    plural,
    wrap_line,
)
from ackbench.experiments.results.checkup.changes import Change, ChangeSearch, Improvement
from ackbench.experiments.results.checkup.configuration import OF_BROKER, Configuration
from ackbench.experiments.results.checkup.diagnosis import Diagnosis
from ackbench.experiments.results.checkup.files.found import FoundFile, FoundSetting
from ackbench.experiments.results.checkup.files.names import decides_nothing
from ackbench.experiments.results.checkup.first_sight import first_sight
from ackbench.experiments.results.checkup.own_names import named_changes
from ackbench.experiments.results.checkup.seen import SeenTrials
from ackbench.experiments.results.checkup.shown_by import command_that_shows
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.verdicts.contract import ContractClause, source_name
from ackbench.experiments.verdicts.guarantees import Guarantee

_PRODUCER: Final = (
    "acks",
    "enable.idempotence",
    "retries",
    "max.in.flight.requests.per.connection",
    "delivery.timeout.ms",
    "transactional.id",
)
_TOPIC: Final = ("min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy")
_ONLY_IF_GIVEN: Final = ("retention.ms", "retention.bytes", "flush.messages")
_DETAIL: Final = re.compile(r" \([^()]*\)$")
"""The figures of one fault at the end of a reason."""
_NAMED_COSTS: Final = 2
_SESSION: Final = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
"""With KRaft, and with ZooKeeper."""
_CONSUMER: Final = ("auto.offset.reset", "isolation.level", "enable.auto.commit")
_NAMED_FAULTS: Final = 6
"""Faults that a line names; the JSON has all."""
_NO_FAULT: Final = "none (no fault)"
"""How the fault `none` is listed: "not under none" would read as "always"."""


def report_lines(
    diagnosis: Diagnosis,
    search: ChangeSearch,
    seen: Sequence[SeenTrials] = (),
    files: Sequence[FoundFile] = (),
    *,
    columns: int = 80,
) -> Iterator[str]:
    """Yield the lines of a check: what is seen at once, the answer, a table, then the reasons.

    Args:
        diagnosis: of the settings.
        search: for changes of them.
        seen: what stored sweeps saw with these settings.
        files: where the settings are from.
        columns: how wide the table may be.
    """
    configuration = diagnosis.configuration
    sights = list(first_sight(configuration, files))
    if sights:
        yield "at first sight:"
        yield from (f"  - {one}" for one in sights[:_MOST_SIGHTS])
        rest = len(sights) - _MOST_SIGHTS
        if rest > 0:
            yield f"  - and {rest} more with --json"
        yield ""
    yield from _answer(diagnosis, search, files)
    yield ""
    yield from _family_table(diagnosis, columns)
    yield ""
    yield from _settings(configuration)
    yield from _reasons_of_all(diagnosis, search, seen)
    if files:
        yield ""
        yield from _taken(files)


_MOST_SIGHTS: Final = 6


def _answer(
    diagnosis: Diagnosis, search: ChangeSearch, files: Sequence[FoundFile]
) -> Iterator[str]:
    """Yield what may happen, in a line for each guarantee that counts, and what helps most."""
    same: dict[tuple[str, ...], list[str]] = {}
    counts = {}
    for guarantee in diagnosis.guarantees:
        if guarantee.name in ANSWERED:
            clauses = list(diagnosis.of(guarantee))
            missing = tuple(fault for fault, one in clauses if not one.guaranteed)
            same.setdefault(missing, []).append(ANSWERED[guarantee.name])
            counts[missing] = len(clauses)
    for faults, subjects in same.items():
        subject, tested = format_list(subjects), format_count(counts[faults], "fault")
        if not faults:
            yield f"{subject}: excluded under all {tested}"
            continue
        named = _first(
            ["no fault at all" if one == "none" else one for one in faults], _ANSWER_FAULTS
        )
        yield f"{subject}: not excluded under {len(faults)} of {tested}: {named}"
    best = _most_helpful(diagnosis, search)
    if best:
        changes = named_changes(best.changes, files)
        costs = _costs(best)
        yield (
            f"what helps most: {changes}"
            + (f"; gives up {costs}" if costs else "; gives up no other guarantee")
        )


ANSWERED: Final = {
    "no-acked-loss": "loss of acknowledged records",
    "no-duplicates": "duplicates",
    "order": "records out of order",
    "availability": "writes that stop until the broker is back",
}
"""The guarantees of the answer, by what happens without them."""
_ANSWER_FAULTS: Final = 3


def _most_helpful(diagnosis: Diagnosis, search: ChangeSearch) -> Improvement | None:
    """Return the change that gains most in one guarantee, of equal ones that of the first."""
    found = [
        first
        for guarantee in diagnosis.guarantees
        if guarantee.name in ANSWERED
        and (first := next(search.improvements(guarantee), None)) is not None
    ]
    return max(found, key=lambda one: (not one.flushes, len(one.gained)), default=None)


def _family_table(diagnosis: Diagnosis, columns: int) -> Iterator[str]:
    """Yield a table: under how many faults of each family each guarantee is given."""
    cells: dict[tuple[Guarantee, str], list[bool]] = {}
    for guarantee in diagnosis.guarantees:
        for fault, clause in diagnosis.of(guarantee):
            if fault != "none":
                key = guarantee, FAULTS[fault].family
                cells.setdefault(key, []).append(clause.guaranteed is True)
    families = [
        family
        for family in dict.fromkeys(kind.family for kind in FAULTS.values())
        if any((guarantee, family) in cells for guarantee in diagnosis.guarantees)
    ]
    labels = [guarantee.label for guarantee in diagnosis.guarantees]
    first = max(map(len, [_TABLE_HEAD, *labels]))
    lines: list[list[str]] = [[]]
    for family in families:  # as many columns in one line as fit
        width = first + sum(1 + max(len(one), _CELL) for one in [*lines[-1], family])
        if width > columns:
            lines.append([])
        lines[-1].append(family)
    for part in lines:
        widths = [max(len(family), _CELL) for family in part]
        yield _row(_TABLE_HEAD, part, first, widths)
        for guarantee in diagnosis.guarantees:
            values = [_cell(cells.get((guarantee, family))) for family in part]
            yield _row(guarantee.label, values, first, widths)


_TABLE_HEAD: Final = "guaranteed under"
_CELL: Final = 5


def _row(head: str, values: Sequence[str], first: int, widths: Sequence[int]) -> str:
    cells = [f"{value:>{width}}" for value, width in zip(values, widths, strict=True)]
    return f"{head:{first}} {' '.join(cells)}"


def _cell(guaranteed: Sequence[bool] | None) -> str:
    if not guaranteed:
        return "-"
    if all(guaranteed):
        return "all"
    return f"{sum(guaranteed)}/{len(guaranteed)}" if any(guaranteed) else "none"


def _place(setting: FoundSetting, file: FoundFile) -> str:
    """Return the line of a setting in its file, or where else it is from."""
    return (
        f"line {setting.line}"
        if setting.where == f"{file.path.name}:{setting.line}"
        else setting.where
    )


def _taken(files: Sequence[FoundFile]) -> Iterator[str]:
    """Yield which settings were taken from where."""
    for file in files:
        yield f"read from {file.path.name} ({file.format}):"
        scope_of = attrgetter("scope")
        for scope, settings in groupby(sorted(file.settings, key=scope_of), scope_of):
            texts = [
                f"{one.name}={one.value} ({_place(one, file)})"
                for one in settings
                if not decides_nothing(one.name)
            ]
            if texts:
                yield f"  {scope}: {', '.join(texts)}"
        for node in file.nodes:
            roles = format_list(sorted(node.roles))
            count = f"{node.count} times " if node.count > 1 else ""
            yield f"  node {node.name}: {count}{roles}"
        alike: dict[str, list[str]] = {}
        for topic in file.topics:
            counts = [
                format_count(number, noun) if number else f"the brokers' default of {noun}s"
                for number, noun in (
                    (topic.replication_factor, "replica"),
                    (topic.partitions, "partition"),
                )
            ]
            alike.setdefault(", ".join(counts), []).append(topic.name)
        for counts_of_each, names in alike.items():
            topics = f"{plural(len(names), 'topic')} {list_some(names)}"
            yield f"  {topics}: {counts_of_each}"


def _reasons_of_all(
    diagnosis: Diagnosis, search: ChangeSearch, seen: Sequence[SeenTrials]
) -> Iterator[str]:
    """Yield each guarantee with what is missing, why, and what helps."""
    same: dict[tuple[Any, ...], Guarantee] = {}
    for guarantee in diagnosis.guarantees:
        clauses = list(diagnosis.of(guarantee))
        missing = [(fault, one) for fault, one in clauses if not one.guaranteed]
        head = f"{guarantee.label}: {_summary(len(clauses), len(missing))}"
        key = (tuple((fault, one.reason) for fault, one in missing), len(clauses))
        yield ""
        if missing and key in same:
            yield f"{head}, the same as of {same[key].label}"
            yield from _seen(guarantee, seen)
            continue
        same[key] = guarantee
        yield head
        yield from _reasons(missing)
        improvements = list(search.improvements(guarantee)) if missing else []
        yield from _improvements(improvements)
        yield from _seen(guarantee, seen)
        if missing and (
            command := command_that_shows(
                diagnosis.configuration, [one for one, _ in missing], guarantee
            )
        ):
            yield f"  to see it: {command}"


def _seen(guarantee: Guarantee, seen: Sequence[SeenTrials]) -> Iterator[str]:
    """Yield what stored sweeps saw of a guarantee, the faults with most violations first."""
    found = [one for one in seen if one.guarantee is guarantee]
    if found:
        ordered = sorted(found, key=lambda one: (-one.violated, one.fault))
        texts = [
            f"under {one.fault} in {one.violated} of {format_count(one.trials, 'trial')}"
            for one in ordered[:_NAMED_FAULTS]
        ]
        rest = len(ordered) - len(texts)
        more = f", and {format_count(rest, 'fault')} more" if rest else ""
        newest = ordered[0].sweeps[0]
        yield f"  in stored sweeps it was violated {', '.join(texts)}{more} (such as {newest})"


def wrapped(lines: Iterable[str], columns: int) -> Iterator[str]:
    """Yield the lines broken at a width, with the further ones of each indented."""
    for line in lines:
        if line.lstrip().startswith("to see it: "):
            yield line  # to be copied
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from wrap_line(line, columns, indent)


def _summary(faults: int, missing: int) -> str:
    if not missing:
        return f"guaranteed under all {format_count(faults, 'fault')}"
    return f"guaranteed under {faults - missing} of {format_count(faults, 'fault')}"


def _settings(configuration: Configuration) -> Iterator[str]:
    """Yield the settings that decide, those that nobody set as defaults."""
    kafka = f"Kafka {configuration.kafka_version}"
    client = traits_of(configuration.client).title
    producer, broker = configuration.effective_producer(), configuration.effective_broker()
    yield _line(f"producer ({client})", producer, _PRODUCER, configuration.producer)
    factor = "" if configuration.replication_factor else " (default)"
    given = {*configuration.topic}
    given |= {name for name, of_broker in OF_BROKER.items() if of_broker in configuration.broker}
    names = (*_TOPIC, *(name for name in _ONLY_IF_GIVEN if name in configuration.topic))
    yield f"topic: replication.factor={configuration.replicas}{factor}, " + _pairs(
        configuration.effective_topic(), names, given
    )
    names = (_SESSION[configuration.zookeepers > 0], "replica.lag.time.max.ms")
    coordination = " and ZooKeeper" if configuration.zookeepers else ""
    yield _line(
        f"brokers ({kafka}{coordination}, {configuration.nodes} of them)",
        broker,
        names,
        configuration.broker,
    )
    if configuration.consumer is not None:
        consumer = configuration.effective_consumer()
        yield _line("consumer", consumer, _CONSUMER, configuration.consumer)


def _line(
    head: str, effective: Mapping[str, str], names: Sequence[str], given: Collection[str]
) -> str:
    return f"{head}: {_pairs(effective, names, given)}"


def _pairs(effective: Mapping[str, str], names: Sequence[str], given: Collection[str]) -> str:
    return ", ".join(
        f"{name}={effective[name]}{'' if name in given else ' (default)'}"
        for name in names
        if effective.get(name)
    )


def _reasons(missing: Sequence[tuple[str, ContractClause]]) -> Iterator[str]:
    """Yield the faults without the guarantee, those with the same reason together."""

    def key(entry: tuple[str, ContractClause]) -> tuple[str, str, str]:
        clause = entry[1]
        return str(clause.guaranteed), _DETAIL.sub("", clause.reason), clause.source

    for (guaranteed, reason, source), group in groupby(sorted(missing, key=key), key):
        names = [_NO_FAULT if fault == "none" else fault for fault, _ in group]
        verdict = "unknown" if guaranteed == "None" else "not"
        yield f"  {verdict} under {_first(names, _NAMED_FAULTS)}:"
        yield f"    {reason} [{source_name(source)}]"


def _improvements(improvements: Sequence[Improvement]) -> Iterator[str]:
    for number, one in enumerate(improvements):
        changes = format_list([str(change) for change in one.changes])
        word = "smallest change" if number == 0 else "and then"
        line = f"  {word}: {changes}: guaranteed under {len(one.gained)} more"
        costs = _costs(one)
        yield f"{line}; gives up {costs}" if costs else line


def _costs(improvement: Improvement) -> str:
    texts = []
    lost = sorted(improvement.lost, key=lambda one: (one[0].name, one[1]))
    for guarantee, group in groupby(lost, key=lambda one: one[0]):
        faults = _first([fault for _, fault in group], _NAMED_COSTS)
        texts.append(f'"{guarantee.label}" under {faults}')
    return format_list(texts)


def _first(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def as_document(
    diagnosis: Diagnosis,
    search: ChangeSearch,
    seen: Sequence[SeenTrials] = (),
    files: Sequence[FoundFile] = (),
) -> dict[str, Any]:
    """Return the check for JSON: settings, and each guarantee by fault with reason and source.

    Args:
        diagnosis: of the settings.
        search: for changes of them.
        seen: what stored sweeps saw with these settings.
        files: where the settings are from.
    """
    return {
        "settings": diagnosis.configuration.model_dump(mode="json"),
        "first_sight": list(first_sight(diagnosis.configuration, files)),
        "read_from": [_file_as_dict(file) for file in files],
        "guarantees": {
            guarantee.name: {
                "faults": {
                    fault: {
                        "guaranteed": clause.guaranteed,
                        "reason": clause.reason,
                        "source": clause.source,
                    }
                    for fault, clause in diagnosis.of(guarantee)
                },
                "changes": [
                    {
                        "set": [_as_dict(change) for change in one.changes],
                        "gained": list(one.gained),
                        "lost": [[other.name, fault] for other, fault in one.lost],
                    }
                    for one in search.improvements(guarantee)
                ],
                "seen": [
                    one.model_dump(mode="json", exclude={"guarantee"})
                    for one in seen
                    if one.guarantee is guarantee
                ],
            }
            for guarantee in diagnosis.guarantees
        },
    }


def _file_as_dict(file: FoundFile) -> dict[str, Any]:
    return {
        "file": str(file.path),
        "format": file.format,
        "settings": [
            {"scope": one.scope, "name": one.name, "value": one.value, "line": one.line}
            for one in file.settings
            if not decides_nothing(one.name)
        ],
        "nodes": [
            {"name": node.name, "count": node.count, "roles": sorted(node.roles)}
            for node in file.nodes
        ],
        "topics": [
            {
                "name": topic.name,
                "replication_factor": topic.replication_factor,
                "partitions": topic.partitions,
            }
            for topic in file.topics
        ],
        "left_out": {reason: list(names) for reason, names in file.left_out.items()},
    }


def _as_dict(change: Change) -> dict[str, str]:
    return {"scope": change.scope, "name": change.name, "value": change.value}
