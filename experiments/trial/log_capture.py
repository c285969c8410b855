"""What the brokers wrote during a trial: lines of their logs as events, and batches on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from ackbench.experiments.ledger.schema import BATCHES
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.trial.clients.settings.librdkafka import is_idempotent
from ackbench.experiments.trial.events.clock import ahead_of_wall_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.kafka.logs import RESOLUTION_NS, BrokerLogEvent
from ackbench.infra.kafka.replica_files import RecordBatch

STORED: Final = "stored"
"""Kind of the event with a partition's `StoredBatches`."""
_MS_PER_S: Final = 1000


@dataclass(frozen=True)
class LogCapture:
    """Where the brokers' logs ended when the trial began, and how the two clocks differed then.

    Brokers stamp their lines by the wall clock; a trial's clock is
    `experiments.trial.events.clock`.
    """

    cluster: Cluster
    topic: str
    log_sizes: Mapping[int, int]
    ahead_ns: int
    """How far the trial's clock was ahead of the wall clock."""

    @classmethod
    def start(cls, cluster: Cluster, topic: str) -> Self:
        """Capture what is logged from now on."""
        return cls(cluster, topic, cluster.node_log_sizes(), ahead_of_wall_ns())

    def broker_events(self) -> Iterator[Event]:
        """Yield the events that the brokers have logged since the start.

        A step or slew of the wall clock since then makes their time uncertain; it is added to the
        resolution.
        """
        ahead_ns = ahead_of_wall_ns()
        for line in self.cluster.node_log_events_since(self.log_sizes, self.topic):
            yield to_event(line, ahead_ns, abs(ahead_ns - self.ahead_ns))


def to_event(line: BrokerLogEvent, ahead_ns: int, uncertain_ns: int = 0) -> Event:
    """Return a line of a broker's log as an event.

    Args:
        line: stamped by the wall clock.
        ahead_ns: how far the trial's clock is ahead of the wall clock.
        uncertain_ns: how much of that is uncertain.
    """
    isr = (
        f"isr {','.join(map(str, line.isr))}: "
        if line.kind == "isr_changed" and line.isr is not None
        else ""
    )
    return Event(
        line.wall_ns + ahead_ns,
        line.kind,
        Source.BROKER,
        RESOLUTION_NS + uncertain_ns,
        line.node,
        line.partition,
        line.leader_epoch,
        line.offset,
        f"node {line.logged_by}: {isr}{line.line}",
    )


class StoredBatches(Frozen):
    """A partition's batches and their size, by second since the load began.

    A batch counts in the second of its last record; batches before the load are left out.
    """

    batches: dict[int, int]
    """How many."""
    bytes: dict[int, int]
    """Their size on disk, with batch headers and as compressed."""


def stored_batches(
    spec: TrialSpec, cluster: Cluster, topic: str, load_begin_ns: int
) -> Iterator[tuple[int, StoredBatches]]:
    """Yield each partition's number and batches, from its leader's segment files.

    Yields nothing if the trial does not check placement, or if the cluster is external: then its
    files are not accessible.

    Args:
        spec: the trial.
        cluster: a healthy cluster whose logs no longer grow.
        topic: the trial's topic.
        load_begin_ns: nanoseconds since the epoch.
    """
    if spec.workload.keys.placement and spec.cluster.traits.started_here:
        for partition, batches in _batches_by_partition(cluster, topic):
            yield partition, count_by_second(batches, load_begin_ns // 1_000_000)


def batch_table(spec: TrialSpec, cluster: Cluster, topic: str) -> pa.Table | None:
    """Return the batches of idempotent producers, from the leaders' segment files.

    Args:
        spec: the trial.
        cluster: a healthy cluster whose logs no longer grow.
        topic: the topic that the producers wrote to.

    Returns:
        A table of the schema `BATCHES`; `None`: the producers are not idempotent, or the files of
        an external cluster are not accessible.
    """
    if not (is_idempotent(spec.producer) and spec.cluster.traits.started_here):
        return None
    rows = [
        (
            partition,
            batch.base_offset,
            batch.last_offset,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )
        for partition, batches in _batches_by_partition(cluster, topic)
        for batch in batches
        if batch.producer_id >= 0
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(BATCHES)
    return pa.table(list(map(list, columns)), schema=BATCHES)


def _batches_by_partition(
    cluster: Cluster, topic: str
) -> Iterator[tuple[int, Iterator[RecordBatch]]]:
    for state in cluster.describe([topic]).of(topic):
        if state.leader is not None:
            yield (
                state.partition,
                cluster.disks.record_batches(state.leader, topic, state.partition),
            )


def count_by_second(batches: Iterable[RecordBatch], begin_ms: int) -> StoredBatches:
    """Return the number and size of batches by second. Pure."""
    counts, sizes = Counter[int](), Counter[int]()
    for batch in batches:
        second = (batch.max_timestamp_ms - begin_ms) // _MS_PER_S
        if second >= 0:
            counts[second] += 1
            sizes[second] += batch.size_bytes
    return StoredBatches(batches=dict(counts), bytes=dict(sizes))
