"""The DAGs of scheduled experiments: of the catalogue, and of the operator's folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure
from support.set_up_home import SET_UP

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.orchestration import steps
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.airflow.environment import DAGS_FOLDER
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

TEXT = """\
name: {name}
title: A night
question: Is everything as it was?
schedule: "0 2 * * *"
controls: false
axes: {{acks: all, enable.idempotence: true, replication.factor: 1, partitions: 1, fault: none}}
workload: {{rate_records_per_s: 1000, record_size_bytes: 100, duration_s: 1, producers: 1}}
repeats: 1
"""

SCHEDULED: dict[str, Any] = {
    "name": "my-night",
    "title": "A night",
    "question": "Is everything as it was?",
    "schedule": "0 2 * * *",
    "controls": False,
    "repeats": 1,
    "axes": {"acks": ["all"], "fault": ["none"]},
}
_EXTERNAL: dict[str, Any] = {"cluster": "external", "bootstrap.servers": "kafka.example:9093"}
PROGRAMS: dict[str, dict[str, Any]] = {
    "allow_code is true": {"allow_code": True, "producer": {"ssl.providers": "legacy"}},
    "token_command runs a command": {
        **_EXTERNAL,
        "security": {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"},
        "token_command": ["true", "--audience", "kafka"],
    },
    "faults.kill runs commands": {
        **_EXTERNAL,
        "allow_faults": "this-cluster",
        "faults": {"kill": {"kind": "command", "inject": ["true", "$LEADER"], "heal": ["true"]}},
        "axes": {"acks": ["all"], "fault": ["kill"]},
    },
}
"""Sections of experiments that load code or run commands, by what a form may not have."""


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


@pytest.fixture(params=PROGRAMS)
def programs(
    request: pytest.FixtureRequest,
    folder: Path,
    world: FakeInfrastructure,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Write a scheduled file that loads code or runs commands; return what a form may not have."""
    (folder / "mine.yaml").write_text(dump_yaml({**SCHEDULED, **PROGRAMS[request.param]}))
    (world.home.root / "cache").symlink_to(SET_UP.cache)
    # An external cluster is contacted when it is planned for, and nobody answers here.
    monkeypatch.setattr(
        "ackbench.experiments.planning.new_sweep._plan_on_external_cluster",
        lambda _, plan, **__: plan,
    )
    return str(request.param)


def test_a_scheduled_experiment_without_changes_is_the_operators(
    programs: str, world: FakeInfrastructure
) -> None:
    """It may do what a file of `ackbench run` may."""
    del programs
    sweep = SweepFolder(
        world.home.sweeps / steps.plan_sweep({"experiment": "mine.yaml"}, "mine.yaml")
    )

    assert sweep.plan().experiment == "my-night"


@pytest.mark.parametrize(
    ("changes", "scheduled"),
    [({}, None), ({}, "other.yaml"), ({"acks": ["1"]}, "mine.yaml")],
    ids=["a form", "another schedule", "a change"],
)
def test_a_request_for_the_same_file_is_no_schedule(
    programs: str, changes: dict[str, Any], scheduled: str | None
) -> None:
    """Whoever may start sweeps starts no programs."""
    with pytest.raises(ExperimentError, match=f"{re.escape(programs)} in an experiment from a"):
        steps.plan_sweep({"experiment": "mine.yaml", **changes}, scheduled)


@pytest.mark.parametrize(
    "given",
    [
        {"allow_code": True},
        {"token_command": ["touch", "owned"]},
        {"faults": {"kill": {"kind": "command", "inject": ["touch", "owned"]}}},
        {"set": ["allow_code=true"]},
        {"set": ["token_command=touch"]},
        {"set": ["faults.kill.inject=touch"]},
        {"set": ["producer.plugin.library.paths=owned.so"]},
    ],
    ids=str,
)
def test_a_form_has_no_such_keys(world: FakeInfrastructure, given: dict[str, Any]) -> None:
    """Not as fields, and not as axes."""
    (world.home.root / "cache").symlink_to(SET_UP.cache)

    with pytest.raises(InputError):
        steps.plan_sweep({"experiment": "quick", **given}, "quick")
    assert not list(world.home.sweeps.glob("*"))
