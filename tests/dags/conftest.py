"""Airflow with a test database; fakes for brokers, Spark and MLflow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from experiments.orchestration import step_context
from experiments.orchestration.environment import (
    DAGS_FOLDER,
    EMBEDDED,
    airflow_environment,
    embedded_database,
)
from infra.machine.home import Home


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Set Airflow's environment before its first import: it reads its settings only then."""
    home = Home(tmp_path_factory.mktemp("air flow"))
    with pytest.MonkeyPatch.context() as patch, embedded_database(home) as database:
        patch.setenv("ACKBENCH_HOME", str(home.root))
        for name, value in airflow_environment(home, database).items():
            patch.setenv(name, value)
        yield home


@pytest.fixture(scope="session")
def dags(airflow: Home) -> Any:
    """Return all DAGs, parsed as a scheduler does."""
    del airflow
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(DAGS_FOLDER))


@pytest.fixture
def world(
    airflow: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeInfrastructure]:
    """Yield fakes of brokers, Spark and MLflow, in a home of the test's own."""
    del airflow
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setenv(EMBEDDED, "1")
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    world = FakeInfrastructure(Home(tmp_path))
    world.install(monkeypatch.setattr)
    yield world
    # A task leaves its run's name in the environment, and claims of later tests would have it.
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_")]:
        del os.environ[name]
