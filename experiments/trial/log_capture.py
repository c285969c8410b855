"""What others wrote down of a trial, as events on the trial's clock: the brokers' own logs, and the clients'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from experiments.events.clock import ahead_of_wall_ns
from experiments.events.journal import Event
from experiments.ledger.record import Frozen
from experiments.ledger.schema import Source
from experiments.sweep.plan import TrialSpec
from infra.cluster.interface import Cluster
from infra.disk.log_files import Batch
from infra.kafka.logs import RESOLUTION_NS, BrokerLine


@dataclass(frozen=True)
class LogCapture:
    """Where the brokers' logs were when the trial began, and how our clock stood to theirs, which is the wall clock."""

    cluster: Cluster
    topic: str
    log_sizes: Mapping[int, int]
    ahead_ns: int

    @classmethod
    def begin(cls, cluster: Cluster, topic: str) -> Self:
        """Hear what is written from now on."""
        return cls(cluster, topic, cluster.log_sizes(), ahead_of_wall_ns())

    def broker_events(self) -> Iterator[Event]:
        """Give what the brokers wrote since then; what the wall clock was stepped or slewed meanwhile is uncertain, and added to the resolution."""
        ahead_ns = ahead_of_wall_ns()
        for line in self.cluster.log_lines_since(self.log_sizes, self.topic):
            yield event_of(line, ahead_ns, abs(ahead_ns - self.ahead_ns))


def event_of(line: BrokerLine, ahead_ns: int, uncertain_ns: int = 0) -> Event:
    """Return a broker's line as an event.

    Args:
        line: what it wrote, by the wall clock.
        ahead_ns: how far the trial's clock is before the wall clock.
        uncertain_ns: how much of that is not known.
    """
    isr = (
        f"isr {','.join(map(str, line.isr))}: "
        if line.kind == "isr_changed" and line.isr is not None
        else ""
    )
    detail = f"node {line.speaker}: {isr}{line.line}"
    resolution_ns = RESOLUTION_NS + uncertain_ns
    return Event(
        line.wall_ns + ahead_ns,
        line.kind,
        Source.BROKER,
        resolution_ns,
        line.node,
        line.partition,
        line.leader_epoch,
        line.offset,
        detail,
    )


# ---------- How a topic's records lie in the log: batches and their bytes, by partition and second, as the leaders' own files have them.


STORED: Final = "stored"
"""The kind of the event, one for each partition."""
_MS_PER_S: Final = 1000


class StoredBatches(Frozen):
    """What one partition's log holds, by whole seconds since the load's begin, of a batch that of its last record; what is older is left out."""

    batches: dict[int, int]
    bytes: dict[int, int]
    """With the batches' headers, and compressed where they are."""


def stored_batches(
    spec: TrialSpec, cluster: Cluster, topic: str, load_begin_ns: int
) -> Iterator[tuple[int, StoredBatches]]:
    """Give what each partition's leader holds; nothing where nobody asks, or where the files are out of reach.

    Args:
        spec: the trial.
        cluster: whole; its logs do not grow any more.
        topic: the trial's.
        load_begin_ns: since the epoch.
    """
    if not spec.workload.placement or spec.cluster.external:
        return
    for state in cluster.describe([topic]).of(topic):
        if state.leader is not None:
            yield (
                state.partition,
                by_second(
                    cluster.disks.batches(state.leader, topic, state.partition),
                    load_begin_ns // 1_000_000,
                ),
            )


def by_second(batches: Iterable[Batch], begin_ms: int) -> StoredBatches:
    """Count batches and bytes by second. Pure."""
    counts, sizes = Counter[int](), Counter[int]()
    for batch in batches:
        second = (batch.max_timestamp_ms - begin_ms) // _MS_PER_S
        if second >= 0:
            counts[second] += 1
            sizes[second] += batch.size_bytes
    return StoredBatches(batches=dict(counts), bytes=dict(sizes))
