"""Lesson 13: a record's fields are kept, and the log can be read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.ledger.workload_tables import Field
from experiments.lessons.finding import LEAST_TRIALS, Conclusion, Finding, FindingInput, percent
from experiments.lessons.plots import BarPart, BarRow, BarsPlot
from experiments.messages.counts import counted
from experiments.results.models import TrialResult
from experiments.results.rows import Row

LESSON = 13
_APPENDED = "LogAppendTime"


def find(material: FindingInput) -> Finding:
    """Return which fields were read as they were sent, through a failover and without, and whether the replays were alike."""
    fields, replays = material.rows("fields"), material.rows("replays")
    trials = [trial for trial in material.trials() if fields.get(trial.trial_id)]
    kept, appended = (
        [trial for trial in trials if _is_appended(trial) is other] for other in (False, True)
    )
    of_kept = [row for trial in kept for row in fields[trial.trial_id]]
    stamped = [
        row
        for trial in appended
        for row in fields[trial.trial_id]
        if row["field"] == Field.TIMESTAMP
    ]
    again = [
        row for trial in trials for row in replays.get(trial.trial_id, ()) if row["replay"] > 1
    ]
    conclusion = _conclude(
        trials,
        [
            *of_kept,
            *(
                row
                for trial in appended
                for row in fields[trial.trial_id]
                if row["field"] != Field.TIMESTAMP
            ),
        ],
        stamped,
        again,
    )
    told = [_compared(kept, of_kept), _replayed(again), _stamped(stamped)]
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(filter(None, told)) or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=2 * LEAST_TRIALS if conclusion is Conclusion.INCONCLUSIVE else None,
        plot=_plot(
            [
                ("the producer's own timestamp", of_kept),
                (_APPENDED, [row for trial in appended for row in fields[trial.trial_id]]),
            ]
        ),
    )


_REMARKS = {
    Conclusion.SUPPORTED: "So what was sent is what is read, also by who reads it after the failover, and as often as anybody likes.",
    Conclusion.PARTLY_SUPPORTED: "So all is kept but the timestamp, where the topic has it that the broker's clock counts (message.timestamp.type=LogAppendTime).",
    Conclusion.REFUTED: "So records were not read as they were sent, or not twice the same.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged to tell.",
}


def _is_appended(trial: TrialResult) -> bool:
    return trial.cell.get("message.timestamp.type") == _APPENDED


def _sum(
    rows: Sequence[Row], column: str, wanted: Callable[[Row], bool] = lambda _row: True
) -> int:
    return sum(row[column] for row in rows if wanted(row))


def _compared(trials: Sequence[TrialResult], rows: Sequence[Row]) -> str | None:
    if not trials:
        return None
    killed = sum(trial.cell["fault"] != "none" for trial in trials)
    by_field = {row["field"]: 0 for row in rows}
    for row in rows:
        by_field[row["field"]] += row["differing_records"]
    differing = ", ".join(f"{field.value} {by_field.get(field.value, 0):,}" for field in Field)
    records = _sum(rows, "compared_records", lambda row: bool(row["field"] == Field.VALUE))
    compared = f"In {counted(len(trials), 'trial')}, {killed} of them with a killed leader, {records:,} records were compared with what was sent"
    return f"{compared}; not the same were: {differing}."


def _replayed(again: Sequence[Row]) -> str | None:
    if not again:
        return None
    differing, absent = _sum(again, "differing_records"), _sum(again, "absent_records")
    read = f"{counted(len(again), 'further replay')} of {_sum(again, 'records'):,} records in all"
    return f"{read} gave {differing:,} that the first had not given so, and lacked {absent:,}."


def _stamped(rows: Sequence[Row]) -> str | None:
    if not rows:
        return None
    share = _sum(rows, "differing_records") / max(1, _sum(rows, "compared_records"))
    return f"With message.timestamp.type={_APPENDED}, {percent(share)} of the timestamps were others than were sent."


def _conclude(
    trials: Sequence[TrialResult], rows: Sequence[Row], stamped: Sequence[Row], again: Sequence[Row]
) -> Conclusion:
    if (
        sum(trial.cell["fault"] != "none" for trial in trials) < LEAST_TRIALS
        or not again
        or not _sum(rows, "compared_records")
    ):
        return Conclusion.INCONCLUSIVE
    if (
        _sum(rows, "differing_records")
        or _sum(again, "differing_records")
        or _sum(again, "absent_records")
    ):
        return Conclusion.REFUTED
    return (
        Conclusion.PARTLY_SUPPORTED if _sum(stamped, "differing_records") else Conclusion.SUPPORTED
    )


def _plot(sides: Sequence[tuple[str, Sequence[Row]]]) -> BarsPlot:
    rows = [
        BarRow(
            name=f"{field.value}, {side}",
            parts=tuple(_parts([row for row in of if row["field"] == field])),
        )
        for side, of in sides
        for field in Field
        if any(row["field"] == field for row in of)
    ]
    return BarsPlot(
        caption="Records whose field was read as it was sent, and others",
        label="records",
        rows=tuple(rows),
    )


def _parts(rows: Sequence[Row]) -> list[BarPart]:
    differing = _sum(rows, "differing_records")
    return [
        BarPart(name="as sent", value=_sum(rows, "compared_records") - differing),
        BarPart(name="otherwise", value=differing),
    ]
