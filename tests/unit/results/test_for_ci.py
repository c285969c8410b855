"""A sweep's results for CI systems: JUnit's XML and a job summary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from markdown_it import MarkdownIt
from support.builders.sweeps import TRUTHS, measured_sweep
from support.golden_files import Says

from ackbench.experiments.results.formats.junit import TestCase as Case
from ackbench.experiments.results.formats.junit import junit_xml
from ackbench.experiments.results.formats.markdown import markdown_lines
from ackbench.experiments.results.formats.sweep_junit import sweep_cases
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.verdicts.judge import Verdict


def results_with(verdict: Verdict) -> SweepResults:
    """Return a sweep of which one judgement has this verdict, and no other has it."""
    results = measured_sweep().results
    first, *others = results.cells
    judgement = first.judgements[0].model_copy(
        update={"verdict": verdict, "mechanism": "because | of *this*"}
    )
    cell = first.model_copy(update={"judgements": (judgement,)})
    return results.model_copy(
        update={"cells": (cell, *(one.model_copy(update={"judgements": ()}) for one in others))}
    )


def outcome_of(verdict: Verdict) -> str:
    """Return the outcome of a judgement's test case."""
    (case,) = sweep_cases(results_with(verdict))
    return case.outcome


def test_a_violation_fails_and_what_nobody_can_tell_is_skipped() -> None:
    """What Kafka does not guarantee cannot fail."""
    assert [outcome_of(verdict) for verdict in Verdict] == [
        {
            Verdict.HELD: "passed",
            Verdict.NOT_GUARANTEED: "passed",
            Verdict.VIOLATED: "failure",
            Verdict.UNKNOWN: "skipped",
        }[verdict]
        for verdict in Verdict
    ]


def test_every_guarantee_of_every_cell_is_a_test_case() -> None:
    """Controls too: a sweep without them is worth less."""
    results = measured_sweep().results
    cases = list(sweep_cases(results))

    assert len(cases) == sum(len(cell.judgements) for cell in results.cells) > len(TRUTHS)


def test_void_trials_are_skipped_and_unfinished_ones_are_named() -> None:
    """Otherwise a sweep whose fault was not injected would look green."""
    void = measured_sweep().plan.trials[0].trial_id
    results = measured_sweep(void=[void]).results.model_copy(update={"pending": ("099-abcdef",)})
    trials = [case for case in sweep_cases(results) if case.suite == "trials"]

    assert [(case.outcome, case.name.split(" ")[0]) for case in trials] == [
        ("skipped", void),
        ("skipped", "099-abcdef"),
    ]


def test_the_document_is_read_by_any_parser_and_its_counts_are_right(tmp_path: Path) -> None:
    """Names and reasons may have any characters."""
    cases = [
        Case("a <cell> & more", "order", "passed"),
        Case("a <cell> & more", "loss", "failure", 'lost "3"', "line 1\nline 2"),
        Case("trials", "001", "error", "node 2 died"),
        Case("trials", "002", "skipped"),
    ]
    path = tmp_path / "junit.xml"
    path.write_text(junit_xml(cases), encoding="utf-8")
    suites = list(ET.parse(path).getroot())  # noqa: S314

    assert [suite.get("name") for suite in suites] == ["a <cell> & more", "trials"]
    counts = ("tests", "failures", "errors", "skipped")
    assert [[suite.get(one) for one in counts] for suite in suites] == [
        ["2", "1", "0", "0"],
        ["2", "0", "1", "1"],
    ]
    failure = suites[0][1].find("failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ('lost "3"', "line 1\nline 2")


def test_the_summary_has_the_answer_a_row_for_each_cell_and_each_violation(says: Says) -> None:
    """Text of the sweep cannot break the table."""
    results = results_with(Verdict.VIOLATED)
    lines = list(markdown_lines(results, "9 trials | Kafka 4.3.1", ["void: 007 (a_b)"]))
    rows = [line for line in lines if line.startswith("| ")]

    assert lines[0].startswith("## ")
    says(lines)
    assert any(line.startswith("**") for line in lines)
    columns = Counter(row.replace(r"\|", "").count("|") for row in rows)
    assert len(columns) == 1
    assert r"- void: 007 (a\_b)" in lines
    assert any("**VIOLATED**" in line and r"because \| of \*this\*" in line for line in lines)


def test_the_summary_is_rendered_as_a_table_with_a_row_for_each_cell() -> None:
    """By a renderer of CommonMark with GitHub's tables, whatever characters a reason has."""
    results = results_with(Verdict.VIOLATED)
    html = (
        MarkdownIt("commonmark")
        .enable("table")
        .render("\n".join(markdown_lines(results, "9 trials | Kafka 4.3.1", [])))
    )
    rows = html.partition("<tbody>")[2].partition("</tbody>")[0].count("<tr>")

    assert rows == sum(cell.refused is None for cell in results.cells)
    assert "<em>this</em>" not in html
