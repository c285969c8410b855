"""The saved views of MLflow's page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from support.builders.records import a_spec

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.orchestration.tracking import views
from ackbench.experiments.orchestration.tracking.cell_runs import CELL
from ackbench.experiments.orchestration.tracking.runs import TRIAL, Point, RunContent
from ackbench.experiments.sweep.cell_names import varying_axes

SWEEP_ID = "quick-20260101T000000-abcd"
MAX_TAG_LENGTH = 5000
"""MLflow's limit for the value of an experiment's tag."""


def state_of(view: views.SavedView) -> dict[str, Any]:
    """Return the state of the page that a view has."""
    state: dict[str, Any] = json.loads(json.loads(view.value(1_000))["state"])
    return state


def a_run(kind: str, metrics: dict[str, float]) -> RunContent:
    """Return a run of a trial or of a cell."""
    return RunContent(name="a run", tags={"kind": kind, "trial_id": "a"}, metrics=metrics)


def test_what_is_0_in_all_runs_has_no_chart() -> None:
    """Bars that are all 0 tell nothing; runs of another kind do not count."""
    runs = [
        a_run(TRIAL, {"lost_high": 0.0, "duplicates": 3.0}),
        a_run(TRIAL, {"lost_high": 0.0}),
        a_run(CELL, {"lost_high": 9.0}),
    ]
    charts = state_of(views.sweep_view(SWEEP_ID, [], runs, repeats=1))["compareRunCharts"]

    assert [chart["metricKey"] for chart in charts] == ["duplicates"]


def test_the_course_of_the_load_is_a_line_for_each_trial() -> None:
    """Where a sweep was measured; the view of the answer is of cells, which have none."""
    course = {"timeline_acked_records_per_s": [Point(0, 1_000, 30.0), Point(100, 1_100, 0.0)]}
    trial, cell = a_run(TRIAL, {}), a_run(CELL, {})
    measured = replace(trial, series=course)

    (chart,) = state_of(views.sweep_view(SWEEP_ID, [], [measured, trial], repeats=1))[
        "compareRunCharts"
    ]
    assert (chart["type"], chart["xAxisKey"]) == ("LINE", "step")
    assert chart["metricKey"] == "timeline_acked_records_per_s"
    for view in (
        views.sweep_view(SWEEP_ID, [], [trial], repeats=1),
        views.answer_view([], [measured, cell]),
    ):
        assert state_of(view)["compareRunCharts"] == []


def test_the_answer_is_of_all_cells_by_fault_and_ends_with_the_verdict() -> None:
    """All sweeps of the experiment stand together, by their settings."""
    state = state_of(views.answer_view(["acks"], []))

    assert state["searchFilter"] == f"tags.kind = '{CELL}'"
    assert state["orderByKey"] == "params.`fault`"
    assert state["selectedColumns"][-1] == "tags.`verdict`"


def test_the_view_of_a_sweep_shows_all_its_trials_and_no_other_sweep() -> None:
    """MLflow hides all but ten runs by default."""
    state = state_of(views.sweep_view(SWEEP_ID, ["acks"], [], repeats=1))

    assert state["searchFilter"] == f"tags.sweep_id = '{SWEEP_ID}' and tags.kind = '{TRIAL}'"
    assert state["runsHiddenMode"] == "SHOW_ALL"
    assert "groupBy" not in state


def test_several_trials_of_a_cell_are_one_bar() -> None:
    """Their mean."""
    (key,) = state_of(views.sweep_view(SWEEP_ID, [], [], repeats=3))["groupBy"]["groupByKeys"]

    assert key["groupByData"] == "cell"


def test_the_table_has_the_settings_that_every_reader_asks_for_and_the_experiments_own() -> None:
    """Each once."""
    columns = state_of(views.answer_view(["copy.delivery", "acks"], []))["selectedColumns"]

    assert columns[:6] == [
        "params.`fault`",
        "params.`acks`",
        "params.`enable.idempotence`",
        "params.`replication.factor`",
        "params.`partitions`",
        "params.`copy.delivery`",
    ]
    assert "metrics.`lost_high`" in columns
    assert "metrics.`ack_p99_ms`" in columns


def test_axes_that_are_the_same_in_all_cells_are_not_columns() -> None:
    """An axis that a cell lacks is one in which it differs."""
    cells: list[Cell] = [
        {"acks": 1, "partitions": 3},
        {"acks": "all", "partitions": 3},
        {"acks": "all", "linger.ms": 5},
    ]

    assert varying_axes(cells) == ["acks", "partitions", "linger.ms"]
    assert varying_axes([a_spec().cell]) == []


def test_the_tag_is_within_the_limit_of_mlflow() -> None:
    """It refuses a longer one."""
    axes = [f"workload.a_long_name_of_an_axis_{number}" for number in range(12)]
    course = {"timeline_acked_records_per_s": [Point(0, 1_000, 30.0)]}
    runs = [replace(a_run(TRIAL, dict.fromkeys(views.CHARTS, 1.0)), series=course)]

    assert len(views.sweep_view(SWEEP_ID, axes, runs, repeats=3).value(1)) < MAX_TAG_LENGTH


def test_only_the_views_of_the_newest_sweeps_are_kept() -> None:
    """Other people's views and the table's are not outdated."""
    tags = [
        f"{views.TAG_PREFIX}quick-202601{day:02d}T000000-{31 - day:04x}" for day in range(1, 31)
    ]
    others = [
        f"{views.TAG_PREFIX}{views.ANSWER_KEY}",
        f"{views.TAG_PREFIX}a1b2",
        "mlflow.note.content",
    ]

    outdated = views.outdated_views([*others, *reversed(tags)], newest=SWEEP_ID)

    assert outdated == tags[: 30 - (views.KEPT_VIEWS - 1)]


def test_the_view_that_is_written_now_is_kept_even_if_it_is_the_oldest() -> None:
    """An old sweep may be tracked again."""
    tags = [f"{views.TAG_PREFIX}quick-202602{day:02d}T000000-abcd" for day in range(1, 28)]

    outdated = views.outdated_views([*tags, views.TAG_PREFIX + SWEEP_ID], newest=SWEEP_ID)

    assert views.TAG_PREFIX + SWEEP_ID not in outdated
