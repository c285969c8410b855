"""Lesson 8: without idempotence a retry stores a duplicate; with it the broker discards the retry.

Idempotence also keeps the order, and is slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Final

from experiments.comparing.pairing import paired_numbers
from experiments.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    RATE_AXIS,
    Conclusion,
    Finding,
    FindingInput,
    acked_in_time_percent,
    describe_values,
    repeats_needed,
    share_with,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.results.models import CellResult, TrialResult
from experiments.verdicts.statistics import Estimate, Share, describe_share

_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
_WITHIN_CAPACITY_PERCENT: Final = 95.0
"""A cluster that acknowledges this part of the load in time is not saturated.

Its throughput is then that of the load, with and without idempotence.
"""
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "Idempotence prevents duplicates, keeps the order, and has a price.",
    Conclusion.REFUTED: "The lesson does not hold here.",
    Conclusion.INCONCLUSIVE: (
        "Too few trials, or none in which a retry stored a duplicate without idempotence."
    ),
}


@dataclass(frozen=True)
class _Case:
    """One client with one setting, whose requests or responses were dropped."""

    client: str
    is_idempotent: bool
    in_flight: int
    dropped: str
    """What the relay dropped: `responses` or `requests`."""
    trials: tuple[TrialResult, ...]

    @property
    def duplicates(self) -> Share:
        return share_with(self.trials, lambda trial: trial.duplicates)

    @property
    def reordered(self) -> Share:
        return share_with(self.trials, lambda trial: trial.reordered)

    @property
    def name(self) -> str:
        idempotence = "on" if self.is_idempotent else "off"
        return (
            f"{CLIENT_NAMES[self.client]}, dropped {self.dropped}, idempotence {idempotence}, "
            f"{self.in_flight:,} in flight"
        )

    @property
    def sentence(self) -> str:
        return (
            f"{self.name}: duplicates in {describe_share(self.duplicates)}; "
            f"records out of order in {describe_share(self.reordered)}."
        )


@dataclass(frozen=True)
class _Cost:
    """One figure with idempotence relative to without, from pairs of trials with one seed."""

    sentence: str
    is_significant: bool
    """Whether the interval excludes that idempotence is as fast."""


def find(data: FindingInput) -> Finding:
    """Return the trials with duplicates and reordering by setting, and the cost of idempotence."""
    cases = [_case(data, cell) for cell in data.cells() if cell.cell["fault"] != "none"]
    costs = [*_throughput_cost(data), *_latency_cost(cases)]
    conclusion = _conclusion(cases, costs)
    sentences = (*(case.sentence for case in cases), *(cost.sentence for cost in costs))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=sentences or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _partial_remark(cases, costs),
        repeats_needed=repeats_needed(conclusion, [case.duplicates for case in cases]),
        plot=DotsPlot(
            caption="Duplicates and records out of order, one dot per trial",
            label="records",
            rows=tuple(row for case in cases for row in _dots(case)),
            logarithmic=True,
        ),
    )


def _case(data: FindingInput, cell: CellResult) -> _Case:
    return _Case(
        client=str(cell.cell.get("client", "librdkafka")),
        is_idempotent=cell.cell["enable.idempotence"] is True,
        in_flight=int(str(cell.cell[_IN_FLIGHT])),
        dropped=str(cell.cell.get("fault.direction", "responses")),
        trials=tuple(data.cell_trials(cell)),
    )


def _throughput_cost(data: FindingInput) -> Iterator[_Cost]:
    """Yield the cost in throughput, where the load was more than the cluster could take."""
    off, on = (data.trials(fault="none", enable__idempotence=value) for value in (False, True))
    in_time = [acked_in_time_percent(trials) for trials in (off, on)]
    ratio = _ratio(off, on, lambda trial: trial.throughput_records_per_s)
    if not all(in_time) or ratio is None:
        return
    off_percent, on_percent = (describe_values(values, 0, " %") for values in in_time)
    acked = (
        f"Of {float(str(off[0].cell[RATE_AXIS])):,.0f} records/s offered, {off_percent} were "
        f"acknowledged in time without idempotence and {on_percent} with it"
    )
    if min(map(median, in_time)) >= _WITHIN_CAPACITY_PERCENT:
        yield _Cost(
            f"{acked}: the load is within the cluster's capacity and does not show its throughput.",
            is_significant=False,
        )
    else:
        yield _Cost(
            f"{acked}: throughput with idempotence was {_describe_ratio(ratio)} that without.",
            is_significant=bool(ratio.interval and ratio.interval.high < 1),
        )


def _latency_cost(cases: Sequence[_Case]) -> Iterator[_Cost]:
    """Yield the cost in latency under a light load.

    Measured before the fault, with the client that reports latencies in microseconds (librdkafka).
    """
    off, on = (
        [
            trial
            for case in cases
            if case.client != "java" and case.is_idempotent is value
            for trial in case.trials
        ]
        for value in (False, True)
    )
    ratio = _ratio(off, on, _ack_p50_before_fault_ms)
    if ratio:
        yield _Cost(
            "Before the fault, under a load far below the cluster's capacity, the median latency "
            f"with idempotence was {_describe_ratio(ratio)} that without.",
            is_significant=bool(ratio.interval and ratio.interval.low > 1),
        )


def _ack_p50_before_fault_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_by_phase_ms.before.ack
    return latency.p50 if latency else None


def _ratio(
    off: Sequence[TrialResult],
    on: Sequence[TrialResult],
    figure: Callable[[TrialResult], float | None],
) -> Estimate | None:
    """Return a figure with idempotence relative to without, from pairs of one repeat."""
    off_values, on_values = (
        {
            trial.repeat: value
            for trial in trials
            if trial.repeat is not None and (value := figure(trial)) is not None
        }
        for trials in (off, on)
    )
    return paired_numbers(off_values, on_values).ratio


def _describe_ratio(ratio: Estimate) -> str:
    text = f"{ratio.median:.2f} times"
    if ratio.interval:
        text += f" ({ratio.interval.low:.2f} to {ratio.interval.high:.2f} at 95 %)"
    return text


def _conclusion(cases: Sequence[_Case], costs: Sequence[_Cost]) -> Conclusion:
    off, on = ([case for case in cases if case.is_idempotent is value] for value in (False, True))
    if any(case.duplicates.seen or case.reordered.seen for case in on):
        return Conclusion.REFUTED
    if (
        not on
        or not any(case.duplicates.seen for case in off)
        or min(case.duplicates.of for case in cases) < MIN_TRIALS
    ):
        return Conclusion.INCONCLUSIVE
    reordered = any(case.reordered.seen for case in off)
    if reordered and any(cost.is_significant for cost in costs):
        return Conclusion.SUPPORTED
    return Conclusion.PARTLY_SUPPORTED


def _partial_remark(cases: Sequence[_Case], costs: Sequence[_Cost]) -> str:
    if any(case.reordered.seen for case in cases):
        order = " and keeps the order, which is lost without it"
    else:
        order = "; loss of the order without it was not observed"
    if any(cost.is_significant for cost in costs):
        cost = "it is measurably slower"
    else:
        cost = "the figures do not show that it is slower"
    return f"Idempotence prevents duplicates{order}; {cost}."


def _dots(case: _Case) -> Iterator[DotRow]:
    for figure, count in (
        ("duplicates", attrgetter("duplicates")),
        ("out of order", attrgetter("reordered")),
    ):
        counts = map(count, case.trials)
        yield DotRow(
            name=f"{figure}: {case.name}",
            values=tuple(float(number) for number in counts if number is not None),
        )
