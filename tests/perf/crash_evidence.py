"""The events and leader epochs of a generated trial, with a leader crash or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import EPOCHS, EVENTS
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.planted import PlantedEpoch, PlantedEvent

BEGIN_NS: Final = 1_800_000_000_000_000_000
"""The begin of every generated load."""
CRASHED_LEADERS: Final = (0, 1)
"""The partitions whose leader crashes."""
_MS: Final = 1_000_000
_NODES: Final = 3
_CRASHED, _NEXT = 1, 2


@dataclass(frozen=True)
class Crash:
    """A leader crash, as brokers and clients report it."""

    phases: Phases
    partitions: int
    begin_of_epoch_1: Mapping[int, int]
    """The first offset of the next leader, by partition."""


def fault_tables(crash: Crash, crashed: bool) -> dict[str, pa.Table]:
    """Return the tables `events` and `epochs`.

    Args:
        crash: the phases and, where there is a crash, its offsets.
        crashed: whether there is one.
    """
    end_ns = crash.phases.healthy_ns
    events = [
        PlantedEvent(crash.phases.load_begin_ns, "load_begin"),
        *_leaders(crash),
        *(_crash_events(crash) if crashed else ()),
        PlantedEvent(crash.phases.settled_ns, "settled"),
        PlantedEvent(end_ns, "healthy"),
        PlantedEvent(end_ns + 1_000 * _MS, "consumer_end", detail='{"at_end": true}'),
    ]
    epochs = [
        PlantedEpoch(node, partition, epoch, start)
        for node in range(1, _NODES + 1)
        for partition in range(crash.partitions)
        for epoch, start in (
            (0, 0),
            *(
                [(1, crash.begin_of_epoch_1[partition])]
                if crashed and partition in CRASHED_LEADERS
                else []
            ),
        )
    ]
    return {
        "events": pa.Table.from_pylist(
            [event._asdict() for event in sorted(events, key=lambda event: event.at_ns)], EVENTS
        ),
        "epochs": pa.Table.from_pylist([epoch._asdict() for epoch in epochs], EPOCHS),
    }


def _leaders(crash: Crash) -> Iterator[PlantedEvent]:
    """Yield the leaders and in-sync replicas before the load."""
    at_ns = crash.phases.load_begin_ns - 200 * _MS
    for partition in range(crash.partitions):
        node = 1 + partition // 2 % _NODES
        where = {"partition": partition, "leader_epoch": 0}
        yield PlantedEvent(
            at_ns - 1_000 * _MS,
            "became_leader",
            node=node,
            offset=0,
            source=Source.BROKER,
            resolution_ns=_MS,
            detail=f"node {node}: Leader trial-{partition} starts at leader epoch 0",
            **where,
        )
        yield PlantedEvent(
            at_ns, "leader", node=node, source=Source.METADATA, detail=f"? -> {node}", **where
        )
        yield PlantedEvent(at_ns, "isr", source=Source.METADATA, detail="1,2,3", **where)
        for client in ("producer 0", "consumer 0"):
            yield PlantedEvent(
                at_ns,
                "leader_learned",
                node=node,
                source=Source.CLIENT,
                resolution_ns=_MS,
                detail=f"{client}: leader -1 epoch -1 -> leader {node} epoch 0",
                **where,
            )


def _crash_events(crash: Crash) -> Iterator[PlantedEvent]:
    """Yield what brokers, clients and the trial report of the crash."""
    begin_ns, heal_ns = crash.phases.fault_begin_ns, crash.phases.fault_end_ns
    if begin_ns is None or heal_ns is None:
        raise ValueError(f"a crash has the phases of a fault, not {crash.phases}")
    yield PlantedEvent(begin_ns, "fault_begin", detail=f"targets {_CRASHED}")
    yield PlantedEvent(begin_ns, "fault_kill", node=_CRASHED, detail="SIGKILL")
    yield PlantedEvent(begin_ns + _MS, "fault_effective", node=_CRASHED, detail="process ended")
    for client in ("producer 0", "consumer 0"):
        yield PlantedEvent(
            begin_ns + 2 * _MS,
            "disconnected",
            node=_CRASHED,
            source=Source.CLIENT,
            resolution_ns=_MS,
            detail=f"{client}: Disconnected",
        )
    fenced_ns = begin_ns + 1_500 * _MS
    yield PlantedEvent(
        fenced_ns, "fenced", node=_CRASHED, source=Source.BROKER, resolution_ns=_MS, detail="fenced"
    )
    yield from _elections(crash, fenced_ns)
    yield PlantedEvent(heal_ns, "fault_restart", node=_CRASHED, detail="process started")
    yield PlantedEvent(heal_ns + _MS, "fault_end", detail="healed")
    for partition, offset in crash.begin_of_epoch_1.items():
        yield PlantedEvent(
            heal_ns + 500 * _MS,
            "truncated",
            node=_CRASHED,
            partition=partition,
            offset=offset,
            source=Source.BROKER,
            resolution_ns=_MS,
            detail=f"node {_CRASHED}: Truncating to offset {offset}",
        )
    yield PlantedEvent(
        heal_ns + 400 * _MS, "unfenced", node=_CRASHED, source=Source.BROKER, resolution_ns=_MS
    )


def _elections(crash: Crash, fenced_ns: int) -> Iterator[PlantedEvent]:
    for partition, offset in crash.begin_of_epoch_1.items():
        where = {"partition": partition, "leader_epoch": 1}
        yield PlantedEvent(
            fenced_ns + 20 * _MS,
            "became_leader",
            node=_NEXT,
            offset=offset,
            source=Source.BROKER,
            resolution_ns=_MS,
            detail=f"node {_NEXT}: Leader trial-{partition} starts at leader epoch 1",
            **where,
        )
        yield PlantedEvent(
            fenced_ns + 25 * _MS,
            "leader",
            node=_NEXT,
            source=Source.METADATA,
            resolution_ns=10 * _MS,
            detail=f"{_CRASHED} -> {_NEXT}",
            **where,
        )
        yield PlantedEvent(
            fenced_ns + 25 * _MS,
            "isr",
            source=Source.METADATA,
            resolution_ns=10 * _MS,
            detail="2,3",
            **where,
        )
        for client in ("producer 0", "consumer 0"):
            yield PlantedEvent(
                fenced_ns + 60 * _MS,
                "leader_learned",
                node=_NEXT,
                source=Source.CLIENT,
                resolution_ns=_MS,
                detail=f"{client}: leader {_CRASHED} epoch 0 -> leader {_NEXT} epoch 1",
                **where,
            )
