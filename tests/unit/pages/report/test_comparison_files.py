"""Comparisons for CI systems: JUnit's test cases and a job summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from support.builders.sweeps import SAFE, Truth, measured_sweep
from support.golden_files import Says

from ackbench.experiments.commands import compare as command
from ackbench.experiments.commands.show import ResultFiles
from ackbench.experiments.pages.report.comparison_files import comparison_cases, comparison_lines
from ackbench.experiments.results.comparing.comparison import ComparedSweep, Comparison, compare
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.formats.junit import TestCase as Case
from ackbench.infra.machine.home import Home

FAST = replace(SAFE, p99_ms=2000, outage_ms=3000)
SLOW = replace(FAST, p99_ms=3000)


def sweep_of(truth: Truth, sweep_id: str, trials: int) -> ComparedSweep:
    """Return a measured sweep of one cell without losses or duplicates."""
    none = (0,) * trials
    evidence = measured_sweep((replace(truth, lost=none, copies=none),), sweep_id=sweep_id)
    return ComparedSweep(evidence.plan, evidence.results)


def comparison(trials: int) -> Comparison:
    """Return the comparison of a fast and a slow sweep with so many trials per cell."""
    return compare(sweep_of(FAST, "a", trials), sweep_of(SLOW, "b", trials))


def case_of_latency(trials: int, *fail_on: str) -> Case:
    """Return the test case of the 99th percentile of latency."""
    cases = comparison_cases([comparison(trials)], Gate.parse(fail_on, two_sweeps=True))
    return next(case for case in cases if "p99" in case.name)


def test_a_measure_fails_only_where_it_exceeds_a_limit() -> None:
    """Without a limit a difference is reported and passes."""
    assert case_of_latency(8).outcome == "passed"
    failed = case_of_latency(8, "worse:latency_p99>10%")
    assert (failed.outcome, failed.message) == ("failure", "exceeds worse:latency_p99>10%")
    assert "B against A: +" in failed.text
    assert case_of_latency(8, "worse:latency_p99>100000%").outcome == "passed"


def test_a_limit_that_the_trials_cannot_decide_is_skipped_with_the_reason(says: Says) -> None:
    """A job that shows green would claim too much."""
    case = case_of_latency(3, "worse:latency_p99>10%")
    assert case.outcome == "skipped"
    says(case.message)


def test_a_cell_that_only_one_side_has_is_skipped() -> None:
    """It was not compared."""
    found = comparison(8).model_copy(update={"only_b": ("acks=0",)})
    case = list(comparison_cases([found], Gate()))[-1]
    assert (case.name, case.outcome, case.message) == ("acks=0", "skipped", "only in B")


def test_the_summary_has_both_sides_the_sentences_and_a_row_for_each_measure() -> None:
    """What Markdown would read as its own is escaped."""
    found = comparison(8)
    lines = list(comparison_lines([found]))
    assert lines[0].startswith("## A: ")
    assert sum(line.startswith("| acks") for line in lines) == len(found.cells[0].differences)
    assert any(line.startswith("**") for line in lines)


def test_the_command_writes_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And passes the gate's exit code on."""
    sides = {"a": sweep_of(FAST, "a", 8), "b": sweep_of(SLOW, "b", 8)}
    monkeypatch.setattr(
        command,
        "open_sweep",
        lambda _home, name, _say: SimpleNamespace(root=name, plan=lambda: sides[name].plan),
    )
    monkeypatch.setattr(command, "read_results", lambda folder: sides[folder.root].results)
    files = ResultFiles(junit=tmp_path / "gate.xml", markdown=tmp_path / "gate.md")
    gate = Gate.parse(("worse:latency_p99>10%",), two_sweeps=True)
    code = command.compare_results(
        Home(tmp_path), "a", "b", None, gate=gate, as_json=False, files=files
    )
    assert code == 3
    assert ET.parse(tmp_path / "gate.xml").find(".//failure") is not None  # noqa: S314 - our own
    assert "B against A" in (tmp_path / "gate.md").read_text()
