"""What others wrote down of a trial, as events on the trial's clock: the brokers' own logs, and the clients'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from experiments.clock import ahead_of_wall_ns
from experiments.journal import Event
from experiments.ledger.schema import Source
from infra.broker_log import RESOLUTION_NS, BrokerLine
from infra.cluster import Cluster


@dataclass(frozen=True)
class Hearing:
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
        for line in self.cluster.told_since(self.log_sizes, self.topic):
            yield event_of(line, ahead_ns, abs(ahead_ns - self.ahead_ns))


def event_of(line: BrokerLine, ahead_ns: int, uncertain_ns: int = 0) -> Event:
    """Return a broker's line as an event.

    Args:
        line: what it wrote, by the wall clock.
        ahead_ns: how far the trial's clock is before the wall clock.
        uncertain_ns: how much of that is not known.
    """
    isr = f"isr {','.join(map(str, line.isr))}: " if line.kind == "isr_changed" and line.isr is not None else ""
    detail = f"node {line.speaker}: {isr}{line.line}"
    resolution_ns = RESOLUTION_NS + uncertain_ns
    return Event(line.wall_ns + ahead_ns, line.kind, Source.BROKER, resolution_ns, line.node, line.partition, line.leader_epoch, line.offset, detail)
