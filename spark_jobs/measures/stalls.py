"""When the harness kept a side's clients from running: time that is not Kafka's.

    stalled(producer) = the times in which every producer was stalled at once
    stalled(consumer) = the times in which the concurrent consumer was stalled

A stall of the entire machine, or of the relays, is one of each client. One producer that runs shows
whether partitions acknowledge, so a stall of another one explains no gap. A trial has a few stalls:
this is plain Python, except for the times within many gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.stalls import (
    CONSUMER,
    OF_EACH_CLIENT,
    STALLED,
    STALLS_SAMPLED,
    Stall,
    StallSampling,
    producer_name,
)
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.spark_jobs.io.columns import IntColumn

Span = tuple[int, int]
"""Begin and end, nanoseconds since the epoch."""


@dataclass(frozen=True)
class Spans:
    """Times that do not overlap, in ascending order."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        """Return the times in at least one of the spans."""
        joined: list[Span] = []
        for begin, end in sorted(spans):
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            elif begin < end:
                joined.append((begin, end))
        return cls(tuple(joined))

    def __or__(self, other: Spans) -> Spans:
        """Return the times in either."""
        return Spans.of([*self.spans, *other.spans])

    def __and__(self, other: Spans) -> Spans:
        """Return the times in both."""
        return Spans.of(
            (max(one[0], another[0]), min(one[1], another[1]))
            for one in self.spans
            for another in other.spans
        )

    def within_ns(self, began_ns: IntColumn, ended_ns: IntColumn) -> IntColumn:
        """Return how long these times are within each of other times."""
        return self._before_ns(ended_ns) - self._before_ns(began_ns)

    def total_within_ns(self, began_ns: int, ended_ns: int) -> int:
        """Return how long these times are within one other time."""
        at_ns = np.array([began_ns, ended_ns], np.int64)
        return int(self.within_ns(at_ns[:1], at_ns[1:])[0])

    def _before_ns(self, at_ns: IntColumn) -> IntColumn:
        begins, ends = np.array(self.spans, np.int64).reshape(-1, 2).T
        lasted = np.concatenate([[0], np.cumsum(ends - begins)])
        begun = np.searchsorted(begins, at_ns, side="right")
        to_come = np.append(0, ends)[begun] - at_ns
        before: IntColumn = lasted[begun] - np.where(begun > 0, np.maximum(to_come, 0), 0)
        return before


@dataclass(frozen=True)
class TrialStalls:
    """The stalls of a trial."""

    stalls: tuple[Stall, ...] = ()
    """By begin."""
    sampling: StallSampling | None = None
    """How the trial looked for stalls; `None`: an older ledger."""
    producer: Spans = Spans()
    """When every producer was stalled."""
    any_producer: Spans = Spans()
    consumer: Spans = Spans()


NO_STALLS: Final = TrialStalls()


def stalls_of(manifest: TrialManifest, events: pa.Table) -> TrialStalls:
    """Return a trial's stalls; none if its ledger is older than these events.

    Args:
        manifest: of the trial.
        events: of the schema `experiments.ledger.schema.EVENTS`.
    """
    noted = events.filter(pc.field("kind") == STALLED)["detail"].to_pylist()
    sampled = events.filter(pc.field("kind") == STALLS_SAMPLED).select(["at_ns", "detail"])
    _, last = max(zip(*sampled.to_pydict().values(), strict=True), default=(0, None))
    stalls = sorted(
        map(Stall.model_validate_json, noted),
        key=lambda stall: (stall.began_ns, stall.model_dump_json()),
    )
    producers = [
        _spans_of(stalls, producer_name(producer.producer)) for producer in manifest.producers
    ]
    return TrialStalls(
        tuple(stalls),
        sampling=None if last is None else StallSampling.model_validate_json(last),
        producer=reduce(Spans.__and__, producers) if producers else Spans(),
        any_producer=reduce(Spans.__or__, producers, Spans()),
        consumer=_spans_of(stalls, CONSUMER),
    )


def _spans_of(stalls: Sequence[Stall], process: str) -> Spans:
    return Spans.of(
        (stall.began_ns, stall.ended_ns)
        for stall in stalls
        if stall.process in {process, *OF_EACH_CLIENT}
    )
