"""A tour as chapters of a document: a Markdown file and a drawing for each claim that has its answer, and a list of them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiments.lessons.finding import Finding
from experiments.lessons.tour import TourFolder
from experiments.report.drawing import standalone_svg
from experiments.report.tour_page import ClaimResult, read_claim_results
from experiments.sweep.lookup import find_sweep
from experiments.sweep.plan import Plan
from infra.machine.files import replace_file
from infra.machine.home import Home

INDEX: Final = "README.md"


def write_chapters(folder: TourFolder, home: Home, into: Path) -> Path:
    """Write the chapters over those that were there, and return the list's path; a claim without an answer keeps its old chapter.

    Raises:
        LedgerError: a sweep's results cannot be read.
    """
    into.mkdir(parents=True, exist_ok=True)
    answers = read_claim_results(folder, home)
    for answer in answers:
        if answer.finding:
            plan = find_sweep(home, str(answer.stop.sweep_id)).plan()
            replace_file(
                into / f"{_stem(answer)}.md",
                "\n".join(chapter_lines(answer, answer.finding, plan)) + "\n",
            )
            if answer.plot:
                replace_file(into / f"{_stem(answer)}.svg", standalone_svg(answer.plot.svg))
    replace_file(into / INDEX, "\n".join(_index(answers)) + "\n")
    return into / INDEX


def _stem(answer: ClaimResult) -> str:
    return f"{answer.stop.lesson:02d}-{answer.stop.experiment}"


def _index(answers: list[ClaimResult]) -> Iterator[str]:
    yield from ("# What the lessons say of Kafka, tested", "")
    yield "Each chapter has the claim, how Kafka does it, the experiment, what was seen when it was last run for these pages, and what to set in production."
    yield "`ackbench tour` runs all of them and makes one page of the answers; `ackbench tour --resume newest --chapters FOLDER` writes chapters like these."
    yield from ("", "| lesson | the question | the claim | what follows |", "|---|---|---|---|")
    for answer in answers:
        finding = answer.finding
        become, follows = (
            (str(finding.conclusion), finding.remark.removeprefix("So "))
            if finding
            else ("no answer here", answer.stop.impossible or "")
        )
        first, _, rest = follows.partition(" ")
        begins = (
            first if "=" in first else first[:1].upper() + first[1:]
        )  # a property is written as Kafka writes it
        yield f"| {answer.stop.lesson} | [{answer.title}]({_stem(answer)}.md) | {become} | {begins} {rest} |"


def chapter_lines(answer: ClaimResult, finding: Finding, plan: Plan) -> Iterator[str]:
    """Yield the lines of one claim's chapter.

    Args:
        answer: the claim, and what is known of its sweep.
        finding: what the sweep says to it.
        plan: the sweep's.
    """
    claim = answer.claim
    yield from (f"# {answer.stop.lesson}. {answer.title}", "", f"> {_flat(claim.says)}", "")
    yield from ("## How Kafka does it", "", _flat(claim.mechanism), "")
    yield from (
        "## The experiment",
        "",
        _flat(claim.method),
        "",
        f"It would be refuted by: {_lowered(_flat(claim.refuted_by))}",
        "",
    )
    yield from ("```sh", f"ackbench run {answer.stop.experiment}", "```", "")
    yield from ("## What was seen", "", finding.markdown(), "")
    if answer.plot:
        yield from (
            f"![{answer.plot.caption}]({_stem(answer)}.svg)",
            "",
            f"*{answer.plot.caption}.*",
            "",
        )
    yield from (f"{answer.trials} trials, {_where(plan)}, {answer.took}.", "")
    if claim.in_production:
        yield from ("## In production", "", _flat(claim.in_production))


def _where(plan: Plan) -> str:
    versions = ", ".join(sorted({trial.cluster.kafka_version for trial in plan.trials}))
    return f"Kafka {versions}, seed {plan.seed}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
