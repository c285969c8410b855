"""The finding of a sweep: from a lesson that is data, or by a module of `findings`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import cast

from ackbench.experiments.planning.catalog.loading import FINDINGS, check_finding
from ackbench.experiments.results.lessons.finding import Conclusion, Finding, FindingInput
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.rows import rows_by_trial
from ackbench.experiments.sweep.folder import SweepFolder


def finding_of(sweep: SweepFolder, results: SweepResults) -> Finding | None:
    """Return the finding of a sweep; None if its experiment makes no claim.

    Args:
        sweep: the sweep's folder, for the tables that only a finding reads.
        results: its results.

    Raises:
        LedgerError: a table cannot be read.
        ExperimentError: the claim names a finding that does not exist.
    """
    claim = results.plan.claim
    if claim is None:
        return None
    if results.harness.control_clean is False:
        return Finding(
            lesson=claim.lesson,
            conclusion=Conclusion.INCONCLUSIVE,
            sentences=("The control, which has no fault, lost or duplicated records.",),
            remark="The harness itself is at fault, so nothing can be concluded.",
        )
    compute = load_finding(claim.finding)
    rows = partial(rows_by_trial, sweep, manifest=results.manifest)
    return compute(FindingInput(claim.lesson, results.plan, results, rows))


def load_finding(name: str) -> Callable[[FindingInput], Finding]:
    """Return the function that computes a finding.

    Args:
        name: a lesson or a module of `experiments/results/lessons/findings`.

    Raises:
        ExperimentError: there is neither.
    """
    check_finding(name)
    if (FINDINGS / f"{name}.yaml").exists():
        # A sweep without a claim, as most are, needs neither.
        from ackbench.experiments.results.lessons.evaluation import find
        from ackbench.experiments.results.lessons.lesson import load_lesson

        return partial(find, load_lesson(name))
    module = import_module(f"ackbench.experiments.results.lessons.findings.{name}")
    return cast("Callable[[FindingInput], Finding]", module.find)
