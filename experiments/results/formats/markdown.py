"""A sweep's results as Markdown, for the summary of a CI job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ackbench.experiments.messages.markdown import code_span, escaped, table
from ackbench.experiments.results.expectations import expectation_lines
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.results.sentences import plain_answer
from ackbench.experiments.results.wording import verdict_sign, verdict_text
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Verdict


def markdown_lines(results: SweepResults, run: str, remarks: Iterable[str]) -> Iterator[str]:
    """Yield the lines: the answer, a table of verdicts, violations, and what did not complete.

    Args:
        results: of the sweep.
        run: what was run, in one line.
        remarks: void and failed trials, and those not run, one line each.
    """
    yield from (f"## {escaped(results.experiment)}: {escaped(results.question)}", "")
    for sentence in plain_answer(results):
        yield from (f"**{escaped(str(sentence))}**", "")
    for line in expectation_lines(results.expectations):
        yield f"{'  - ' if line.startswith('  ') else '- '}{escaped(line.strip())}"
    yield from ([""] if results.expectations else [])
    yield from (escaped(run), "")
    cells = [cell for cell in results.cells if cell.refused is None and not cell.added]
    judged = {one.guarantee for cell in cells for one in cell.judgements}
    guarantees = [guarantee for guarantee in GUARANTEES if guarantee in judged]
    if guarantees:
        heads = ["cell", *(guarantee.label for guarantee in guarantees)]
        yield from (*table(heads, _rows(cells, guarantees)), "")
    for cell in cells:
        for judgement in cell.judgements:
            if judgement.verdict is Verdict.VIOLATED:
                name = judgement.guarantee.label
                reasons = " ".join(judgement.reasons)
                yield f"- **VIOLATED** {escaped(cell.label)}: {name}: {escaped(reasons)}"
    yield from (f"- {escaped(remark)}" for remark in remarks)
    yield from ("", code_span(f"ackbench open report {results.sweep_id}"))


def _rows(cells: list[CellResult], guarantees: list[Guarantee]) -> Iterator[list[str]]:
    for cell in cells:
        by_guarantee = {judgement.guarantee: judgement for judgement in cell.judgements}
        texts = [
            f"{verdict_sign(by_guarantee[one])} {verdict_text(by_guarantee[one])}"
            if one in by_guarantee
            else ""
            for one in guarantees
        ]
        yield [escaped(cell.label), *map(escaped, texts)]
