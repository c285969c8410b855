"""The notebook in docs/ runs from top to bottom on a stored sweep and draws three figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts, write_results
from support.builders.sweep_folders import measured_sweep_folder

from ackbench import Sweep
from ackbench.experiments.ledger.result_terms import LatencyKind, Phase
from ackbench.infra.machine.home import REPOSITORY, Home

NOTEBOOK: Final = REPOSITORY / "docs" / "notebook.ipynb"


def cells(kind: str) -> list[str]:
    """Return the sources of the notebook's cells of a kind."""
    document = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == kind]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a measured sweep of two trials."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    specs = [a_spec(trial_id=f"{n:03}-abcdef", repeat=n, order=n, seed=n) for n in (0, 1)]
    counts = {spec.trial_id: loss_counts(100, 7) for spec in specs}
    folder = measured_sweep_folder(
        Home(tmp_path), "planted", specs, lambda spec: counts[spec.trial_id]
    )
    latency = {"measure": LatencyKind.ACK, "phase": Phase.ALL, "records": 100, "p50_us": 2_000}
    rows = {
        "latency": [
            {"trial_id": trial, **latency, "p99_us": 9_000, "max_us": 20_000} for trial in counts
        ],
        "timeline": [
            {"trial_id": trial, "slot": slot, "sent_records": 10, "acked_records": 9}
            for trial in counts
            for slot in range(10)
        ],
    }
    write_results(folder, counts, rows)
    monkeypatch.setenv("SWEEP", folder.sweep_id)
    return folder.sweep_id


def test_the_notebook_draws_three_figures(
    sweep: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has data: the planted sweep lost 7 of 100 records in each trial."""
    mpl.use("agg")
    shown: list[Any] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    names: dict[str, Any] = {}
    for source in cells("code"):
        exec(source, names)  # noqa: S102 - the notebook of this repository

    assert isinstance(names["sweep"], Sweep)
    assert sweep in capsys.readouterr().out
    assert len(shown) == 3
    bars = shown[0].axes[0].patches
    assert [round(bar.get_width()) for bar in bars] == [70]
    assert all(figure.axes[0].has_data() for figure in shown)
    plt.close("all")


def test_the_notebook_names_its_guide_and_has_figures_stored() -> None:
    """A reader sees them without running it."""
    document = json.loads(NOTEBOOK.read_text())
    pictures = [
        output
        for cell in document["cells"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]

    assert "[api.md](api.md)" in cells("markdown")[0]
    assert len(pictures) == 3
