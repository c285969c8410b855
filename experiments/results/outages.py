"""A partition's outage, split into the steps of a failover.

How long until the controller fenced the broker, until another replica became leader, until the
client knew the new leader, and until a record was acknowledged or read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_terms import OutageStep, Side
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.results.rows import Row

_NS_PER_MS: Final = 1e6

PART_NAMES: Final[Mapping[OutageStep, str]] = {
    OutageStep.DETECTED: "until the controller fenced the broker",
    OutageStep.ELECTED: "until another replica became leader",
    OutageStep.LEARNED: "until the client knew the new leader",
    OutageStep.FIRST_AFTER: "until records flowed again",
}
"""The part of an outage that ends with each step."""

StepRows = Mapping[OutageStep, Row]
"""The rows of one gap in the table `outages`, by step."""


@dataclass(frozen=True)
class OutagePart:
    """A part of an outage, in milliseconds after the last record before the outage."""

    step: OutageStep
    """The step that ended it."""
    from_ms: float
    to_ms: float

    @property
    def lasted_ms(self) -> float:
        """The duration of this part."""
        return self.to_ms - self.from_ms


@dataclass(frozen=True)
class Outage:
    """A partition's gap, split at the steps that were observed.

    A step that was not observed has no part; its time is in the part of the next step.
    """

    trial_id: str
    partition: int
    side: Side
    parts: tuple[OutagePart, ...]
    answered: bool
    """Whether a record ended it; if not, it lasted until no load was due any more."""
    out_of_order: tuple[OutageStep, ...]
    """Steps that were observed before a step that precedes them; they end no part."""
    resolutions_ms: Mapping[OutageStep, float]

    @property
    def length_ms(self) -> float:
        """The duration of the outage.

        It begins with the last record before it, or when the next one was due, and ends with the
        first record after it, or when the trial has settled.
        """
        return self.parts[-1].to_ms

    @property
    def is_split(self) -> bool:
        """Whether a step within it was observed."""
        return len(self.parts) > 1


def outages_of(manifest: TrialManifest, rows: Sequence[Row]) -> list[Outage]:
    """Return a trial's outages of each partition and side, the longest first.

    Args:
        manifest: the trial.
        rows: its rows of the table `outages`.
    """
    outages = [
        _outage(manifest, partition, side, steps)
        for (partition, side, _), steps in steps_by_gap(rows).items()
    ]
    return sorted(outages, key=lambda outage: (-outage.length_ms, outage.partition, outage.side))


def steps_by_gap(rows: Sequence[Row]) -> dict[tuple[int, Side, int], StepRows]:
    """Return the steps of each gap, by its partition, side and begin.

    A step that was not observed has no time.
    """
    steps: dict[tuple[int, Side, int], dict[OutageStep, Row]] = {}
    for row in rows:
        gap = row["partition"], Side(row["side"]), row["began_ns"]
        steps.setdefault(gap, {})[OutageStep(row["step"])] = row
    return dict(steps)


def steps_of_longest_gaps(rows: Sequence[Row]) -> dict[tuple[int, Side], StepRows]:
    """Return the steps of the longest gap of each partition and side, as far as it is an outage."""
    longest = steps_by_gap([row for row in rows if row["longest"]])
    return {(partition, side): steps for (partition, side, _), steps in longest.items()}


def observed_times_ns(steps: StepRows) -> dict[OutageStep, int]:
    """Return the time of each observed step, in nanoseconds."""
    return {step: row["at_ns"] for step, row in steps.items() if row["at_ns"] is not None}


def split_outage(
    begin_ns: int, at_ns: Mapping[OutageStep, int]
) -> tuple[tuple[OutagePart, ...], tuple[OutageStep, ...]]:
    """Return the parts of an outage, and the steps that are out of order and end no part.

    Args:
        begin_ns: when it began.
        at_ns: the observed steps; `FIRST_AFTER`, its end, must be among them.
    """
    parts: list[OutagePart] = []
    out_of_order: list[OutageStep] = []
    for step in (step for step in PART_NAMES if step in at_ns):
        from_ms = parts[-1].to_ms if parts else 0.0
        to_ms = (at_ns[step] - begin_ns) / _NS_PER_MS
        if from_ms <= to_ms and at_ns[step] <= at_ns[OutageStep.FIRST_AFTER]:
            parts.append(OutagePart(step, from_ms, to_ms))
        else:
            out_of_order.append(step)
    return tuple(parts) or (OutagePart(OutageStep.FIRST_AFTER, 0.0, 0.0),), tuple(out_of_order)


def _outage(manifest: TrialManifest, partition: int, side: Side, steps: StepRows) -> Outage:
    at_ns = observed_times_ns(steps)
    answered = OutageStep.FIRST_AFTER in at_ns
    ended = {
        **at_ns,
        OutageStep.FIRST_AFTER: at_ns.get(OutageStep.FIRST_AFTER, manifest.phases.settled_ns),
    }
    parts, out_of_order = split_outage(
        at_ns.get(OutageStep.LAST_BEFORE, manifest.phases.load_begin_ns), ended
    )
    resolutions_ms = {
        step: row["resolution_ns"] / _NS_PER_MS
        for step, row in steps.items()
        if row["resolution_ns"] is not None
    }
    return Outage(manifest.trial_id, partition, side, parts, answered, out_of_order, resolutions_ms)
