"""The MLflow runs of cells: what all trials of one combination of settings showed.

MLflow's table and charts compare runs: of trials they show the scatter, of cells the answer, with
shares of trials and their intervals. Metrics have the names of an experiment's `expect`, which need
no quotes in MLflow's filters: `metrics.lost_high > 0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ackbench.experiments.ledger.quantities import CELL_PLACES
from ackbench.experiments.orchestration.tracking.runs import (
    FIRST_MEASURE,
    VERDICT_TAGS,
    RunContent,
    format_value,
    without_empty,
)
from ackbench.experiments.results.models import CellResult, MedianAndMax, SweepResults
from ackbench.experiments.sweep.cell_names import cell_name
from ackbench.experiments.verdicts.judge import Judgement, Verdict

CELL: Final = "cell"
"""The tag `kind` of such a run, and the begin of its key."""
VERDICT: Final = "verdict"
"""The tag with the verdicts of a cell in few words."""
_SHARES: Final = ("loss", "duplication", "reordering")


def cell_runs(results: SweepResults, axes: Sequence[str]) -> Iterator[RunContent]:
    """Yield the runs of the experiment's own cells that the client does not refuse.

    Args:
        results: of the sweep.
        axes: what its cells differ in; the names of the runs have them.
    """
    for cell in results.cells:
        if cell.refused is None and not cell.added:
            yield cell_run(cell, results, axes)


def cell_run(cell: CellResult, results: SweepResults, axes: Sequence[str]) -> RunContent:
    """Return the run of a cell: sums of counts and medians of times over its sealed trials.

    Args:
        cell: the cell.
        results: of its sweep.
        axes: what the sweep's cells differ in.
    """
    verdict, metrics = verdict_in_words(cell.judgements), dict(_metrics(cell))
    tags = {
        "sweep_id": results.sweep_id,
        "experiment": results.experiment,
        "kind": CELL,
        "trial_id": f"{CELL} {cell.label}",
        "cell": cell.label,
        "role": cell.role.value,
        "fault": cell.fault_name,
        VERDICT: verdict,
        **{VERDICT_TAGS[one.guarantee]: one.verdict.value for one in cell.judgements},
    }
    return RunContent(
        name=cell_name(cell.cell, axes),
        tags=without_empty(tags),
        params={
            axis: format_value(value) for axis, value in cell.cell.items() if value is not None
        },
        metrics=metrics,
    )


def verdict_in_words(judgements: Sequence[Judgement]) -> str:
    """Return what a reader of a table must know first: `VIOLATED: order`, or `held`.

    Violations first, then what is not guaranteed and was observed, then what is unknown, then what
    held: `held` alone says that everything is guaranteed.
    """
    for word, chosen in (
        ("VIOLATED", [one for one in judgements if one.verdict is Verdict.VIOLATED]),
        ("not guaranteed, observed", [one for one in judgements if _is_only_observed(one)]),
        ("unknown", [one for one in judgements if one.verdict is Verdict.UNKNOWN]),
        ("held", [one for one in judgements if one.verdict is Verdict.HELD]),
    ):
        if chosen:
            named = ", ".join(one.guarantee.label for one in chosen)
            return word if word == "held" and len(chosen) == len(judgements) else f"{word}: {named}"
    return "nothing is guaranteed, and nothing was observed" if judgements else ""


def _is_only_observed(judgement: Judgement) -> bool:
    return judgement.verdict is Verdict.NOT_GUARANTEED and judgement.violation_seen is True


def _metrics(cell: CellResult) -> Iterator[tuple[str, float]]:
    for place in sorted(CELL_PLACES, key=lambda place: place.measure != FIRST_MEASURE):
        value = place.of(cell)
        if isinstance(value, MedianAndMax):
            yield place.name, value.median
        elif value is not None:
            yield place.name, float(value)
    if p99 := cell.latency_ms.ack.p99:
        yield "ack_p99_ms", p99.median
    for name in _SHARES:
        share = getattr(cell, name)
        if share is not None and share.of:
            yield f"{name}_share", share.seen / share.of
            yield f"{name}_share_low", share.interval.low
            yield f"{name}_share_high", share.interval.high
    yield "sealed_trials", float(cell.sealed_trials)
