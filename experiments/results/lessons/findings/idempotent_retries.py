"""Lesson 8: without idempotence a retry stores a duplicate; with it the broker discards the retry.

Idempotence also keeps the order, and is slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Final

from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.comparing.pairing import DifferenceFigures, paired_numbers
from ackbench.experiments.results.lessons.criterion import (
    ORDER_NEEDS,
    Outcome,
    conclude,
    outcome,
    paired_order,
)
from ackbench.experiments.results.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    RATE_AXIS,
    Conclusion,
    Finding,
    FindingInput,
    ack_p50_ms,
    acked_in_time_percent,
    describe_values,
    repeats_needed,
    share_with,
)
from ackbench.experiments.results.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT
from ackbench.experiments.sweep.plan import NO_FAULT
from ackbench.experiments.verdicts.statistics import Share, describe_share

_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
_WITHIN_CAPACITY_PERCENT: Final = 95.0
"""A cluster that acknowledges this part of the load in time is not saturated.

Its throughput is then that of the load, with and without idempotence.
"""
_TOO_FEW: Final = "Too few trials, or none in which a retry stored a duplicate without idempotence."


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
    def circumstances(self) -> str:
        """The client and what was dropped."""
        return f"{CLIENT_NAMES[self.client]} and dropped {self.dropped}"

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
    is_slower: Outcome
    """Whether idempotence is slower (`NOT_MET`), faster (`MET`), or neither is shown."""


def find(data: FindingInput) -> Finding:
    """Return the trials with duplicates and reordering by setting, and the cost of idempotence."""
    cases = [_case(data, cell) for cell in data.cells() if cell.cell["fault"] != NO_FAULT]
    costs = [*_throughput_cost(data), *_latency_cost(data)]
    conclusion = _conclusion(cases, costs)
    sentences = (*(case.sentence for case in cases), *(cost.sentence for cost in costs))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=sentences or ("No trial was judged.",),
        remark=_TOO_FEW
        if conclusion is Conclusion.INCONCLUSIVE
        else _remark(conclusion, cases, costs),
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
        client=str(cell.cell.get("client", DEFAULT_CLIENT)),
        is_idempotent=cell.cell["enable.idempotence"] is True,
        in_flight=int(str(cell.cell[_IN_FLIGHT])),
        dropped=str(cell.cell.get("fault.direction", "responses")),
        trials=tuple(data.cell_trials(cell)),
    )


def _throughput_cost(data: FindingInput) -> Iterator[_Cost]:
    """Yield the cost in throughput, where the load was more than the cluster could take."""
    off, on = (_without_fault(data, value, overloaded=True) for value in (False, True))
    in_time = [
        [percent for trial in trials if (percent := acked_in_time_percent(trial)) is not None]
        for trials in (off, on)
    ]
    ratio = _ratio(off, on, _throughput)
    if not all(in_time) or ratio.ratio is None:
        return
    off_percent, on_percent = (describe_values(values, 0, " %") for values in in_time)
    acked = (
        f"Of {float(str(off[0].cell[RATE_AXIS])):,.0f} records/s offered, {off_percent} were "
        f"acknowledged in time without idempotence and {on_percent} with it"
    )
    if min(map(median, in_time)) >= _WITHIN_CAPACITY_PERCENT:
        yield _Cost(
            f"{acked}: the load is within the cluster's capacity and does not show its throughput.",
            Outcome.UNDECIDED,
        )
    else:
        order = paired_order(on, off, _throughput)
        yield _Cost(
            f"{acked}: throughput with idempotence was {_describe_ratio(ratio)} that without, and "
            f"lower {order.text} with the same seed.",
            order.outcome,
        )


def _latency_cost(data: FindingInput) -> Iterator[_Cost]:
    """Yield the cost in latency under a light load without a fault."""
    off, on = (_without_fault(data, value, overloaded=False) for value in (False, True))
    ratio = _ratio(off, on, ack_p50_ms)
    if ratio.ratio is not None:
        order = paired_order(off, on, ack_p50_ms)
        yield _Cost(
            "Without a fault, under a load far below the cluster's capacity, the median latency "
            f"with idempotence was {_describe_ratio(ratio)} that without, and higher "
            f"{order.text} with the same seed.",
            order.outcome,
        )


def _without_fault(
    data: FindingInput, is_idempotent: bool, *, overloaded: bool
) -> list[TrialResult]:
    """Return the trials without a fault; an overloaded cell has an axis for the rate."""
    trials = data.trials(fault=NO_FAULT, enable__idempotence=is_idempotent)
    return [trial for trial in trials if (RATE_AXIS in trial.cell) is overloaded]


def _throughput(trial: TrialResult) -> float | None:
    return trial.throughput_records_per_s


def _ratio(
    off: Sequence[TrialResult],
    on: Sequence[TrialResult],
    figure: Callable[[TrialResult], float | None],
) -> DifferenceFigures:
    """Compare a figure with idempotence with the one without, in pairs of one repeat."""
    off_values, on_values = (
        {
            trial.repeat: value
            for trial in trials
            if trial.repeat is not None and (value := figure(trial)) is not None
        }
        for trials in (off, on)
    )
    return paired_numbers(off_values, on_values)


def _describe_ratio(found: DifferenceFigures) -> str:
    text = f"{found.ratio:.2f} times"
    if found.ratio_interval:
        text += f" ({found.ratio_interval.low:.2f} to {found.ratio_interval.high:.2f} at 95 %)"
    return text


def _conclusion(cases: Sequence[_Case], costs: Sequence[_Cost]) -> Conclusion:
    """Return whether idempotence prevents duplicates; order and cost may stay undecided."""
    prevented = _prevented(cases)
    enough = bool(cases) and min(case.duplicates.of for case in cases) >= MIN_TRIALS
    on = [case for case in cases if case.is_idempotent]
    return conclude(
        [
            outcome(
                met=any(case.duplicates.seen for case in on),
                measured=enough and bool(prevented["duplicates"]),
            )
        ],
        [
            outcome(
                met=any(case.reordered.seen for case in on),
                measured=enough and bool(prevented["reordering"]),
            ),
            outcome(
                met=any(cost.is_slower is Outcome.MET for cost in costs) and not _is_slower(costs),
                measured=_is_slower(costs),
            ),
        ],
    )


def _is_slower(costs: Sequence[_Cost]) -> bool:
    return any(cost.is_slower is Outcome.NOT_MET for cost in costs)


def _prevented(cases: Sequence[_Case]) -> dict[str, list[str]]:
    """Return where idempotence prevented duplicates, and where reordering.

    A client and what was dropped count where the effect was seen without idempotence, and not with
    it.
    """
    return {
        effect: [
            off.circumstances
            for off in cases
            if not off.is_idempotent
            and share(off).seen
            and any(
                on.is_idempotent
                and on.circumstances == off.circumstances
                and on.duplicates.of
                and not share(on).seen
                for on in cases
            )
        ]
        for effect, share in (
            ("duplicates", attrgetter("duplicates")),
            ("reordering", attrgetter("reordered")),
        )
    }


def _remark(conclusion: Conclusion, cases: Sequence[_Case], costs: Sequence[_Cost]) -> str:
    if conclusion is Conclusion.REFUTED:
        on = [case for case in cases if case.is_idempotent]
        if any(case.duplicates.seen or case.reordered.seen for case in on):
            return "Records were duplicated or out of order with idempotence."
        return "Idempotence was faster."
    prevented = _prevented(cases)
    texts = [
        f"Idempotence prevented {effect} with {format_list(list(dict.fromkeys(where)))}."
        if where
        else f"No {effect} was observed that it could have prevented."
        for effect, where in prevented.items()
    ]
    if _is_slower(costs):
        texts.append("It is measurably slower.")
    else:
        texts.append(f"The figures do not decide whether it is slower: {ORDER_NEEDS}.")
    return " ".join(texts)


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
