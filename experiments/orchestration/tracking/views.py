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

from ackbench.experiments.ledger.quantities import TRIAL_PLACES
from ackbench.experiments.orchestration.tracking.runs import TRIAL
from ackbench.experiments.sweep.lookup import time_of_sweep

TAG_PREFIX: Final = "mlflow.sharedViewState."
TABLE_KEY: Final = "ackbench"
"""Key of the view of all trials of an experiment."""
KEPT_VIEWS: Final = 20
"""Views of sweeps that an experiment keeps: its page loads all of them each time."""
_SETTINGS: Final = ("acks", "enable.idempotence", "replication.factor", "partitions", "fault")
_METRICS: Final = {place.name: place.metric for place in TRIAL_PLACES}
_MEASURES: Final = {
    _METRICS["lost_high"]: "lost records (upper bound)",
    _METRICS["duplicates"]: "duplicates",
    _METRICS["unavailable_ms"]: "longest gap, ms",
    "latency/ack_p99_ms": "acknowledgement latency p99, ms",
    _METRICS["reordered"]: "reordered records",
    _METRICS["throughput_records_per_s"]: "acknowledged records per second",
}
_COLUMNS: Final = tuple(_MEASURES)[:4]
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


def table_view(axes: Sequence[str]) -> SavedView:
    """Return the view of all trials of an experiment: settings, losses and latency as columns."""
    return SavedView(
        TABLE_KEY,
        "ackbench: settings and what was lost",
        _state(f"tags.kind = '{TRIAL}'", axes),
    )


def sweep_view(sweep_id: str, axes: Sequence[str], *, repeats: int) -> SavedView:
    """Return the view of one sweep: a bar for each trial, or for each cell's mean.

    Args:
        sweep_id: the sweep; also the view's key.
        axes: what its cells differ in.
        repeats: trials per cell; several are shown as their mean.
    """
    state = _state(f"tags.sweep_id = '{sweep_id}' and tags.kind = '{TRIAL}'", axes)
    if repeats > 1:
        state["groupBy"] = {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": "cell"}],
        }
    return SavedView(sweep_id, f"ackbench: {sweep_id}", state)


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


def _state(search: str, axes: Sequence[str]) -> dict[str, Any]:
    """Return the state of the page; what it does not name has MLflow's defaults."""
    settings = dict.fromkeys([*_SETTINGS, *axes])
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
            for number, (metric, title) in enumerate(_MEASURES.items())
        ],
    }
