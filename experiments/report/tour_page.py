"""The page of a tour: each claim of the lessons with its answer and the one plot that shows it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from experiments.lessons.finding import Conclusion, Finding, finding_of
from experiments.lessons.tour import TourFolder, TourStop
from experiments.planning.catalog import load_experiment
from experiments.report.charts import Chart
from experiments.report.drawing import set_matplotlib_cache
from experiments.report.finding_plots import plot_chart
from experiments.report.page import load_template
from experiments.results.read import read_results
from experiments.sweep.lookup import find_sweep
from experiments.sweep.plan import Claim
from experiments.sweep.progress import format_duration_with_units
from infra.errors import AckbenchError
from infra.machine.files import replace_file
from infra.machine.home import Home


@dataclass(frozen=True)
class ClaimResult:
    """One claim of the page."""

    stop: TourStop
    title: str
    claim: Claim
    finding: Finding | None
    """`None`: there is no answer (yet)."""
    plot: Chart | None
    took: str | None
    trials: int
    """Judged ones."""
    report: str | None
    """The sweep's own page, from where the tour's lies."""


def write_tour_page(folder: TourFolder, home: Home) -> Path:
    """Write the page of a tour as far as it has come, and return where it lies.

    Raises:
        LedgerError: a sweep's results cannot be read; the old page stays.
    """
    set_matplotlib_cache(home)
    whole = folder.read()
    answers = read_claim_results(folder, home)
    counts = Counter(answer.finding.conclusion if answer.finding else None for answer in answers)
    page = load_template("tour.html").render(
        tour=whole,
        answers=answers,
        counts=[
            (conclusion.value, counts[conclusion])
            for conclusion in Conclusion
            if counts[conclusion]
        ],
        unanswered=counts[None],
        took=format_duration_with_units(sum(stop.seconds or 0.0 for stop in whole.stops)),
    )
    replace_file(folder.page, page)
    return folder.page


def read_claim_results(folder: TourFolder, home: Home) -> list[ClaimResult]:
    """Return each stop with what its sweep says; drawing must have been prepared.

    Raises:
        LedgerError: a sweep's results cannot be read.
    """
    return [_answered(stop, folder, home) for stop in folder.read().stops]


def _answered(stop: TourStop, folder: TourFolder, home: Home) -> ClaimResult:
    experiment = load_experiment(stop.experiment)
    if experiment.claim is None:
        raise AckbenchError(f"{stop.experiment} makes no claim any more")
    bare = ClaimResult(
        stop,
        experiment.title,
        experiment.claim,
        None,
        None,
        format_duration_with_units(stop.seconds) if stop.seconds is not None else None,
        0,
        None,
    )
    if stop.sweep_id is None or stop.seconds is None or stop.failed:
        return bare
    sweep = find_sweep(home, stop.sweep_id)
    results = read_results(sweep)
    finding = finding_of(sweep, results)
    return ClaimResult(
        stop=stop,
        title=bare.title,
        # What was done is told as it was; what to set is today's advice.
        claim=(sweep.plan().claim or experiment.claim).model_copy(
            update={"in_production": experiment.claim.in_production}
        ),
        finding=finding,
        plot=plot_chart(finding.plot, f"lesson-{stop.lesson}")
        if finding and finding.plot
        else None,
        took=bare.took,
        trials=sum(trial.judged for trial in results.trials),
        report=os.path.relpath(sweep.report, folder.root) if sweep.report.is_file() else None,
    )
