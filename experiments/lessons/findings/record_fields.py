"""Lesson 13: the fields of a record are kept, and the log can be read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ackbench.experiments.ledger.workload_tables import Field
from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    format_percent,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import BarPart, BarRow, BarsPlot
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.results.rows import Row

_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_LOG_APPEND_TIME: Final = "LogAppendTime"
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Consumers read what was sent, also after a failover and as often as they like."
    ),
    Conclusion.PARTLY_SUPPORTED: (
        "All fields were kept except the timestamp where the topic takes the broker's clock "
        f"({_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}; the default is CreateTime)."
    ),
    Conclusion.REFUTED: "Records were not read as they were sent, or two replays differ.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


def find(data: FindingInput) -> Finding:
    """Return which fields were read as sent, through a failover too, and whether replays agree."""
    fields, replays = data.rows("fields"), data.rows("replays")
    trials = [trial for trial in data.trials() if fields.get(trial.trial_id)]
    create_time = [trial for trial in trials if not _has_log_append_time(trial)]
    create_rows = [row for trial in create_time for row in fields[trial.trial_id]]
    append_rows = [
        row for trial in trials if _has_log_append_time(trial) for row in fields[trial.trial_id]
    ]
    overwritten = [row for row in append_rows if row["field"] == Field.TIMESTAMP]
    kept = [*create_rows, *(row for row in append_rows if row["field"] != Field.TIMESTAMP)]
    again = [
        row for trial in trials for row in replays.get(trial.trial_id, ()) if row["replay"] > 1
    ]
    conclusion = _conclusion(trials, kept, overwritten, again)
    sentences = (
        *_fields_sentence(create_time, create_rows),
        *_replays_sentence(again),
        *_timestamp_sentence(overwritten),
    )
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=sentences or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=BarsPlot(
            caption="Records by whether a field was read as it was sent",
            label="records",
            rows=(*_bars("CreateTime", create_rows), *_bars(_LOG_APPEND_TIME, append_rows)),
        ),
    )


def _has_log_append_time(trial: TrialResult) -> bool:
    return trial.cell.get(_TIMESTAMP_TYPE) == _LOG_APPEND_TIME


def _with_failover(trials: Sequence[TrialResult]) -> int:
    return sum(trial.cell["fault"] != "none" for trial in trials)


def _sum(rows: Sequence[Row], column: str) -> int:
    return sum(row[column] for row in rows)


def _of_field(rows: Sequence[Row], field: Field) -> list[Row]:
    return [row for row in rows if row["field"] == field]


def _fields_sentence(trials: Sequence[TrialResult], rows: Sequence[Row]) -> Iterator[str]:
    if trials:
        differing = ", ".join(
            f"{field.value} {_sum(_of_field(rows, field), 'differing_records'):,}"
            for field in Field
        )
        records = _sum(_of_field(rows, Field.VALUE), "compared_records")
        yield (
            f"In {format_count(len(trials), 'trial')}, {_with_failover(trials)} of them with a "
            f"leader crash, {records:,} records were compared with what was sent; records that "
            f"differ: {differing}."
        )


def _replays_sentence(again: Sequence[Row]) -> Iterator[str]:
    if again:
        yield (
            f"{format_count(len(again), 'further replay')} of {_sum(again, 'records'):,} records "
            f"in total returned {_sum(again, 'differing_records'):,} that differ from the first "
            f"replay, and {_sum(again, 'absent_records'):,} were missing."
        )


def _timestamp_sentence(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        part = _sum(rows, "differing_records") / max(1, _sum(rows, "compared_records"))
        yield (
            f"With {_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}, {format_percent(part)} of the timestamps "
            "differ from what was sent."
        )


def _conclusion(
    trials: Sequence[TrialResult],
    kept: Sequence[Row],
    overwritten: Sequence[Row],
    again: Sequence[Row],
) -> Conclusion:
    """Return whether fields and replays are as sent.

    Args:
        trials: all judged trials.
        kept: rows of the fields that must be as sent.
        overwritten: rows of timestamps that the broker may overwrite.
        again: rows of all replays but the first.
    """
    differing = (
        _sum(kept, "differing_records")
        + _sum(again, "differing_records")
        + _sum(again, "absent_records")
    )
    measured = (
        _with_failover(trials) >= MIN_TRIALS and bool(again) and _sum(kept, "compared_records") > 0
    )
    return conclude(
        [outcome(met=differing > 0, measured=measured)],
        limited=_sum(overwritten, "differing_records") > 0,
    )


def _bars(timestamp_type: str, rows: Sequence[Row]) -> Iterator[BarRow]:
    for field in Field:
        of_field = _of_field(rows, field)
        if of_field:
            differing = _sum(of_field, "differing_records")
            compared = _sum(of_field, "compared_records")
            yield BarRow(
                name=f"{field.value}, {timestamp_type}",
                parts=(
                    BarPart(name="as sent", value=compared - differing),
                    BarPart(name="different", value=differing),
                ),
            )
