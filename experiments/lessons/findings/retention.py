"""Lesson 14: retention decides how long records stay, whether they were read or not."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from experiments.lessons.finding import LEAST_TRIALS, Conclusion, Finding, FindingInput, percent
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import counted
from experiments.results.rows import Row

LESSON = 14
_RATE = "workload.slow_records_per_s"
_RESET = "workload.out_of_range"


class _Speed(NamedTuple):
    """Trials in which the consumer had one speed, and went on in one way where its offset was gone."""

    records_per_s: float
    share: float
    """Of the rate at which records were written."""
    reset: str
    rows: Sequence[Row]
    expected_records: float
    """That a consumer of this speed cannot have read before they were deleted, at the least."""

    @property
    def unread(self) -> list[int]:
        """How many records each trial's consumer never got."""
        return [row["shown_records"] - row["processed_records"] for row in self.rows]

    @property
    def name(self) -> str:
        return (
            "that keeps up"
            if self.share >= 1
            else f"that reads at {percent(self.share)} of the rate at which they are written"
        )


def find(material: FindingInput) -> Finding:
    """Return what a consumer lost to retention by its speed, and whether it was told."""
    speeds = sorted(_speeds(material), key=lambda speed: (-speed.records_per_s, speed.reset))
    silent = [speed for speed in speeds if speed.reset == "earliest"]
    conclusion = _conclude(silent)
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=(
            *map(_loss, silent),
            *(_otherwise(speed) for speed in speeds if speed.reset != "earliest"),
        )
        or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=2 * LEAST_TRIALS if conclusion is Conclusion.INCONCLUSIVE else None,
        plot=DotsPlot(
            caption="Records that Kafka deleted before a consumer read them, a dot a trial; the line: written, less read, less kept",
            label="records",
            rows=tuple(
                DotRow(
                    name=_row_name(speed),
                    values=tuple(speed.unread),
                    expected=speed.expected_records,
                )
                for speed in silent
            ),
        ),
    )


_REMARKS = {
    Conclusion.SUPPORTED: "So retention waits for nobody: who falls further behind than the log is long loses what lies between, and is only told so with none.",
    Conclusion.REFUTED: "So a consumer that kept up lost records too, or a slow one lost none.",
    Conclusion.PARTLY_SUPPORTED: "So not every slow consumer lost records in every trial.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged to tell.",
}


def _speeds(material: FindingInput) -> list[_Speed]:
    rows = material.rows("groups")
    found = []
    for cell in material.cells():
        trials = material.trials(
            **{name.replace(".", "__"): value for name, value in cell.cell.items()}
        )
        of_cell = [row for trial in trials for row in rows.get(trial.trial_id, ())]
        if of_cell:
            found.append(_speed(material, trials[0].trial_id, str(cell.cell[_RESET]), of_cell))
    return found


def _speed(material: FindingInput, trial_id: str, reset: str, rows: Sequence[Row]) -> _Speed:
    spec = material.plan.trial(trial_id)
    load, topic = spec.workload, spec.topic
    slow = load.slow_records_per_s
    kept_bytes = int(topic["retention.bytes"]) + int(topic["segment.bytes"])
    behind = (
        load.rate_records_per_s - slow
    ) * load.duration_s - kept_bytes / load.record_size_bytes
    return _Speed(slow, slow / load.rate_records_per_s, reset, rows, max(0.0, behind))


def _loss(speed: _Speed) -> str:
    got_all = sum(records == 0 for records in speed.unread)
    if got_all == len(speed.rows):
        return f"A consumer {speed.name} got every record in each of {counted(got_all, 'trial')}."
    share = median(speed.unread) / max(1, median([row["shown_records"] for row in speed.rows]))
    resets = median([row["offset_resets"] for row in speed.rows])
    return (
        f"One {speed.name} never got {median(speed.unread):,.0f} records at the median ({percent(share)}), which were deleted before it came to them: "
        f"its client jumped forward {resets:,.0f} times at the median, and told the application nothing."
    )


def _otherwise(speed: _Speed) -> str:
    if speed.reset == "none":
        told = sum(row["stuck_partitions"] > 0 for row in speed.rows)
        return f"With auto.offset.reset=none it was told so in {told} of {counted(len(speed.rows), 'trial')}, and read no further."
    return f"With auto.offset.reset={speed.reset} it never got {median(speed.unread):,.0f}."


def _row_name(speed: _Speed) -> str:
    return f"{speed.records_per_s:,.0f} records/s"


def _conclude(silent: Sequence[_Speed]) -> Conclusion:
    fast, slow = (
        [speed for speed in silent if (speed.share >= 1) is keeps_up] for keeps_up in (True, False)
    )
    if not fast or not slow or min(len(speed.rows) for speed in silent) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    lost = [records > 0 for speed in slow for records in speed.unread]
    if any(records for speed in fast for records in speed.unread) or not any(lost):
        return Conclusion.REFUTED
    return Conclusion.SUPPORTED if all(lost) else Conclusion.PARTLY_SUPPORTED
