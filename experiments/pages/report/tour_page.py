"""The page of a tour: each claim with its finding and the plot that shows it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ackbench.experiments.pages.report.charts import Chart
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.finding_plots import plot_chart
from ackbench.experiments.pages.report.page import load_template
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.results.lessons.diagram import draw_experiment
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import finding_of
from ackbench.experiments.results.lessons.shortened import describe_shortened
from ackbench.experiments.results.lessons.tour import QUICK_NOTE, TourFolder, TourStop
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.experiments.sweep.plan import Claim
from ackbench.experiments.sweep.progress import format_duration_with_units
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home


@dataclass(frozen=True)
class ClaimResult:
    """One claim of the tour, with the result of its sweep."""

    stop: TourStop
    title: str
    claim: Claim
    construction: str | None
    """Where the experiment's own construction decides the outcome."""
    drawing: tuple[str, ...]
    """The experiment; empty: not planned yet."""
    shortened: str | None
    """The timeouts below their defaults; None: not planned yet, or none."""
    finding: Finding | None
    """None: the claim has not been tested, or cannot be tested on this machine."""
    plot: Chart | None
    took: str | None
    trials: int
    """Number of judged trials."""
    report: str | None
    """The sweep's report, relative to the tour's page."""


def write_tour_page(folder: TourFolder, home: Home) -> Path:
    """Write the page of a tour, finished or not, and return its path.

    Raises:
        LedgerError: a sweep's results cannot be read; the old page stays.
    """
    set_matplotlib_cache(home)
    tour = folder.read()
    claims = read_claim_results(folder, home)
    counts = Counter(claim.finding.conclusion if claim.finding else None for claim in claims)
    page = load_template("tour.html").render(
        tour=tour,
        quick_note=QUICK_NOTE if tour.quick else None,
        claims=claims,
        counts=[
            (conclusion.value, counts[conclusion])
            for conclusion in Conclusion
            if counts[conclusion]
        ],
        untested=counts[None],
        took=format_duration_with_units(sum(stop.seconds or 0.0 for stop in tour.stops)),
    )
    replace_file(folder.page, page)
    return folder.page


def read_claim_results(folder: TourFolder, home: Home) -> list[ClaimResult]:
    """Return each claim of the tour with its finding; call `set_matplotlib_cache` before.

    Raises:
        LedgerError: a sweep's results cannot be read.
    """
    return [_claim_result(stop, folder, home) for stop in folder.read().stops]


def _claim_result(stop: TourStop, folder: TourFolder, home: Home) -> ClaimResult:
    experiment = load_experiment(stop.experiment)
    if experiment.claim is None:
        raise AckbenchError(f"experiment {stop.experiment} no longer has a claim")
    took = format_duration_with_units(stop.seconds) if stop.seconds is not None else None
    if stop.sweep_id is None or stop.seconds is None or stop.failed:
        return ClaimResult(
            stop=stop,
            title=experiment.title,
            claim=experiment.claim,
            construction=experiment.construction,
            drawing=(),
            shortened=None,
            finding=None,
            plot=None,
            took=took,
            trials=0,
            report=None,
        )
    sweep = find_sweep(home, stop.sweep_id)
    results = read_results(sweep)
    finding = finding_of(sweep, results)
    plot = finding.plot if finding else None
    # Claim and method are those of the sweep's plan; the advice is the catalogue's current one.
    plan = results.plan
    claim = (plan.claim or experiment.claim).model_copy(
        update={"in_production": experiment.claim.in_production}
    )
    return ClaimResult(
        stop=stop,
        title=experiment.title,
        claim=claim,
        construction=plan.construction or experiment.construction,
        drawing=draw_experiment(plan),
        shortened=describe_shortened(plan),
        finding=finding,
        plot=plot_chart(plot, f"lesson-{stop.lesson}") if plot else None,
        took=took,
        trials=sum(trial.judged for trial in results.trials),
        report=os.path.relpath(sweep.report, folder.root) if sweep.report.is_file() else None,
    )
