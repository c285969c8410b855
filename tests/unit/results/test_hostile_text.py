"""What an experiment, a client or a broker says of a sweep is shown, and acts nowhere."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import settings
from support.builders.sweeps import measured_sweep
from support.hostile_texts import GITHUB, HOSTILE, Page, acting, for_any_text

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.messages.console import TerminalConsole, print_text
from ackbench.experiments.messages.visible import visible
from ackbench.experiments.orchestration.tracking.runs import summary_run, trial_run
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.results.formats.junit import junit_xml
from ackbench.experiments.results.formats.markdown import markdown_lines
from ackbench.experiments.results.formats.sweep_junit import sweep_cases
from ackbench.experiments.results.formats.tables import print_cells, print_notes
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.sentences import plain_answer
from ackbench.experiments.verdicts.evidence import SetAside, Stalled

EVIDENCE = measured_sweep(void=("000-000000",))
OWN_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TEXTS = {"label", "question", "reason", "mechanism", "refused", "evidence", "sentences", "fault"}


def saying(value: Any, text: str, name: str = "") -> Any:
    """Return results in which all texts of others, and one setting of each cell, are this one."""
    if isinstance(value, dict):
        return {key: saying(inner, text, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [saying(inner, text, name) for inner in value]
    return f"x{text}x" if isinstance(value, str) and name in _TEXTS else value


def results_saying(text: str) -> SweepResults:
    """Return a sweep's results in which all texts of others are this one.

    Without halves of surrogate pairs, which no file can have.
    """
    said = re.sub("[\ud800-\udfff]", "", text)
    document = saying(EVIDENCE.results.model_dump(mode="json"), said)
    for judgement in (one for cell in document["cells"] for one in cell["judgements"]):
        del judgement["reasons"]  # the sentences of the evidence
        judgement["evidence"] = [
            SetAside(status=Status.VOID, reasons={"000-000000": said}),
            Stalled(first={"001-000000": said}),
        ]
    return SweepResults.model_validate({**document, "plan": EVIDENCE.plan})


@settings(max_examples=20, deadline=None)
@for_any_text
def test_the_junit_of_a_sweep_is_xml(text: str) -> None:
    """With as many cases as without such a text."""
    document = junit_xml(sweep_cases(results_saying(text)))
    plain = junit_xml(sweep_cases(results_saying("")))
    cases = [len(list(ET.fromstring(one).iter("testcase"))) for one in (document, plain)]  # noqa: S314 - our own
    assert cases[0] == cases[1] > 0
    assert acting(document) == []


@settings(max_examples=20, deadline=None)
@for_any_text
def test_the_job_summary_of_a_sweep_has_no_element_of_a_text(text: str) -> None:
    """It has those that it has without such a text."""
    pages = [
        Page(
            GITHUB.render("\n".join(markdown_lines(results_saying(said), said, [f"void: {said}"])))
        )
        for said in (text, "y")
    ]
    assert [name for name in pages[0].elements if name != "p"] == [
        name for name in pages[1].elements if name != "p"
    ]
    assert acting(pages[0].text) == []


@settings(max_examples=20, deadline=None)
@for_any_text
def test_the_terminal_shows_a_sweep_without_control_characters(text: str) -> None:
    """In its tables, notes and answer."""
    results, out = results_saying(text), io.StringIO()
    console = TerminalConsole(file=out, force_terminal=True, color_system="truecolor", width=100)
    print_text(console, results.question, wrap=True)
    print_cells(console, results.cells)
    print_notes(console, results)
    for sentence in plain_answer(results):
        print_text(console, str(sentence), wrap=True, style="bold")
    assert acting(OWN_COLOUR.sub("", out.getvalue())) == []


def test_the_report_of_a_sweep_shows_each_text() -> None:
    """In tables, charts and attributes."""
    page = render_page(replace(EVIDENCE, results=results_saying("".join(HOSTILE))))
    plain = render_page(replace(EVIDENCE, results=results_saying("y")))
    assert acting(page) == []
    assert page.count("<script") == plain.count("<script")
    assert visible("\x1b[31m") in page


@settings(max_examples=20, deadline=None)
@for_any_text
def test_mlflow_gets_no_control_characters(text: str) -> None:
    """In names, tags and params."""
    results = results_saying(text)
    trial = next(trial for trial in results.trials if trial.attempted)
    spec = EVIDENCE.plan.trial(trial.trial_id)
    for run in (summary_run(results, text), trial_run(trial, spec, None, [*spec.cell])):
        shown = run.storable()
        texts = [shown.name, *shown.tags.values(), *shown.params.values(), *shown.tags]
        assert acting("".join(texts)) == []
