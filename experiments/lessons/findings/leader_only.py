"""Lesson 1: producers write to and consumers read from the leader only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.lessons.finding import LEAST_TRIALS, Conclusion, Finding, FindingInput, percent
from experiments.lessons.plots import BarPart, BarRow, BarsPlot
from experiments.messages.counts import counted
from experiments.results.models import TrialResult
from experiments.results.rows import Row

LESSON = 1
_RACK = "consumer.client.rack"
_COUNTERS = ("BytesOutPerSec", "MessagesInPerSec")
_SIDES = {"producer": "written to", "consumer": "read from"}


def find(material: FindingInput) -> Finding:
    """Return who served writes and reads, before and after the leader died, and what a consumer does that names a rack."""
    rows = material.rows("serving")
    trials = [trial for trial in material.trials() if rows.get(trial.trial_id)]
    plain, racked = (
        [trial for trial in trials if bool(trial.cell.get(_RACK)) is named]
        for named in (False, True)
    )
    of_plain, of_racked = (
        [row for trial in of for row in rows[trial.trial_id]] for of in (plain, racked)
    )
    conclusion = _conclude(plain, of_plain, of_racked)
    told = (
        _plainly(plain, of_plain),
        _counted(plain, rows, material.rows("brokers")),
        _moved(plain, rows),
        _by_rack(racked, of_racked),
    )
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(filter(None, told)) or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=2 * LEAST_TRIALS if conclusion is Conclusion.INCONCLUSIVE else None,
        plot=BarsPlot(
            caption="Records by who served them",
            label="records",
            rows=tuple(_bars("", of_plain) + _bars(", client.rack", of_racked)),
        ),
    )


_REMARKS = {
    Conclusion.SUPPORTED: "So a follower served nobody.",
    Conclusion.PARTLY_SUPPORTED: "So the leader alone serves, but for consumers with a client.rack, where brokers have a replica.selector.class (KIP-392).",
    Conclusion.REFUTED: "So brokers served records of partitions that they did not lead, though nobody had asked for it.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged to tell.",
}


def _records(rows: Sequence[Row]) -> int:
    return sum(row["records"] for row in rows)


def _elsewhere(rows: Sequence[Row]) -> int:
    """Return how many records were served by a broker that was, for a part of that time at least, not their partition's leader."""
    return sum(row["records"] for row in rows if row["non_leader_ns"] > 0)


def _plainly(trials: Sequence[TrialResult], rows: Sequence[Row]) -> str | None:
    if not trials:
        return None
    told = [
        f"{_records(of) - _elsewhere(of):,} records were {verb} the leader and {_elsewhere(of):,} {verb.split()[-1]} a follower"
        for side, verb in _SIDES.items()
        for of in ([row for row in rows if row["side"] == side],)
    ]
    return f"In {counted(len(trials), 'trial')}, {' and '.join(told)}."


def _counted(
    trials: Sequence[TrialResult],
    served: Mapping[str, Sequence[Row]],
    counts: Mapping[str, Sequence[Row]],
) -> str | None:
    """Return what the brokers' own counters say of those that no client was served by."""
    idle = [
        row
        for trial in trials
        for row in counts.get(trial.trial_id, ())
        if row["node"] not in {served_by["node"] for served_by in served[trial.trial_id]}
    ]
    if not idle:
        return None
    sent, taken = (sum(row["count"] for row in idle if row["name"] == name) for name in _COUNTERS)
    brokers = counted(len(idle) // len({row["name"] for row in idle}), "broker")
    return f"By their own counters, the {brokers} that no client named sent {sent:,} bytes to consumers and took {taken:,} records."


def _moved(trials: Sequence[TrialResult], rows: Mapping[str, Sequence[Row]]) -> str | None:
    """Return in how many trials with a killed leader its partition was read from several brokers, one after the other."""
    killed = [trial for trial in trials if trial.cell["fault"] != "none"]
    served = [
        {
            row["node"]
            for row in rows[trial.trial_id]
            if row["partition"] == 0 and row["side"] == "consumer"
        }
        for trial in killed
    ]
    if not killed:
        return None
    several = sum(len(nodes) > 1 for nodes in served)
    return f"Where a partition's leader was killed, it was read from one broker before and from another one after, in {several} of {len(killed)}."


def _bars(of: str, rows: Sequence[Row]) -> list[BarRow]:
    sides = {verb: [row for row in rows if row["side"] == side] for side, verb in _SIDES.items()}
    return [
        BarRow(
            name=f"{verb}{of}",
            parts=(
                BarPart(name="the leader", value=_records(those) - _elsewhere(those)),
                BarPart(name="a follower", value=_elsewhere(those)),
            ),
        )
        for verb, those in sides.items()
        if those
    ]


def _by_rack(trials: Sequence[TrialResult], rows: Sequence[Row]) -> str | None:
    reads = [row for row in rows if row["side"] == "consumer"]
    if not reads:
        return None
    share = _elsewhere(reads) / max(1, _records(reads))
    return f"A consumer that named its rack read {percent(share)} of its records from a follower in {counted(len(trials), 'trial')}."


def _conclude(
    trials: Sequence[TrialResult], plain: Sequence[Row], racked: Sequence[Row]
) -> Conclusion:
    if len(trials) < LEAST_TRIALS or {row["side"] for row in plain} != set(_SIDES):
        return Conclusion.INCONCLUSIVE
    if _elsewhere(plain):
        return Conclusion.REFUTED
    return Conclusion.PARTLY_SUPPORTED if _elsewhere(racked) else Conclusion.SUPPORTED
