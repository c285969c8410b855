"""References of an experiment to what Airflow keeps: its Variables and Connections."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from experiments.orchestration import step_context
from experiments.orchestration.environment import EMBEDDED, ONE_MACHINE
from experiments.sweep.folder import SweepFolder
from infra.machine.home import Home

EXPERIMENT = """
bootstrap.servers: $PROD_KAFKA_ADDRESS
security: {sasl.username: $PROD_KAFKA_LOGIN, sasl.password: $PROD_KAFKA_PASSWORD}
"""
NAMES = ("PROD_KAFKA_ADDRESS", "PROD_KAFKA_LOGIN", "PROD_KAFKA_PASSWORD")


@pytest.fixture
def sweep(airflow: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """A sweep that refers to a connection, in the task of a scheduler."""
    del airflow
    monkeypatch.delenv(EMBEDDED, raising=False)
    monkeypatch.setenv(ONE_MACHINE, "1")
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    for name in NAMES:
        monkeypatch.setenv(name, "unset afterwards")
        monkeypatch.delenv(name)
    sweep = SweepFolder(Home(tmp_path).sweeps / "own-20260102T030405-ab12")
    sweep.root.mkdir(parents=True)
    sweep.experiment_yaml.write_text(EXPERIMENT)
    return sweep


def values_in_a_step(sweep: SweepFolder) -> list[str | None]:
    """Return the values that a step of the sweep finds in its environment."""
    with step_context.step("measure", sweep):
        return [os.environ.get(name) for name in NAMES]


def test_a_connection_has_the_address_and_the_login(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the fields that Airflow's form has."""
    monkeypatch.setenv("AIRFLOW_CONN_PROD_KAFKA", "kafka://me:hush-hush@kafka.example:9093")
    assert values_in_a_step(sweep) == ["kafka.example:9093", "me", "hush-hush"]


def test_a_connection_of_airflows_provider_has_them_in_its_extra(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's properties, as JSON."""
    extra = {
        "bootstrap.servers": "a:9093,b:9093",
        "sasl.username": "me",
        "sasl.password": "hush-hush",
    }
    connection = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_PROD_KAFKA", connection)
    assert values_in_a_step(sweep) == ["a:9093,b:9093", "me", "hush-hush"]


def test_a_variable_comes_before_a_connection_and_the_environment_before_both(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is nearest to the worker decides."""
    monkeypatch.setenv("AIRFLOW_CONN_PROD_KAFKA", "kafka://me:hush-hush@kafka.example:9093")
    monkeypatch.setenv("AIRFLOW_VAR_PROD_KAFKA_LOGIN", "of the variable")
    monkeypatch.setenv("AIRFLOW_VAR_PROD_KAFKA_PASSWORD", "of the variable")
    monkeypatch.setenv("PROD_KAFKA_PASSWORD", "of the worker")
    assert values_in_a_step(sweep) == ["kafka.example:9093", "of the variable", "of the worker"]


def test_a_reference_that_nobody_has_stays_unset(sweep: SweepFolder) -> None:
    """Whoever uses it says so."""
    assert values_in_a_step(sweep) == [None, None, None]
