"""A check of settings as text and as JSON. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.checkup.changes import Change, ChangeSearch, Improvement
from ackbench.experiments.results.checkup.configuration import OF_BROKER, Configuration
from ackbench.experiments.results.checkup.diagnosis import Diagnosis
from ackbench.experiments.results.checkup.seen import SeenTrials
from ackbench.experiments.results.checkup.shown_by import command_that_shows
from ackbench.experiments.sweep.client_kinds import traits_of
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
_NO_FAULT: Final = "none (no fault)"
"""How the fault `none` is listed: "not under none" would read as "always"."""
"""Faults that a line names; the JSON has all."""


def report_lines(
    diagnosis: Diagnosis, search: ChangeSearch, seen: Sequence[SeenTrials] = ()
) -> Iterator[str]:
    """Yield the lines of a check: the settings, then each guarantee with what is missing.

    Args:
        diagnosis: of the settings.
        search: for changes of them.
        seen: what stored sweeps saw with these settings.
    """
    configuration = diagnosis.configuration
    yield from _settings(configuration)
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
            command := command_that_shows(configuration, [one for one, _ in missing], guarantee)
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
        yield from textwrap.wrap(
            line,
            columns,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]


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
        shown = ", ".join(names[:_NAMED_FAULTS])
        more = f" and {len(names) - _NAMED_FAULTS} more" if len(names) > _NAMED_FAULTS else ""
        verdict = "unknown" if guaranteed == "None" else "not"
        yield f"  {verdict} under {shown}{more}:"
        yield f"    {reason} [{source_name(source)}]"


def _improvements(improvements: Sequence[Improvement]) -> Iterator[str]:
    for number, one in enumerate(improvements):
        changes = format_list([str(change) for change in one.changes])
        word = "smallest change" if number == 0 else "and then"
        line = f"  {word}: {changes}: guaranteed under {len(one.gained)} more"
        costs = _costs(one)
        yield f"{line}; costs {costs}" if costs else line


def _costs(improvement: Improvement) -> str:
    texts = []
    lost = sorted(improvement.lost, key=lambda one: (one[0].name, one[1]))
    for guarantee, group in groupby(lost, key=lambda one: one[0]):
        faults = [fault for _, fault in group]
        rest = len(faults) - _NAMED_COSTS
        more = f" and {rest} more" if rest > 0 else ""
        texts.append(f"{guarantee.label} under {', '.join(faults[:_NAMED_COSTS])}{more}")
    return format_list(texts)


def as_document(
    diagnosis: Diagnosis, search: ChangeSearch, seen: Sequence[SeenTrials] = ()
) -> dict[str, Any]:
    """Return the check for JSON: settings, and each guarantee by fault with reason and source.

    Args:
        diagnosis: of the settings.
        search: for changes of them.
        seen: what stored sweeps saw with these settings.
    """
    return {
        "settings": diagnosis.configuration.model_dump(mode="json"),
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


def _as_dict(change: Change) -> dict[str, str]:
    return {"scope": change.scope, "name": change.name, "value": change.value}
