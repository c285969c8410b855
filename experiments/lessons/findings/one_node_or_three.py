"""Lesson 16: a single node is for development, a cluster for production.

Measures what a single node does not survive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_duration,
    repeats_needed,
    share_recovered_before_heal,
    share_with_loss,
    unavailable_ms,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.verdicts.statistics import describe_share

_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "A single node accepts no records while it is down; several nodes continue without one of "
        "them."
    ),
    Conclusion.REFUTED: (
        "A single node resumed before it was back, or several nodes did not continue without one "
        "of them."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}
_Trials = Mapping[int, Sequence[TrialResult]]
"""Trials by number of nodes."""


def find(data: FindingInput) -> Finding:
    """Return what the same faults do to one node and to three: loss, and when writes resume."""
    counts = sorted({int(str(cell.cell["nodes"])) for cell in data.cells()})
    trials = {nodes: data.trials(nodes=nodes) for nodes in counts}
    conclusion = _conclusion(trials)
    losses = [share_with_loss(of_nodes) for of_nodes in trials.values()]
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=tuple(_sentence(nodes, of_nodes) for nodes, of_nodes in trials.items())
        or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion, losses),
        plot=DotsPlot(
            caption="Longest time without an acknowledgement, one dot per trial",
            label="seconds",
            rows=tuple(
                DotRow(
                    name=cell.label,
                    values=tuple(
                        gap_ms / 1000 for gap_ms in unavailable_ms(data.cell_trials(cell))
                    ),
                )
                for cell in data.cells()
            ),
        ),
    )


def _sentence(nodes: int, trials: Sequence[TrialResult]) -> str:
    cluster = "one node" if nodes == 1 else f"{nodes} nodes"
    resumed = share_recovered_before_heal(trials)
    sentence = (
        f"With {cluster}: acknowledged records were lost in "
        f"{describe_share(share_with_loss(trials))}; writes resumed before the node was back in "
        f"{resumed.seen} of {format_count(resumed.of, 'trial')}"
    )
    if gaps_ms := unavailable_ms(trials):
        gap = describe_duration(median(gaps_ms))
        sentence += f", after {gap} without an acknowledgement at the median"
    return f"{sentence}."


def _conclusion(trials: _Trials) -> Conclusion:
    """Return whether only several nodes continue without one of them.

    Supported if a single node never resumed before it was back, and several nodes always did.
    """
    if len(trials) < 2:  # noqa: PLR2004 - a comparison has two sides
        return Conclusion.INCONCLUSIVE
    single, several = (
        share_recovered_before_heal(trials[nodes]) for nodes in (min(trials), max(trials))
    )
    return conclude(
        [
            outcome(met=single.seen > 0, measured=single.of >= MIN_TRIALS),
            outcome(met=several.seen < several.of, measured=several.of >= MIN_TRIALS),
        ]
    )
