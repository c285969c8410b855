"""Saved views of MLflow's page: the columns of its table and the charts of a sweep.

MLflow's page stores a view as a tag of the experiment and offers it under "Saved views"; a link
opens it by its key. The tag's value is JSON with a name, a time and the state of the page. (MLflow
3.17, `savedViewUtils.ts` and `useSharedExperimentViewState.ts`; older pages open it by the link.)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ackbench.experiments.orchestration.tracking.cell_runs import CELL, VERDICT
from ackbench.experiments.orchestration.tracking.runs import COURSE, TRIAL, RunContent
from ackbench.experiments.sweep.lookup import time_of_sweep

TAG_PREFIX: Final = "mlflow.sharedViewState."
ANSWER_KEY: Final = "ackbench"
"""Key of the view of all cells of an experiment."""
KEPT_VIEWS: Final = 20
"""Views of sweeps that an experiment keeps: its page loads all of them each time."""
_SETTINGS: Final = ("fault", "acks", "enable.idempotence", "replication.factor", "partitions")
CHARTS: Final = {
    "lost_high": "lost records (upper bound)",
    "duplicates": "duplicates",
    "unavailable_ms": "outage, ms",
    "ack_p99_ms": "acknowledgement latency p99, ms",
    "reordered": "reordered records",
    "throughput_records_per_s": "acknowledged records per second",
}
"""The metrics that have a chart, with its title; those that come first are also columns."""
_COLUMNS: Final = tuple(CHARTS)[:4]
_ALL_RUNS: Final = 1000


@dataclass(frozen=True)
class SavedView:
    """One view; `tag` and `value` are those of MLflow's experiment."""

    key: str
    """In links: `viewStateShareKey=KEY`."""
    name: str
    state: dict[str, Any]

    @property
    def tag(self) -> str:
        """The name of the tag."""
        return TAG_PREFIX + self.key

    def value(self, created_ms: int) -> str:
        """Return the value of the tag.

        Args:
            created_ms: when the sweep began, milliseconds since 1970.
        """
        return json.dumps(
            {
                "name": self.name,
                "createdAt": created_ms,
                "updatedAt": created_ms,
                "state": json.dumps(self.state, separators=(",", ":")),
            }
        )


def answer_view(axes: Sequence[str], runs: Sequence[RunContent]) -> SavedView:
    """Return the view of all cells of an experiment: by fault what settings lost, and the verdict.

    Args:
        axes: what the cells of the newest sweep differ in.
        runs: of the newest sweep; what is 0 in all of its cells has no chart.
    """
    cells = [run for run in runs if run.tags["kind"] == CELL]
    state = _state(f"tags.kind = '{CELL}'", axes, cells)
    state["selectedColumns"].append(f"tags.`{VERDICT}`")
    return SavedView(ANSWER_KEY, "ackbench: the answer", state | {"orderByKey": "params.`fault`"})


def sweep_view(
    sweep_id: str, axes: Sequence[str], runs: Sequence[RunContent], *, repeats: int
) -> SavedView:
    """Return the view of one sweep: a bar for each trial, or for each cell's mean.

    Args:
        sweep_id: the sweep; also the view's key.
        axes: what its cells differ in.
        runs: of the sweep; what is 0 in all of its trials has no chart.
        repeats: trials per cell; several are shown as their mean.
    """
    trials = [run for run in runs if run.tags["kind"] == TRIAL]
    search = f"tags.sweep_id = '{sweep_id}' and tags.kind = '{TRIAL}'"
    state = _state(search, axes, trials)
    if repeats > 1:
        state["groupBy"] = {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": "cell"}],
        }
    return SavedView(sweep_id, f"ackbench: {sweep_id}", state)


def is_newest_view(tags: Collection[str], key: str) -> bool:
    """Return whether no view is of a later sweep.

    Args:
        tags: names of all tags of the experiment.
        key: of the view of a sweep.
    """
    times = (time_of_sweep(tag.removeprefix(TAG_PREFIX)) for tag in tags)
    own = time_of_sweep(key)
    return own is None or all(time is None or time <= own for time in times)


def outdated_views(tags: Collection[str], newest: str) -> list[str]:
    """Return the tags of the oldest sweeps' views, beyond those that are kept.

    Args:
        tags: names of all tags of the experiment.
        newest: the key of the view that is written now; never returned.
    """
    sweeps = [
        (time, tag)
        for tag in tags
        if tag.startswith(TAG_PREFIX)
        and tag != TAG_PREFIX + newest
        and (time := time_of_sweep(tag.removeprefix(TAG_PREFIX)))
    ]
    return [tag for _, tag in sorted(sweeps)][: -(KEPT_VIEWS - 1)]


def _state(search: str, axes: Sequence[str], runs: Sequence[RunContent]) -> dict[str, Any]:
    """Return the state of the page; what it does not name has MLflow's defaults.

    Args:
        search: the filter of the runs.
        axes: settings with a column, beside those that always have one.
        runs: those that the view shows now; what is 0 in all of them has no chart.
    """
    settings = dict.fromkeys([*_SETTINGS, *axes])
    charts = {
        metric: title
        for metric, title in CHARTS.items()
        if any(run.metrics.get(metric) for run in runs)
    }
    section = "ackbench"
    return {
        "searchFilter": search,
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "selectedColumns": [
            *(f"params.`{name}`" for name in settings),
            *(f"metrics.`{name}`" for name in _COLUMNS),
        ],
        "runsHiddenMode": "SHOW_ALL",
        "isAccordionReordered": True,  # or else sections are sorted by name
        "compareRunSections": [
            {
                "uuid": section,
                "name": "What the settings change",
                "display": True,
                "isReordered": True,
                "deleted": False,
                "isGenerated": False,
            }
        ],
        "compareRunCharts": [
            {
                "type": "BAR",
                "uuid": f"{section}-{number}",
                "metricKey": metric,
                "displayName": title,
                "metricSectionId": section,
                "runsCountToCompare": _ALL_RUNS,
                "deleted": False,
                "isGenerated": False,
            }
            for number, (metric, title) in enumerate(charts.items())
        ]
        + [_course_of_load(section)] * any(COURSE in run.series for run in runs),
    }


def _course_of_load(section: str) -> dict[str, Any]:
    """Return the chart with a line for each trial, in which an outage is a gap."""
    return {
        "type": "LINE",
        "uuid": f"{section}-course",
        "metricKey": COURSE,
        "selectedMetricKeys": [COURSE],
        "displayName": "acknowledged records per second, by ms of the load",
        "metricSectionId": section,
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "scaleType": "log",  # the burst after an outage is twenty times the load
        "xAxisScaleType": "linear",
        "lineSmoothness": 0,
        "runsCountToCompare": _ALL_RUNS,
        "deleted": False,
        "isGenerated": False,
    }
