"""The DAGs of scheduled experiments: of the catalogue, and of the operator's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure
from support.set_up_home import SET_UP

from experiments.errors import ExperimentError
from experiments.orchestration import steps
from experiments.orchestration.environment import DAGS_FOLDER
from experiments.sweep.folder import SweepFolder
from infra.machine.home import Home

TEXT = """\
name: {name}
title: A night
question: Is everything as it was?
schedule: "0 2 * * *"
allow_code: true
controls: false
axes: {{acks: all, enable.idempotence: true, replication.factor: 1, partitions: 1, fault: none}}
producer: {{ssl.providers: legacy}}
workload: {{rate_records_per_s: 1000, record_size_bytes: 100, duration_s: 1, producers: 1}}
repeats: 1
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the operator's folder; nothing is written below the installation."""
    folder = tmp_path_factory.mktemp("operator's")
    monkeypatch.setenv("ACKBENCH_EXPERIMENTS", str(folder))
    return folder


@pytest.fixture
def parsed(airflow: Home) -> Callable[[], Any]:
    """Return a function that parses all DAGs as a scheduler does."""
    del airflow
    from airflow.dag_processing.dagbag import DagBag

    return lambda: DagBag(dag_folder=str(DAGS_FOLDER))


def test_a_file_of_the_operators_folder_is_scheduled(
    folder: Path, parsed: Callable[[], Any]
) -> None:
    """The installation's catalogue may be read-only."""
    (folder / "mine.yaml").write_text(TEXT.format(name="my-night"))
    dag = parsed().get_dag("ackbench_my-night")

    assert dag.schedule == "0 2 * * *"
    assert dag.params["experiment"] == "mine.yaml"


def test_a_file_that_does_not_parse_is_one_dag_that_says_so_and_the_others_run(
    folder: Path, parsed: Callable[[], Any], dags: Any
) -> None:
    """Of the operator's folder or of the catalogue."""
    (folder / "broken one.yaml").write_text("name: [")
    (folder / "mine.yaml").write_text(TEXT.format(name="my-night"))
    found = parsed()

    assert found.import_errors == {}
    (broken,) = {*found.dag_ids} - {*dags.dag_ids} - {"ackbench_my-night"}
    assert "broken one.yaml" in found.get_dag(broken).doc_md
    assert found.get_dag(broken).test().state == "failed"
    assert {*dags.dag_ids} <= {*found.dag_ids}


@pytest.mark.parametrize("name", ["sweep", "prune", "quick", "my-night"])
def test_no_file_takes_the_dag_of_another(
    folder: Path, parsed: Callable[[], Any], dags: Any, name: str
) -> None:
    """Which of two would run is up to chance otherwise."""
    (folder / "a.yaml").write_text(TEXT.format(name="my-night"))
    (folder / "b.yaml").write_text(TEXT.format(name=name))
    found = parsed()

    assert found.import_errors == {}
    assert {*found.dag_ids} - {*dags.dag_ids} == {"ackbench_my-night", "ackbench_unreadable.b"}
    assert "name of its own" in found.get_dag("ackbench_unreadable.b").doc_md


def test_a_scheduled_experiment_without_changes_is_the_operators(
    folder: Path, world: FakeInfrastructure
) -> None:
    """It may do what a file of `ackbench run` may; a request that changes it may not."""
    (folder / "mine.yaml").write_text(TEXT.format(name="my-night"))
    (world.home.root / "cache").symlink_to(SET_UP.cache)
    form = {"experiment": "mine.yaml"}
    sweep = SweepFolder(world.home.sweeps / steps.plan_sweep(form, "mine.yaml"))

    assert json.loads((sweep.root / "plan.json").read_bytes())["experiment"] == "my-night"
    for request, scheduled in (
        (form, None),
        (form, "other.yaml"),
        ({**form, "acks": ["1"]}, "mine.yaml"),
    ):
        with pytest.raises(ExperimentError, match="form"):
            steps.plan_sweep(request, scheduled)
