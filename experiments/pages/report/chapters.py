"""A tour as Markdown: one chapter with a drawing per tested claim, and an index.

The project's `docs/lessons` is written by this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.phrases import one_line, wrap_line
from ackbench.experiments.pages.report.drawing import standalone_svg
from ackbench.experiments.pages.report.tour_page import ClaimResult, read_claim_results
from ackbench.experiments.results.lessons.finding import Finding
from ackbench.experiments.results.lessons.tour import TourFolder
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.experiments.sweep.plan import Plan
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

INDEX: Final = "README.md"
_LINE_CHARACTERS: Final = 100
_UNBROKEN: Final = ("#", "|", "![")
"""Beginnings of headings, rows of tables and images, which Markdown keeps on one line."""
_INDENTS: Final = {"> ": "> ", "- ": "  "}
"""What the further lines of a quotation or of a list item begin with."""
_UNBREAKABLE: Final = re.compile(
    r" (?:[-+*>]|#{1,6}|[0-9]+[.)])(?= |$)"  # would begin a list item, a quotation or a heading
    r"|(?<=[0-9]) (?:%|ms|s)(?![a-z])"  # a figure and its unit
    r"|`[^`]+`"  # a command
)
"""Text with spaces at which a line must not be broken."""
_ROW: Final = re.compile(r"^\| (\d+) \|.*$", re.MULTILINE)
"""A row of the index; it begins with the lesson's number."""
_NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"


def write_chapters(folder: TourFolder, home: Home, target: Path) -> Path:
    """Write the chapters and return the path of their index.

    Existing chapters are replaced. A claim without a finding keeps its old chapter, and its line of
    the index.

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
            text = "\n".join(chapter_lines(result, result.finding, plan))
            replace_file(target / f"{_stem(result)}.md", f"{wrap_markdown(text)}\n")
            if result.plot:
                replace_file(target / f"{_stem(result)}.svg", standalone_svg(result.plot.svg))
    index = "\n".join(index_lines(results, _written_rows(target / INDEX)))
    replace_file(target / INDEX, f"{wrap_markdown(index)}\n")
    return target / INDEX


def _written_rows(index: Path) -> dict[int, str]:
    """Return the rows of an index by lesson; none if it does not exist."""
    text = index.read_text(encoding="utf-8") if index.is_file() else ""
    return {int(row[1]): row[0] for row in _ROW.finditer(text)}


def wrap_markdown(text: str) -> str:
    """Return Markdown with its prose wrapped at 100 columns.

    Headings, tables, images and code blocks keep their lines.

    Args:
        text: Markdown in which each paragraph, quotation and list item is one line.
    """
    lines: list[str] = []
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        if in_code or len(line) <= _LINE_CHARACTERS or line.startswith(_UNBROKEN):
            lines.append(line)
        else:
            lines += _wrap_line(line)
    return "\n".join(lines)


def _wrap_line(line: str) -> Iterator[str]:
    unbroken = _UNBREAKABLE.sub(lambda found: found[0].replace(" ", _NO_BREAK_SPACE), line)
    for part in wrap_line(unbroken, _LINE_CHARACTERS, _INDENTS.get(line[:2], "")):
        yield part.replace(_NO_BREAK_SPACE, " ")


def _stem(result: ClaimResult) -> str:
    return f"{result.stop.lesson:02d}-{result.stop.experiment}"


def index_lines(results: Sequence[ClaimResult], written: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of the index.

    Args:
        results: of the tour.
        written: rows that the index has already, for lessons that this tour did not answer.
    """
    yield from ("# Claims about Kafka, tested", "")
    yield (
        "Each chapter has the claim, how Kafka works, the experiment, its results, and settings "
        "for production."
    )
    yield ""
    yield (
        "`ackbench tour` tests all claims and writes one page with the findings; `ackbench tour "
        "--resume newest --chapters FOLDER` writes these chapters."
    )
    yield from ("", "| lesson | question | finding | conclusion |", "|---|---|---|---|")
    rows = dict(written)
    for result in results:
        lesson = result.stop.lesson
        if result.finding:
            conclusion, remark = str(result.finding.conclusion), result.finding.remark
        elif lesson in written:
            continue
        else:
            conclusion, remark = "no finding", result.stop.impossible or ""
        link = f"[{result.title}]({_stem(result)}.md)"
        rows[lesson] = f"| {lesson} | {link} | {conclusion} | {remark} |"
    yield from (rows[lesson] for lesson in sorted(rows))


def chapter_lines(result: ClaimResult, finding: Finding, plan: Plan) -> Iterator[str]:
    """Yield the lines of a chapter; each paragraph is one line.

    Args:
        result: the claim and what its sweep measured.
        finding: the finding of the sweep.
        plan: the plan of the sweep.
    """
    claim = result.claim
    yield from (f"# {result.stop.lesson}. {result.title}", "", f"> {one_line(claim.says)}", "")
    yield from ("```text", *result.drawing, "```", "")
    yield from ("## How Kafka works", "", one_line(claim.mechanism), "")
    yield from ("## The experiment", "", one_line(claim.method), "")
    refuted_by = one_line(claim.refuted_by)
    yield from (f"It would be refuted by: {refuted_by[:1].lower()}{refuted_by[1:]}", "")
    if result.construction:
        yield from (f"What its construction decides: {one_line(result.construction)}", "")
    if result.shortened:
        yield from (f"Timeouts below their defaults: {result.shortened}", "")
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
