"""Lesson 8: without idempotence a retry is stored twice; with it Kafka discards the copy and keeps the order, and is slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Final

from experiments.comparing.pairing import paired_numbers
from experiments.lessons.finding import (
    CLIENTS,
    LEAST_TRIALS,
    RATE,
    Conclusion,
    Finding,
    FindingInput,
    in_time_percent,
    repeats_needed,
    spread,
    trials_with,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.verdicts.statistics import LEAST_VALUES, Estimate, Share, words

LESSON = 8
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_TAKEN: Final = 95.0
"""A cluster that acknowledges so much of what is offered, in percent, in time, takes it all: its throughput is the load's, and says nothing of a price."""
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So idempotence takes the copies away and keeps the order, and has a price.",
    Conclusion.REFUTED: "So the lesson does not hold here.",
    Conclusion.INCONCLUSIVE: "Too few trials, or none in which a retry was stored twice without idempotence.",
}


@dataclass(frozen=True)
class _Setting:
    """What retries did with one setting."""

    client: str
    idempotent: bool
    in_flight: int
    thrown_away: str
    """What the relay threw away: `responses` or `requests`."""
    trials: tuple[TrialResult, ...]

    @property
    def copies(self) -> Share:
        return trials_with(self.trials, lambda trial: trial.duplicates)

    @property
    def inverted(self) -> Share:
        return trials_with(self.trials, lambda trial: trial.reordered)

    @property
    def name(self) -> str:
        return f"{CLIENTS[self.client]}, {self.thrown_away} thrown away, idempotence {'on' if self.idempotent else 'off'}, {self.in_flight:,} in flight"

    @property
    def text(self) -> str:
        return f"{self.name}: copies were stored in {words(self.copies)}, and records changed their order in {words(self.inverted)}."


@dataclass(frozen=True)
class _Price:
    """With idempotence against without, in pairs of one seed."""

    text: str
    is_paid: bool
    """Whether the interval leaves no doubt that idempotence is slower."""


def find(material: FindingInput) -> Finding:
    """Return how many trials had copies and inversions with each setting, and the price in pairs of one seed."""
    settings = [
        _setting(cell, judged_trials(material.results, cell))
        for cell in material.cells()
        if cell.cell["fault"] != "none"
    ]
    prices = [*_throughput(material), *_latency(settings)]
    conclusion = _conclude(settings, prices)
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=(*(setting.text for setting in settings), *(price.text for price in prices))
        or ("No trial was judged.",),
        remark=_REMARKS.get(conclusion) or _in_part(settings, prices),
        repeats_needed=max(
            LEAST_VALUES, repeats_needed(conclusion, [one.copies for one in settings]) or 0
        )
        if conclusion is Conclusion.INCONCLUSIVE
        else None,
        plot=DotsPlot(
            caption="Copies beyond the first, and records out of their order, in each trial",
            label="records",
            rows=tuple(row for setting in settings for row in _rows(setting)),
            logarithmic=True,
        ),
    )


def _setting(cell: CellResult, trials: Sequence[TrialResult]) -> _Setting:
    return _Setting(
        client=str(cell.cell.get("client", "librdkafka")),
        idempotent=cell.cell["enable.idempotence"] is True,
        in_flight=int(str(cell.cell[_IN_FLIGHT])),
        thrown_away=str(cell.cell.get("fault.direction", "responses")),
        trials=tuple(trials),
    )


def _throughput(material: FindingInput) -> Iterator[_Price]:
    """Yield the price where more was offered than the cluster could take."""
    off, on = (material.trials(fault="none", enable__idempotence=value) for value in (False, True))
    in_time = [in_time_percent(of) for of in (off, on)]
    ratio = _ratio(off, on, lambda trial: trial.throughput_records_per_s)
    if not all(in_time) or ratio is None:
        return
    without, by = (spread(parts, 0, " %") for parts in in_time)
    offered = f"Of {float(str(off[0].cell[RATE])):,.0f} records/s that were offered {without} were acknowledged in time without idempotence and {by} with it"
    if min(map(median, in_time)) >= _TAKEN:
        yield _Price(
            f"{offered}: the cluster takes so much, and nothing is said of its throughput.",
            is_paid=False,
        )
    else:
        yield _Price(
            f"{offered}: throughput was {_times(ratio)} as high with it.",
            is_paid=bool(ratio.interval and ratio.interval.high < 1),
        )


def _latency(settings: Sequence[_Setting]) -> Iterator[_Price]:
    """Yield the price of a load that the cluster takes with ease: before the fault, of the client that tells latencies by the microsecond."""
    off, on = (
        [
            trial
            for one in settings
            if one.client != "java" and one.idempotent is value
            for trial in one.trials
        ]
        for value in (False, True)
    )
    ratio = _ratio(
        off,
        on,
        lambda trial: (
            trial.latency_by_phase_ms.before.ack.p50
            if trial.latency_by_phase_ms.before.ack
            else None
        ),
    )
    if ratio:
        told = f"Before the fault, under a load that the cluster takes with ease, the median latency with idempotence was {_times(ratio)} that without."
        yield _Price(told, is_paid=bool(ratio.interval and ratio.interval.low > 1))


def _ratio(
    off: Sequence[TrialResult],
    on: Sequence[TrialResult],
    value: Callable[[TrialResult], float | None],
) -> Estimate | None:
    a, b = (
        {
            trial.repeat: found
            for trial in of
            if trial.repeat is not None and (found := value(trial)) is not None
        }
        for of in (off, on)
    )
    return paired_numbers(a, b).ratio


def _times(ratio: Estimate) -> str:
    return f"{ratio.median:.2f} times" + (
        f" ({ratio.interval.low:.2f} to {ratio.interval.high:.2f} at 95 %)"
        if ratio.interval
        else ""
    )


def _conclude(settings: Sequence[_Setting], prices: Sequence[_Price]) -> Conclusion:
    off, on = ([one for one in settings if one.idempotent is value] for value in (False, True))
    if any(one.copies.seen or one.inverted.seen for one in on):
        return Conclusion.REFUTED
    if (
        not on
        or not any(one.copies.seen for one in off)
        or min(one.copies.of for one in settings) < LEAST_TRIALS
    ):
        return Conclusion.INCONCLUSIVE
    return (
        Conclusion.SUPPORTED
        if any(one.inverted.seen for one in off) and any(price.is_paid for price in prices)
        else Conclusion.PARTLY_SUPPORTED
    )


def _in_part(settings: Sequence[_Setting], prices: Sequence[_Price]) -> str:
    """Return what of the lesson was seen, and what was not."""
    inverted = any(one.inverted.seen for one in settings)
    kept = (
        ", and keeps the order that is lost without it"
        if inverted
        else "; that the order is lost without it was not seen here"
    )
    paid = (
        "; its price is seen here"
        if any(price.is_paid for price in prices)
        else "; that it is slower is not to be seen here"
    )
    return f"So idempotence takes the copies away{kept}{paid}."


def _rows(setting: _Setting) -> Iterator[DotRow]:
    for what, count in (
        ("copies", attrgetter("duplicates")),
        ("out of order", attrgetter("reordered")),
    ):
        values = map(count, setting.trials)
        yield DotRow(
            name=f"{what}: {setting.name}",
            values=tuple(float(value) for value in values if value is not None),
        )
