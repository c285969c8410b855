"""Lesson 8: without idempotence a retry is stored twice; with it Kafka discards the copy and keeps the order, and is slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from experiments.comparing.pairing import PairedNumbers, paired_numbers
from experiments.findings.finding import LEAST_TRIALS, Finding, Material, Standing, repeats_needed, trials_with
from experiments.findings.plots import DotRow, DotsPlot
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.statistics import LEAST_VALUES, Estimate, Share, words

LESSON = 8
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_REMARKS: Final = {
    Standing.STANDS: "So idempotence takes the copies away and keeps the order, and has a price.",
    Standing.IN_PART: "So the copies and the order are as the lesson says; that idempotence is slower is not to be seen here.",
    Standing.FALLS: "So the lesson does not hold here.",
    Standing.OPEN: "Too few trials, or none in which a retry was stored twice without idempotence.",
}


def find(material: Material) -> Finding:
    """Return how many trials had copies and inversions with and without idempotence, and the price in pairs of one seed."""
    struck = [cell for cell in material.cells() if cell.cell["fault"] != "none"]
    off, on = (material.trials(enable__idempotence=value, fault=fault) for fault in {str(cell.cell["fault"]) for cell in struck} for value in (False, True))
    copies = {name: trials_with(trials, lambda trial: trial.duplicates) for name, trials in (("off", off), ("on", on))}
    inverted = {name: trials_with(trials, lambda trial: trial.reordered) for name, trials in (("off", off), ("on", on))}
    throughput, latency = _price(material)
    standing = _standing(copies, inverted, throughput)
    told = f"Where answers were lost, and batches sent again, copies were stored in {words(copies['off'])} without idempotence, {words(copies['on'])} with it;"
    told += f" records changed their order in {words(inverted['off'])} without and in {words(inverted['on'])} with it."
    return Finding(
        lesson=LESSON,
        standing=standing,
        sentences=(told, *_prices(throughput, latency)),
        remark=_REMARKS[standing],
        repeats_needed=max(LEAST_VALUES, repeats_needed(standing, copies.values()) or 0) if standing is Standing.OPEN else None,
        plot=DotsPlot(
            caption="Copies beyond the first in each trial",
            label="further copies in the log",
            rows=tuple(_row(material, cell) for cell in struck),
            logarithmic=True,
        ),
    )


def _price(material: Material) -> tuple[PairedNumbers, PairedNumbers]:
    """Return throughput and median latency with idempotence against without, while nothing was wrong."""
    off, on = (material.trials(enable__idempotence=value, fault="none") for value in (False, True))

    def paired(value: Callable[[TrialResult], float | None]) -> PairedNumbers:
        a, b = ({trial.repeat: found for trial in trials if trial.repeat is not None and (found := value(trial)) is not None} for trials in (off, on))
        return paired_numbers(a, b)

    return paired(lambda trial: trial.throughput_rps), paired(lambda trial: trial.latency_ms.ack.p50 if trial.latency_ms.ack else None)


def _prices(throughput: PairedNumbers, latency: PairedNumbers) -> list[str]:
    told = [f"{what} was {_times(paired.ratio)}" for what, paired in (("throughput", throughput), ("the median latency", latency)) if paired.ratio]
    return [f"Under more load than the cluster could take, with idempotence {' and '.join(told)} that without it."] if told else []


def _times(ratio: Estimate) -> str:
    between = f" ({ratio.interval.low:.2f} to {ratio.interval.high:.2f})" if ratio.interval else ""
    return f"{ratio.median:.2f} times{between}"


def _standing(copies: dict[str, Share], inverted: dict[str, Share], throughput: PairedNumbers) -> Standing:
    if copies["on"].seen or inverted["on"].seen:
        return Standing.FALLS
    if not copies["off"].seen or copies["on"].of < LEAST_TRIALS:
        return Standing.OPEN
    interval = throughput.ratio.interval if throughput.ratio else None
    return Standing.STANDS if interval and interval.high < 1 else Standing.IN_PART


def _row(material: Material, cell: CellResult) -> DotRow:
    name = f"idempotence {'on' if cell.cell['enable.idempotence'] else 'off'}, {cell.cell[_IN_FLIGHT]} in flight"
    values = (trial.duplicates for trial in judged_trials(material.results, cell))
    return DotRow(name=name, values=tuple(float(value) for value in values if value is not None))
