"""Figures of an overloaded machine are marked wherever they are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from support.builders.sweeps import DUPLICATING, LOSING, WITHOUT_FAULT, measured_sweep

from ackbench.experiments.commands.show import remarks
from ackbench.experiments.orchestration.tracking.runs import trial_run
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.results.formats.tables import print_cells
from ackbench.experiments.results.models import (
    LatencySpreads,
    MedianAndMax,
    QuantileSpreads,
    SweepResults,
    TrialResult,
)
from ackbench.experiments.results.trials import is_overloaded
from ackbench.experiments.results.wording import LEGEND_OF_OVERLOAD, OVERLOADED_SIGN
from ackbench.experiments.sweep.folder import SweepFolder


def a_trial(**values: Any) -> TrialResult:
    """Return a measured trial with these values."""
    trial = measured_sweep((DUPLICATING,)).results.trials[0]
    return trial.model_copy(
        update={
            "generator_late": None,
            "kept_up_before_fault": None,
            "producer_stalled_ms": None,
            **values,
        }
    )


@pytest.mark.parametrize(
    ("values", "overloaded"),
    [
        ({}, None),
        ({"generator_late": False}, False),
        ({"generator_late": True, "kept_up_before_fault": True}, True),
        ({"kept_up_before_fault": True}, False),
        ({"kept_up_before_fault": False}, True),
        ({"producer_stalled_ms": 999.9, "generator_late": False}, False),
        ({"producer_stalled_ms": 1000.0}, True),
    ],
)
def test_a_trial_is_overloaded_if_one_sign_of_it_is_seen(
    values: dict[str, Any], overloaded: bool | None
) -> None:
    """Without any sign that could be seen, nothing is known."""
    assert is_overloaded(a_trial(**values)) is overloaded


A_LATENCY = MedianAndMax(median=12.5, max=14.0)


def overloaded_sweep(*, overloaded: bool) -> ReportData:
    """Return a sweep in whose first cell the machine was overloaded, or not."""
    data = measured_sweep((DUPLICATING, LOSING, WITHOUT_FAULT))
    cell, *others = data.results.cells
    trial, *more = data.results.trials
    results = data.results.model_copy(
        update={
            "cells": (
                cell.model_copy(
                    update={
                        "overloaded_trials": int(overloaded),
                        "latency_ms": LatencySpreads(ack=QuantileSpreads(p99=A_LATENCY)),
                    }
                ),
                *others,
            ),
            "trials": (trial.model_copy(update={"overloaded": overloaded}), *more),
        }
    )
    return replace(data, results=results)


def terminal(results: SweepResults) -> str:
    """Return what the terminal shows of the cells."""
    console = Console(width=160, record=True, color_system=None)
    print_cells(console, results.cells)
    return console.export_text()


def test_the_terminal_marks_latency_and_gap_and_explains_the_mark() -> None:
    """Counts have no mark: what was lost was lost."""
    marked, usual = (terminal(overloaded_sweep(overloaded=one).results) for one in (True, False))
    lines = [line for line in marked.splitlines() if OVERLOADED_SIGN in line]
    (row,) = (line for line in lines if line.startswith("all"))
    assert row.count(OVERLOADED_SIGN) == 2
    assert LEGEND_OF_OVERLOAD.split(" (", maxsplit=1)[0] in marked
    assert OVERLOADED_SIGN not in usual


def test_the_page_marks_the_figures_of_the_cell_and_explains_the_mark() -> None:
    """In the matrix, in the table of figures, and below the trial's picture."""
    marked, usual = (render_page(overloaded_sweep(overloaded=one)) for one in (True, False))
    assert marked.count(f">{OVERLOADED_SIGN}") >= 3
    assert f">{OVERLOADED_SIGN}" not in usual
    assert "The machine was overloaded: times say nothing of these settings." in marked


def test_show_and_mlflow_name_the_trial(tmp_path: Any) -> None:
    """The remark is part of the Markdown summary, too."""
    data = overloaded_sweep(overloaded=True)
    trial = data.results.trials[0]
    (line,) = (
        one
        for one in remarks(SweepFolder(tmp_path), data.results)
        if one.startswith("overloaded: ")
    )
    assert trial.trial_id in line
    spec = data.plan.trial(trial.trial_id)
    run = trial_run(trial, spec, data.manifests[trial.trial_id], [])
    assert run.metrics["overloaded"] == 1
