"""Whether the hosts of a sweep explain differences between its trials. Pure.

Several hosts may run the trials of a sweep, and their figures differ. Trials of one cell have equal
settings, so what differs between hosts within cells is due to the hosts. For each measure, ranks
within a cell (weighted as by van Elteren 1960, Bull. Inst. Int. Statist. 37:351) are summed by
host. The significance is that of a permutation test: hosts are exchanged within each cell. The
measures share a level of 5 % (Bonferroni), so that with equal hosts at most 5 % of sweeps name one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod
from statistics import median
from typing import Final

from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.models import HostComparison, HostDifference, TrialResult

SIGNIFICANCE: Final = 0.05
"""Of all measures together."""
_ORDERS: Final = 9_999
_SEED: Final = 20_260_101
"""A fixed seed, so that equal results have equal sentences."""


@dataclass(frozen=True)
class _Measure:
    name: str
    """As in the JSON of a trial."""
    words: str
    value: Callable[[TrialResult], float | None]


COMPARED_FIGURES: Final = (
    _Measure(
        "latency_ms.ack.p50",
        "ack p50",
        lambda trial: trial.latency_ms.ack.p50 if trial.latency_ms.ack else None,
    ),
    _Measure(
        "latency_ms.ack.p99",
        "ack p99",
        lambda trial: trial.latency_ms.ack.p99 if trial.latency_ms.ack else None,
    ),
    _Measure("unavailable_ms", "the outage", lambda trial: trial.unavailable_ms),
    _Measure(
        "throughput_records_per_s", "throughput", lambda trial: trial.throughput_records_per_s
    ),
)


def compare_hosts(trials: Sequence[TrialResult]) -> HostComparison | None:
    """Compare the hosts of a sweep's trials within its cells.

    Args:
        trials: all trials of the sweep; sealed and measured ones whose host is recorded count.

    Returns:
        The comparison; `None` if one host has run them, or none is recorded.
    """
    known = [trial for trial in trials if trial.judged and trial.host is not None]
    counts = Counter(str(trial.host) for trial in known)
    if len(counts) < 2:  # noqa: PLR2004 - a comparison has two sides
        return None
    cells = _by_cell(known)
    shared = [cell for cell in cells if len({trial.host for trial in cell}) > 1]
    tested = {measure: _strata(shared, measure) for measure in COMPARED_FIGURES}
    compared = [measure for measure in COMPARED_FIGURES if _can_show(tested[measure])]
    differences = (_difference(measure, tested[measure]) for measure in compared)
    return HostComparison(
        trials=dict(sorted(counts.items())),
        cells=len(cells),
        shared_cells=len(shared),
        compared=tuple(measure.name for measure in compared),
        differences=tuple(found for found in differences if found is not None),
    )


def _by_cell(trials: Sequence[TrialResult]) -> list[list[TrialResult]]:
    cells: defaultdict[str, list[TrialResult]] = defaultdict(list)
    for trial in trials:
        cells[cell_key(trial.cell)].append(trial)
    return list(cells.values())


_Stratum = list[tuple[str, float]]
"""The trials of a cell: host and value."""


def _strata(cells: Sequence[Sequence[TrialResult]], measure: _Measure) -> list[_Stratum]:
    """Return the values of each cell that has some of several hosts."""
    strata = []
    for cell in cells:
        values = [(str(trial.host), measure.value(trial)) for trial in cell]
        stratum = [(host, value) for host, value in values if value is not None]
        if len({host for host, _ in stratum}) > 1:
            strata.append(stratum)
    return strata


def _can_show(strata: Sequence[_Stratum]) -> bool:
    """Return whether the most extreme order of the values would be significant.

    Of all orders that exchange hosts within cells, two are: with two hosts that are equally often
    in each cell, an order and its reverse differ alike.
    """
    orders = prod(
        factorial(len(stratum))
        // prod(factorial(number) for number in Counter(host for host, _ in stratum).values())
        for stratum in strata
    )
    return 2 / orders <= SIGNIFICANCE / len(COMPARED_FIGURES)


def _difference(measure: _Measure, strata: Sequence[_Stratum]) -> HostDifference | None:
    """Return how two hosts differ in a measure, if that is significant."""
    p_value, mean_ranks = _test(strata)
    if p_value > SIGNIFICANCE / len(COMPARED_FIGURES):
        return None
    lower, *_, higher = sorted(mean_ranks, key=lambda host: mean_ranks[host])
    ratios = [
        median(value for host, value in stratum if host == higher)
        / median(value for host, value in stratum if host == lower)
        for stratum in strata
        if {higher, lower} <= {host for host, _ in stratum}
        and median(value for host, value in stratum if host == lower) > 0
    ]
    return HostDifference(
        measure=measure.name,
        higher=higher,
        lower=lower,
        ratio=median(ratios) if ratios else None,
        cells=len(strata),
        p_value=p_value,
    )


def _test(strata: Sequence[_Stratum]) -> tuple[float, dict[str, float]]:
    """Return the p-value of a permutation test, and each host's mean weighted rank."""
    import numpy as np
    from scipy.stats import rankdata

    hosts = sorted({host for stratum in strata for host, _ in stratum})
    random = np.random.default_rng(_SEED)
    observed, permuted = np.zeros(len(hosts)), np.zeros((_ORDERS, len(hosts)))
    for stratum in strata:
        ranks = rankdata([value for _, value in stratum]) / (len(stratum) + 1) - 0.5
        orders = random.permuted(np.tile(ranks, (_ORDERS, 1)), axis=1)
        for column, name in enumerate(hosts):
            own = np.array([host == name for host, _ in stratum])
            observed[column] += ranks[own].sum()
            permuted[:, column] += orders[:, own].sum(axis=1)
    counts = Counter(host for stratum in strata for host, _ in stratum)
    sizes = np.array([counts[host] for host in hosts])
    spread = (observed**2 / sizes).sum() * (1 - 1e-9)
    found = int(((permuted**2 / sizes).sum(axis=1) >= spread).sum())
    means = dict(zip(hosts, (observed / sizes).tolist(), strict=True))
    return (found + 1) / (_ORDERS + 1), means


def host_sentences(found: HostComparison) -> Iterator[str]:
    """Yield what a reader must know of the hosts, one sentence each without a period."""
    words = {measure.name: measure.words for measure in COMPARED_FIGURES}
    ran = format_list([f"{host} ran {number}" for host, number in found.trials.items()])
    yield (
        f"hosts: {ran} trials; {found.shared_cells} of {format_count(found.cells, 'cell')} ran on "
        "more than one"
    )
    alone = found.cells - found.shared_cells
    if alone:
        yield (
            f"hosts: {format_count(alone, 'cell')} ran on one host only: where "
            f"{'it differs' if alone == 1 else 'they differ'} from others, the hosts may be why"
        )
    for difference in found.differences:
        higher, lower = difference.higher, difference.lower
        how = (
            f"{difference.ratio:.2f} times as high on {higher} as on {lower}"
            if difference.ratio
            else f"higher on {higher} than on {lower}"
        )
        yield (
            f"hosts: {words[difference.measure]} was {how} within "
            f"{format_count(difference.cells, 'cell')} (p = {difference.p_value:.2g}): the host "
            "explains a part of what trials differ in"
        )
    rest = [
        words[name]
        for name in found.compared
        if name not in {difference.measure for difference in found.differences}
    ]
    if rest:
        yield f"hosts: no difference between them was found in {format_list(rest)}"
    if not found.compared:
        yield "hosts: too few repeats of a cell on different hosts to see whether the hosts differ"
