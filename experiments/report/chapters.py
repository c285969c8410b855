"""A tour as Markdown: one chapter with a drawing per tested claim, and an index.

The project's `docs/lessons` is written by this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiments.lessons.finding import Finding
from experiments.lessons.tour import TourFolder
from experiments.messages.phrases import one_line
from experiments.report.drawing import standalone_svg
from experiments.report.tour_page import ClaimResult, read_claim_results
from experiments.sweep.lookup import find_sweep
from experiments.sweep.plan import Plan
from infra.machine.files import replace_file
from infra.machine.home import Home

INDEX: Final = "README.md"


def write_chapters(folder: TourFolder, home: Home, target: Path) -> Path:
    """Write the chapters and return the path of their index.

    Existing chapters are replaced. A claim without a finding keeps its old chapter.

    Args:
        folder: the tour.
        home: where its sweeps are.
        target: folder of the chapters; created if missing.

    Raises:
        LedgerError: a sweep's results cannot be read.
    """
    target.mkdir(parents=True, exist_ok=True)
    results = read_claim_results(folder, home)
    for result in results:
        if result.finding:
            plan = find_sweep(home, str(result.stop.sweep_id)).plan()
            text = "\n".join(chapter_lines(result, result.finding, plan)) + "\n"
            replace_file(target / f"{_stem(result)}.md", text)
            if result.plot:
                replace_file(target / f"{_stem(result)}.svg", standalone_svg(result.plot.svg))
    replace_file(target / INDEX, "\n".join(_index_lines(results)) + "\n")
    return target / INDEX


def _stem(result: ClaimResult) -> str:
    return f"{result.stop.lesson:02d}-{result.stop.experiment}"


def _index_lines(results: list[ClaimResult]) -> Iterator[str]:
    yield from ("# Claims about Kafka, tested", "")
    yield (
        "Each chapter has the claim, how Kafka works, the experiment, its results, and settings "
        "for production."
    )
    yield (
        "`ackbench tour` tests all claims and writes one page with the findings; `ackbench tour "
        "--resume newest --chapters FOLDER` writes these chapters."
    )
    yield from ("", "| lesson | question | finding | conclusion |", "|---|---|---|---|")
    for result in results:
        if result.finding:
            conclusion, remark = str(result.finding.conclusion), result.finding.remark
        else:
            conclusion, remark = "no finding", result.stop.impossible or ""
        link = f"[{result.title}]({_stem(result)}.md)"
        yield f"| {result.stop.lesson} | {link} | {conclusion} | {remark} |"


def chapter_lines(result: ClaimResult, finding: Finding, plan: Plan) -> Iterator[str]:
    """Yield the lines of a chapter.

    Args:
        result: the claim and what its sweep measured.
        finding: the finding of the sweep.
        plan: the plan of the sweep.
    """
    claim = result.claim
    yield from (f"# {result.stop.lesson}. {result.title}", "", f"> {one_line(claim.says)}", "")
    yield from ("## How Kafka works", "", one_line(claim.mechanism), "")
    yield from ("## The experiment", "", one_line(claim.method), "")
    refuted_by = one_line(claim.refuted_by)
    yield from (f"It would be refuted by: {refuted_by[:1].lower()}{refuted_by[1:]}", "")
    yield from ("```sh", f"ackbench run {result.stop.experiment}", "```", "")
    yield from ("## Results", "", finding.markdown(), "")
    if result.plot:
        caption = result.plot.caption
        yield from (f"![{caption}]({_stem(result)}.svg)", "", f"*{caption}.*", "")
    versions = ", ".join(sorted({trial.cluster.kafka_version for trial in plan.trials}))
    yield f"{result.trials} trials, Kafka {versions}, seed {plan.seed}, {result.took}."
    yield ""
    if claim.in_production:
        yield from ("## In production", "", one_line(claim.in_production))
