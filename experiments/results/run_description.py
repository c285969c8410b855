"""What a sweep ran, in one line: when, on which Kafka, with which clients and load, how long.

And the command that asks more of its experiment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.planning.catalog import catalog_names
from ackbench.experiments.planning.catalog.loading import load_experiment, read_experiment
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import ClusterNeed, Plan
from ackbench.experiments.sweep.progress import format_duration_with_units
from ackbench.infra.errors import AckbenchError

_NS_PER_S: Final = 1e9
_MOST_VALUES: Final = 3


def describe_run(plan: Plan, records: Sequence[TrialManifest]) -> str:
    """Return the line.

    Args:
        plan: the sweep's plan.
        records: of its sealed and void trials, in any order; may be none.
    """
    return ", ".join(_parts(plan, records))


def trials_s(records: Iterable[TrialManifest]) -> float:
    """Return how long trials ran, seconds, without the time between them.

    A sweep may have been stopped then. Trials that run in parallel on several hosts count once.
    """
    ran_ns = last_ns = 0
    for begin_ns, end_ns in sorted(map(_interval_ns, records)):
        ran_ns += max(0, end_ns - max(begin_ns, last_ns))
        last_ns = max(last_ns, end_ns)
    return ran_ns / _NS_PER_S


def _interval_ns(record: TrialManifest) -> tuple[int, int]:
    stages_s, phases = record.stages_s, record.phases
    begin_ns = phases.load_begin_ns - round(stages_s.get("prepare", 0) * _NS_PER_S)
    return begin_ns, max(phases.healthy_ns, begin_ns + round(sum(stages_s.values()) * _NS_PER_S))


def _parts(plan: Plan, records: Sequence[TrialManifest]) -> Iterator[str]:
    if records:
        begin = datetime.fromtimestamp(_begin_ns(records) / _NS_PER_S, UTC)
        yield f"{begin:%Y-%m-%d %H:%M} UTC"
    needs = [trial.cluster for trial in plan.trials]
    versions = {record.kafka_version for record in records} or {n.kafka_version for n in needs}
    yield f"Kafka {_values(sorted(versions), 'versions')}"
    yield _values(dict.fromkeys(map(_nodes, needs)), "kinds of clusters")
    if records:
        yield _values(sorted({_client(record.client) for record in records}), "clients")
    loads = [trial.workload for trial in plan.trials]
    rates = _range(load.rate_records_per_s for load in loads)
    yield f"{rates} records/s for {_range(load.duration_s for load in loads)} s"
    yield _trials(plan, records)


def _client(version: str) -> str:
    """Return a client with its name; records have librdkafka's version only."""
    return version if " " in version else f"librdkafka {version}"


def _nodes(need: ClusterNeed) -> str:
    if not need.traits.planned:
        return "an external cluster"
    others = ((need.controllers, "dedicated controller"), (need.zookeepers, "ZooKeeper server"))
    return format_list(
        [format_count(need.nodes, "broker")]
        + [format_count(number, noun) for number, noun in others if number]
    )


def _trials(plan: Plan, records: Sequence[TrialManifest]) -> str:
    planned = format_count(len(plan.trials), "trial")
    if not records:
        return f"0 of {planned}"
    of = f"{len(records)} of {planned}" if len(records) < len(plan.trials) else planned
    return f"{of} in {format_duration_with_units(trials_s(records))}"


def _begin_ns(records: Sequence[TrialManifest]) -> int:
    return min(record.phases.load_begin_ns for record in records)


def _values(values: Iterable[str], noun: str) -> str:
    """Return the values as a phrase; their number with a noun, if they are many."""
    listed = list(values)
    return format_list(listed) if len(listed) <= _MOST_VALUES else f"{len(listed)} {noun}"


def _range(values: Iterable[float]) -> str:
    ordered = sorted(set(values))
    if len(ordered) == 1:
        return f"{ordered[0]:,g}"
    return f"{ordered[0]:,g} to {ordered[-1]:,g}"


def next_question(named: str, *, expects: bool = False) -> str:
    """Return a command that asks more of an experiment: with more trials, and a bound.

    Args:
        named: the experiment, or its file.
        expects: whether it has bounds of its own.
    """
    return f"run {named} --repeats 10{'' if expects else ' --expect lost=0'}"


def is_as_in_catalog(sweep: SweepFolder, experiment: str) -> bool:
    """Return whether a sweep ran an experiment as the catalogue has it, however often."""
    if experiment not in catalog_names():
        return False
    catalogued = load_experiment(experiment)
    try:
        own = read_experiment(sweep.experiment_yaml)
    except AckbenchError:  # truncated, or of another version
        return False
    return own.model_copy(update={"repeats": catalogued.repeats}) == catalogued
