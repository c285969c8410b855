"""The Grafana dashboard asks for metrics that exist, in PromQL that Prometheus accepts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.needed_programs import skip_without

from ackbench.experiments.pages.live.metrics import metric_names

DASHBOARD: Final = Path(__file__).parents[4] / "docs" / "grafana" / "ackbench.json"
SUFFIXES: Final = ("", "_total", "_bucket", "_count", "_sum", "_info")
"""What OpenMetrics appends to the name of a family, by its type."""
GRID_COLUMNS: Final = 24
"""The width of Grafana's grid."""


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    """Yield every PromQL expression of the dashboard."""
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (one["expr"] for one in dashboard["annotations"]["list"])


def test_panels_have_places_of_their_own(dashboard: dict[str, Any]) -> None:
    """Within the grid, and none over another; each with an id of its own."""
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < GRID_COLUMNS
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) >= 10


def test_every_panel_uses_the_chosen_data_source(dashboard: dict[str, Any]) -> None:
    """So that the dashboard can be imported anywhere."""
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for panel in dashboard["panels"]:
        assert panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_every_variable_of_an_expression_is_defined(dashboard: dict[str, Any]) -> None:
    """Grafana replaces them before it asks."""
    defined = {one["name"] for one in dashboard["templating"]["list"]}
    used = {name for text in expressions(dashboard) for name in re.findall(r"\$(\w+)", text)}
    assert used <= defined


def test_every_metric_of_an_expression_is_exported(dashboard: dict[str, Any]) -> None:
    """A renamed metric would leave a panel empty."""
    exported = {f"{name}{suffix}" for name in metric_names() for suffix in SUFFIXES}
    texts = [*expressions(dashboard), dashboard["templating"]["list"][1]["definition"]]
    labels = r"(?:ackbench_fault_state|ackbench_sweep_stage)\s*=~?"
    used = {
        name
        for text in texts
        for name in re.findall(r"\back[a-z_]+\b", re.sub(labels, "", text))
        if name.startswith("ackbench_")
    }
    assert used - exported == set()
    assert len(used) >= 10


def test_prometheus_accepts_every_expression(dashboard: dict[str, Any], tmp_path: Path) -> None:
    """As rules, which promtool parses."""
    skip_without("promtool")
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$sweep", ".*")}
        for number, text in enumerate(expressions(dashboard))
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout
