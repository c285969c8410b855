"""The stored numbers of cells, trials and minutes of the catalogue's experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackbench.experiments.commands import experiment_list
from ackbench.experiments.planning import catalog
from ackbench.experiments.planning.catalog import EXTENTS, catalog_names, stored_extents
from ackbench.experiments.planning.extents import as_json


def test_the_stored_extents_are_those_of_the_catalogue() -> None:
    """`make extents` writes them."""
    assert as_json() == EXTENTS.read_text(encoding="utf-8")


def test_an_experiment_whose_file_has_changed_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list shows what would run, not what would have run."""
    changed = tmp_path / "quick.yaml"
    changed.write_text(
        catalog.catalog_files()["quick"].read_text().replace("duration_s: 10 ", "duration_s: 100 ")
    )
    monkeypatch.setattr(catalog, "catalog_files", lambda: {"quick": changed})
    monkeypatch.setattr(
        "ackbench.experiments.planning.catalog.loading.catalog_files", lambda: {"quick": changed}
    )
    stored_extents.cache_clear()
    try:
        assert experiment_list.list_experiments() == 0
    finally:
        stored_extents.cache_clear()
    assert " 37 min" in capsys.readouterr().out


def test_the_documentation_of_the_dag_lists_every_experiment() -> None:
    """With its cells and minutes."""
    table = catalog.as_markdown()
    for name in catalog_names():
        assert f"| `{name}` | {stored_extents()[name].title} |" in table
