"""Airflow with a test database; fakes for brokers, Spark and MLflow."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.fakes.infrastructure import FakeInfrastructure
from support.leftovers import process_of_its_own
from support.set_up_home import SET_UP

from ackbench.experiments.orchestration import step_context
from ackbench.infra.airflow.environment import (
    DAGS_FOLDER,
    ONE_MACHINE,
    airflow_environment,
    ensure_database,
    ensure_empty_database,
)
from ackbench.infra.machine.home import Home


@dataclass(frozen=True)
class InstalledAirflow:
    """Airflow in a home of the session, with a test database."""

    home: Home
    variables: Mapping[str, str]
    folders: Sequence[str]
    """Of its plugins and its configuration, which it adds to Python's path."""
    level: int
    handlers: Sequence[logging.Handler]

    @contextmanager
    def environment(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Set Airflow's variables, which it reads with each setting, and its logging.

        A task leaves its run's name there, and locks of later tests would have it.
        """
        root, level = logging.getLogger(), logging.getLogger().level
        with process_of_its_own():
            for name, value in self.variables.items():
                patch.setenv(name, value)
            patch.setattr(sys, "path", [*sys.path, *self.folders])
            root.setLevel(self.level)
            for handler in self.handlers:
                root.addHandler(handler)
            yield
        for handler in self.handlers:
            root.removeHandler(handler)
        root.setLevel(level)


@pytest.fixture(scope="session")
def installed_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledAirflow]:
    """Import Airflow with its variables; its empty database is a copy of one that serves all tests.

    Airflow checks the schema of each parameter again whenever it reads the parameter, 1,500 times
    in a run of a DAG: here, once.
    """
    home = Home(tmp_path_factory.mktemp("air flow"))
    home.airflow.mkdir()
    empty = ensure_empty_database(SET_UP)
    shutil.copyfile(empty, home.airflow / empty.name)
    ensure_database(home)
    root, level = logging.getLogger(), logging.getLogger().level
    path, handlers = list(sys.path), list(root.handlers)
    variables = {**airflow_environment(home), "ACKBENCH_HOME": str(home.root)}
    changed = dict(variables.items() - os.environ.items())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changed.items():
            patch.setenv(name, value)
        import airflow.api_fastapi.execution_api.app
        import airflow.dag_processing.dagbag
        import airflow.sdk.execution_time.supervisor
        import airflow.sdk.execution_time.task_runner  # noqa: F401

    gc.freeze()  # what a task leaves is collected after each test; Airflow's modules stay
    added = [handler for handler in root.handlers if handler not in handlers]
    folders = [folder for folder in sys.path if folder not in path]
    installed = InstalledAirflow(home, changed, folders, root.level, added)
    sys.path[:] = path
    root.setLevel(level)
    for handler in added:
        root.removeHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        check = Draft202012Validator.check_schema
        checked: set[str] = set()

        def check_once(schema: Any) -> None:
            if (text := json.dumps(schema, sort_keys=True)) not in checked:
                check(schema)
                checked.add(text)

        patch.setattr(Draft202012Validator, "check_schema", check_once)
        yield installed


@pytest.fixture
def airflow(installed_airflow: InstalledAirflow, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Set Airflow's environment for a test, also before the first import of Airflow."""
    with installed_airflow.environment(monkeypatch):
        yield installed_airflow.home


@pytest.fixture(scope="session")
def parsed_dags(installed_airflow: InstalledAirflow) -> Any:
    """Parse all DAGs once, as a scheduler does."""
    with pytest.MonkeyPatch.context() as patch, installed_airflow.environment(patch):
        from airflow.dag_processing.dagbag import DagBag

        return DagBag(dag_folder=str(DAGS_FOLDER))


@pytest.fixture
def dags(airflow: Home, parsed_dags: Any) -> Any:
    """Return all DAGs, in Airflow's environment."""
    del airflow
    return parsed_dags


@pytest.fixture
def world(airflow: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInfrastructure:
    """Return fakes of brokers, Spark and MLflow, in a home of the test's own."""
    del airflow
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setenv(ONE_MACHINE, "1")
    monkeypatch.setattr(step_context, "end_with_forking_parent", lambda: False)
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    world = FakeInfrastructure(Home(tmp_path))
    world.install(monkeypatch.setattr)
    return world
