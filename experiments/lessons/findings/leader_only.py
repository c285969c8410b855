"""Lesson 1: producers write to the leader only, and consumers read from the leader only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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

_RACK: Final = "consumer.client.rack"
_TARGET: Final = 0
"""The partition whose leader the fault crashes."""
_SENT, _RECEIVED = "BytesOutPerSec", "MessagesInPerSec"
_SIDES: Final = {"producer": "written to", "consumer": "read from"}
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "No follower served a client.",
    Conclusion.PARTLY_SUPPORTED: (
        "Only the leader serves clients, except consumers that set client.rack, where the brokers "
        "have a replica.selector.class (KIP-392)."
    ),
    Conclusion.REFUTED: (
        "Brokers served records of partitions that they did not lead, to clients without a "
        "client.rack."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}
_RowsByTrial = Mapping[str, Sequence[Row]]


def find(data: FindingInput) -> Finding:
    """Return which brokers served reads and writes, also after a leader crash and with a rack."""
    served = data.rows("serving")
    trials = [trial for trial in data.trials() if served.get(trial.trial_id)]
    plain = [trial for trial in trials if not trial.cell.get(_RACK)]
    racked = [trial for trial in trials if trial.cell.get(_RACK)]
    plain_rows = [row for trial in plain for row in served[trial.trial_id]]
    racked_rows = [row for trial in racked for row in served[trial.trial_id]]
    sentences = (
        *_serving_sentence(plain, plain_rows),
        *_idle_brokers_sentence(plain, served, data.rows("brokers")),
        *_failover_sentence(plain, served),
        *_rack_sentence(racked, racked_rows),
    )
    conclusion = _conclusion(plain, plain_rows, racked_rows)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=sentences or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=BarsPlot(
            caption="Records by the broker that served them",
            label="records",
            rows=(*_bars("", plain_rows), *_bars(", client.rack set", racked_rows)),
        ),
    )


def _records(rows: Sequence[Row]) -> int:
    return sum(row["records"] for row in rows)


def _follower_records(rows: Sequence[Row]) -> int:
    """Return the records of brokers that did not lead the partition for all of that time."""
    return sum(row["records"] for row in rows if row["non_leader_ns"] > 0)


def _leader_records(rows: Sequence[Row]) -> int:
    return _records(rows) - _follower_records(rows)


def _of_side(rows: Sequence[Row], side: str) -> list[Row]:
    return [row for row in rows if row["side"] == side]


def _serving_sentence(trials: Sequence[TrialResult], rows: Sequence[Row]) -> Iterator[str]:
    if trials:
        sides = [
            f"{_leader_records(of_side):,} records were {action} the leader and "
            f"{_follower_records(of_side):,} {action.split()[-1]} a follower"
            for side, action in _SIDES.items()
            for of_side in (_of_side(rows, side),)
        ]
        yield f"In {format_count(len(trials), 'trial')}, {' and '.join(sides)}."


def _idle_brokers_sentence(
    trials: Sequence[TrialResult], served: _RowsByTrial, counters: _RowsByTrial
) -> Iterator[str]:
    """Yield the brokers' own counters, for brokers by which no client reports to be served."""
    idle = [
        row
        for trial in trials
        for row in counters.get(trial.trial_id, ())
        if row["node"] not in {served_by["node"] for served_by in served[trial.trial_id]}
    ]
    if idle:
        sent, received = (
            sum(row["count"] for row in idle if row["name"] == name) for name in (_SENT, _RECEIVED)
        )
        brokers = format_count(len(idle) // len({row["name"] for row in idle}), "broker")
        yield (
            f"By their own counters, the {brokers} that served no client sent {sent:,} bytes to "
            f"consumers and received {received:,} records."
        )


def _failover_sentence(trials: Sequence[TrialResult], served: _RowsByTrial) -> Iterator[str]:
    """Yield in how many trials with a leader crash consumers changed to another broker."""
    crashed = [trial for trial in trials if trial.cell["fault"] != "none"]
    if crashed:
        nodes = [
            {
                row["node"]
                for row in _of_side(served[trial.trial_id], "consumer")
                if row["partition"] == _TARGET
            }
            for trial in crashed
        ]
        several = sum(len(of_trial) > 1 for of_trial in nodes)
        yield (
            "Where the leader of a partition crashed, consumers read from one broker before and "
            f"from another one after, in {several} of {len(crashed)} trials."
        )


def _rack_sentence(trials: Sequence[TrialResult], rows: Sequence[Row]) -> Iterator[str]:
    reads = _of_side(rows, "consumer")
    if reads:
        part = _follower_records(reads) / max(1, _records(reads))
        yield (
            f"A consumer with client.rack set read {format_percent(part)} of its records from a "
            f"follower in {format_count(len(trials), 'trial')}."
        )


def _bars(suffix: str, rows: Sequence[Row]) -> Iterator[BarRow]:
    for side, action in _SIDES.items():
        of_side = _of_side(rows, side)
        if of_side:
            yield BarRow(
                name=f"{action}{suffix}",
                parts=(
                    BarPart(name="the leader", value=_leader_records(of_side)),
                    BarPart(name="a follower", value=_follower_records(of_side)),
                ),
            )


def _conclusion(
    trials: Sequence[TrialResult], plain_rows: Sequence[Row], racked_rows: Sequence[Row]
) -> Conclusion:
    """Return whether followers served no client; partly, if one with client.rack was served."""
    both_sides = {row["side"] for row in plain_rows} == set(_SIDES)
    follower = outcome(
        met=_follower_records(plain_rows) > 0,
        measured=len(trials) >= MIN_TRIALS and both_sides,
    )
    return conclude([follower], limited=_follower_records(racked_rows) > 0)
