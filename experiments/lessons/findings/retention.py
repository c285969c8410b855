"""Lesson 14: retention decides how long records stay, whether they were read or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    format_percent,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.rows import Row

_RESET: Final = "workload.auto_offset_reset"
_EARLIEST: Final = "earliest"
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Retention does not wait for consumers: a consumer that falls further behind than the log "
        "is long loses the records in between, and gets an error only with auto.offset.reset=none."
    ),
    Conclusion.REFUTED: (
        "A consumer that kept up lost records too, or one that fell further behind than the log is "
        "long lost none."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


class _Case(NamedTuple):
    """A consumer with one speed and one `auto.offset.reset`, over its trials."""

    records_per_s: float
    relative_speed: float
    """Its speed as a part of the rate at which records are written."""
    reset: str
    rows: Sequence[Row]
    """Rows of `GROUPS`."""
    expected_records: float
    """Records that a consumer of this speed cannot read before they are deleted, at least."""

    @property
    def keeps_up(self) -> bool:
        return self.relative_speed >= 1

    @property
    def unread(self) -> list[int]:
        """Records that the consumer never received, one count per trial."""
        return [row["shown_records"] - row["processed_records"] for row in self.rows]

    @property
    def name(self) -> str:
        if self.keeps_up:
            return "that keeps up"
        return f"that reads at {format_percent(self.relative_speed)} of the write rate"


def find(data: FindingInput) -> Finding:
    """Return what consumers lost to retention by their speed, and whether they got an error."""
    rows = data.rows("groups")
    cases = sorted(
        (case for cell in data.cells() if (case := _case(data, cell, rows)) is not None),
        key=lambda case: (-case.records_per_s, case.reset),
    )
    silent = [case for case in cases if case.reset == _EARLIEST]
    others = [case for case in cases if case.reset != _EARLIEST]
    conclusion = _conclusion(silent)
    sentences = (*map(_loss_sentence, silent), *map(_reset_sentence, others))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=sentences or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption=(
                "Records that Kafka deleted before a consumer read them, one dot per trial; the "
                "line is written less read less retained"
            ),
            label="records",
            rows=tuple(
                DotRow(
                    name=f"{case.records_per_s:,.0f} records/s",
                    values=tuple(case.unread),
                    expected=case.expected_records,
                )
                for case in silent
            ),
        ),
    )


def _case(
    data: FindingInput, cell: CellResult, rows_by_trial: Mapping[str, Sequence[Row]]
) -> _Case | None:
    """Return a cell's case; None where no trial has a group."""
    trials = data.cell_trials(cell)
    rows = [row for trial in trials for row in rows_by_trial.get(trial.trial_id, ())]
    if not rows:
        return None
    spec = data.plan.trial(trials[0].trial_id)
    load, topic = spec.workload, spec.topic
    retained = (
        int(topic["retention.bytes"]) + int(topic["segment.bytes"])
    ) / load.record_size_bytes
    behind = (load.rate_records_per_s - load.slow_records_per_s) * load.duration_s
    return _Case(
        records_per_s=load.slow_records_per_s,
        relative_speed=load.slow_records_per_s / load.rate_records_per_s,
        reset=str(cell.cell[_RESET]),
        rows=rows,
        expected_records=max(0.0, behind - retained),
    )


def _loss_sentence(case: _Case) -> str:
    complete = sum(records == 0 for records in case.unread)
    if complete == len(case.rows):
        trials = format_count(complete, "trial")
        return f"A consumer {case.name} received every record in each of {trials}."
    unread = median(case.unread)
    part = unread / max(1, median([row["shown_records"] for row in case.rows]))
    resets = median([row["offset_resets"] for row in case.rows])
    return (
        f"A consumer {case.name} never received {unread:,.0f} records at the median "
        f"({format_percent(part)}): they were deleted before it read them. Its client reset the "
        f"offset {resets:,.0f} times at the median, without an error to the application."
    )


def _reset_sentence(case: _Case) -> str:
    if case.reset == "none":
        errors = sum(row["stuck_partitions"] > 0 for row in case.rows)
        return (
            "With auto.offset.reset=none the client returned an error in "
            f"{errors} of {format_count(len(case.rows), 'trial')}, and read no further."
        )
    unread = median(case.unread)
    return (
        f"With auto.offset.reset={case.reset} the consumer never received {unread:,.0f} records at "
        "the median."
    )


def _conclusion(silent: Sequence[_Case]) -> Conclusion:
    """Return whether consumers that the log could not wait for lost records, and fast ones none.

    Args:
        silent: cases in which the client resets the offset without an error.
    """
    fast = [case for case in silent if case.keeps_up]
    slow = [case for case in silent if case.expected_records > 0]
    measured = bool(fast and slow) and min(len(case.rows) for case in silent) >= MIN_TRIALS
    kept = any(records == 0 for case in slow for records in case.unread)
    lost = any(records for case in fast for records in case.unread)
    return conclude([outcome(met=lost, measured=measured), outcome(met=kept, measured=measured)])
