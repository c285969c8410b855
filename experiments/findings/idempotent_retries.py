"""Lesson 8: without idempotence a retry is stored twice; with it Kafka discards the copy and keeps the order, and is slower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from experiments.comparing.pairing import paired_numbers
from experiments.findings.figures import spread
from experiments.findings.finding import LEAST_TRIALS, Finding, Material, Standing, repeats_needed, trials_with
from experiments.findings.plots import DotRow, DotsPlot
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.statistics import LEAST_VALUES, Estimate, Share, words

LESSON = 8
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_RATE = "workload.rate_records_per_s"
_TAKEN: Final = 0.95
"""A cluster that acknowledges so much of what is offered, in time, takes it all: its throughput is the load's, and says nothing of a price."""
_REMARKS: Final = {
    Standing.STANDS: "So idempotence takes the copies away and keeps the order, and has a price.",
    Standing.FALLS: "So the lesson does not hold here.",
    Standing.OPEN: "Too few trials, or none in which a retry was stored twice without idempotence.",
}


@dataclass(frozen=True)
class _Setting:
    """What retries did with one setting."""

    idempotent: bool
    in_flight: int
    copies: Share
    inverted: Share

    @property
    def name(self) -> str:
        return f"idempotence {'on' if self.idempotent else 'off'}, {self.in_flight:,} in flight"

    @property
    def text(self) -> str:
        return f"With {self.name}: copies were stored in {words(self.copies)}, and records changed their order in {words(self.inverted)}."


@dataclass(frozen=True)
class _Price:
    """What a load without a fault says of the price, in pairs of one seed: with idempotence against without."""

    rate_records_per_s: float
    acknowledged: tuple[float, ...]
    """Of what was offered, which share was acknowledged in time, a trial each."""
    throughput: Estimate | None
    latency: Estimate | None

    @property
    def is_taken(self) -> bool:
        return median(self.acknowledged) >= _TAKEN

    @property
    def text(self) -> str:
        load = (
            f"{self.rate_records_per_s:,.0f} records/s offered and {spread([100 * part for part in self.acknowledged], 0, ' %')} of them acknowledged in time"
        )
        if self.is_taken:
            return f"With {load}, the median latency with idempotence was {_times(self.latency)} that without."
        return f"With {load}, throughput with idempotence was {_times(self.throughput)} that without."

    @property
    def is_paid(self) -> bool:
        """Whether the interval leaves no doubt that idempotence is slower."""
        if self.is_taken:
            return bool(self.latency and self.latency.interval and self.latency.interval.low > 1)
        return bool(self.throughput and self.throughput.interval and self.throughput.interval.high < 1)


def find(material: Material) -> Finding:
    """Return how many trials had copies and inversions with each setting, and the price in pairs of one seed."""
    struck = [cell for cell in material.cells() if cell.cell["fault"] != "none"]
    settings = [_setting(cell, judged_trials(material.results, cell)) for cell in struck]
    prices = _prices(material)
    standing = _standing(settings, prices)
    return Finding(
        lesson=LESSON,
        standing=standing,
        sentences=(*(setting.text for setting in settings), *(price.text for price in prices)) or ("No trial was judged.",),
        remark=_REMARKS.get(standing) or _in_part(settings, prices),
        repeats_needed=max(LEAST_VALUES, repeats_needed(standing, [one.copies for one in settings]) or 0) if standing is Standing.OPEN else None,
        plot=DotsPlot(
            caption="Copies beyond the first in each trial",
            label="further copies in the log",
            rows=tuple(_row(setting, judged_trials(material.results, cell)) for setting, cell in zip(settings, struck, strict=True)),
            logarithmic=True,
        ),
    )


def _setting(cell: CellResult, trials: Sequence[TrialResult]) -> _Setting:
    return _Setting(
        idempotent=cell.cell["enable.idempotence"] is True,
        in_flight=int(str(cell.cell[_IN_FLIGHT])),
        copies=trials_with(trials, lambda trial: trial.duplicates),
        inverted=trials_with(trials, lambda trial: trial.reordered),
    )


def _prices(material: Material) -> list[_Price]:
    """Return the price at each load that was offered without a fault."""
    rates = dict.fromkeys(float(str(cell.cell[_RATE])) for cell in material.cells(fault="none"))
    made = (_price(rate, *(_calm(material, rate, idempotent=value) for value in (False, True))) for rate in rates)
    return [price for price in made if price]


def _calm(material: Material, rate: float, *, idempotent: bool) -> list[TrialResult]:
    trials = material.trials(fault="none", enable__idempotence=idempotent)
    return [trial for trial in trials if float(str(trial.cell[_RATE])) == rate]


def _price(rate: float, off: Sequence[TrialResult], on: Sequence[TrialResult]) -> _Price | None:
    acknowledged = tuple(trial.throughput_rps / rate for trial in (*off, *on) if trial.throughput_rps is not None)

    def ratio(value: Callable[[TrialResult], float | None]) -> Estimate | None:
        a, b = ({trial.repeat: found for trial in of if trial.repeat is not None and (found := value(trial)) is not None} for of in (off, on))
        return paired_numbers(a, b).ratio

    latency = ratio(lambda trial: trial.latency_ms.ack.p50 if trial.latency_ms.ack else None)
    return _Price(rate, acknowledged, ratio(lambda trial: trial.throughput_rps), latency) if acknowledged else None


def _times(ratio: Estimate | None) -> str:
    if ratio is None:
        return "in no pair comparable to"
    return f"{ratio.median:.2f} times" + (f" ({ratio.interval.low:.2f} to {ratio.interval.high:.2f} at 95 %)" if ratio.interval else "")


def _standing(settings: Sequence[_Setting], prices: Sequence[_Price]) -> Standing:
    off, on = ([one for one in settings if one.idempotent is value] for value in (False, True))
    if any(one.copies.seen or one.inverted.seen for one in on):
        return Standing.FALLS
    if not on or not any(one.copies.seen for one in off) or min(one.copies.of for one in settings) < LEAST_TRIALS:
        return Standing.OPEN
    return Standing.STANDS if any(one.inverted.seen for one in off) and any(price.is_paid for price in prices) else Standing.IN_PART


def _in_part(settings: Sequence[_Setting], prices: Sequence[_Price]) -> str:
    """Return what of the lesson was seen, and what was not."""
    kept = (
        ", and keeps the order that is lost without it"
        if any(one.inverted.seen for one in settings)
        else "; that the order is lost without it was not seen here"
    )
    paid = "; its price is seen here" if any(price.is_paid for price in prices) else "; that it is slower is not to be seen here"
    return f"So idempotence takes the copies away{kept}{paid}."


def _row(setting: _Setting, trials: Sequence[TrialResult]) -> DotRow:
    values = (trial.duplicates for trial in trials)
    return DotRow(name=setting.name, values=tuple(float(value) for value in values if value is not None))
