"""References of an experiment to what Airflow keeps: its Variables and Connections."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.orchestration import permission, step_context, steps
from ackbench.experiments.orchestration.plan_needs import references_in
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.own_plans import mark_as_own
from ackbench.infra.airflow.environment import ONE_MACHINE
from ackbench.infra.machine.home import Home

EXPERIMENT = parse_experiment(
    {
        "name": "own",
        "title": "Own",
        "question": "$PROD_QUESTION",
        "cluster": "external",
        "bootstrap.servers": "$PROD_KAFKA_ADDRESS",
        "security": {"sasl.username": "$PROD_KAFKA_LOGIN", "sasl.password": "$PROD_KAFKA_PASSWORD"},
        "axes": {"acks": ["1"], "consumer.client.rack": ["$PROD_RACK"]},
        "topic": {"compression.type": "$PROD_TYPE"},
    },
    "own.yaml",
)
NAMES = ("PROD_KAFKA_ADDRESS", "PROD_KAFKA_LOGIN", "PROD_KAFKA_PASSWORD")
OPTIONS = "JAVA_TOOL_OPTIONS"
"""A variable from which every JVM reads options, some of which are commands."""


@pytest.fixture
def home(airflow: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home, in the task of a scheduler whose environment has none of the variables."""
    del airflow
    monkeypatch.setenv(ONE_MACHINE, "1")
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "ackbench_sweep")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual")
    for name in (*NAMES, OPTIONS):
        monkeypatch.setenv(name, "unset afterwards")
        monkeypatch.delenv(name)
    return Home(tmp_path)


def values(names: Sequence[str] = NAMES) -> list[str | None]:
    """Return the values that the task finds in its environment."""
    return [os.environ.get(name) for name in names]


def values_of_the_file() -> list[str | None]:
    """Return the values that the task finds once it has read the experiment's file."""
    permission.provide_references(references_in(EXPERIMENT))
    return values()


def test_only_addresses_and_security_properties_are_references() -> None:
    """Text of another value that begins with a dollar sign is text."""
    assert references_in(EXPERIMENT) == NAMES


@pytest.mark.usefixtures("home")
def test_a_connection_has_the_address_and_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fields that Airflow's form has."""
    monkeypatch.setenv("AIRFLOW_CONN_PROD_KAFKA", "kafka://me:hush-hush@kafka.example:9093")
    assert values_of_the_file() == ["kafka.example:9093", "me", "hush-hush"]


@pytest.mark.usefixtures("home")
def test_a_connection_of_airflows_provider_has_them_in_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client's properties, as JSON."""
    extra = {
        "bootstrap.servers": "a:9093,b:9093",
        "sasl.username": "me",
        "sasl.password": "hush-hush",
    }
    connection = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_PROD_KAFKA", connection)
    assert values_of_the_file() == ["a:9093,b:9093", "me", "hush-hush"]


@pytest.mark.usefixtures("home")
def test_a_variable_comes_before_a_connection_and_the_environment_before_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is nearest to the worker decides."""
    monkeypatch.setenv("AIRFLOW_CONN_PROD_KAFKA", "kafka://me:hush-hush@kafka.example:9093")
    monkeypatch.setenv("AIRFLOW_VAR_PROD_KAFKA_LOGIN", "of the variable")
    monkeypatch.setenv("AIRFLOW_VAR_PROD_KAFKA_PASSWORD", "of the variable")
    monkeypatch.setenv("PROD_KAFKA_PASSWORD", "of the worker")
    assert values_of_the_file() == ["kafka.example:9093", "of the variable", "of the worker"]


@pytest.mark.usefixtures("home")
def test_a_reference_that_nobody_has_stays_unset() -> None:
    """Whoever uses it says so."""
    assert values_of_the_file() == [None, None, None]


@pytest.fixture
def sweep(home: Home, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """Return a sweep whose plan refers to a password, with fakes of clusters."""
    world = FakeInfrastructure(home)
    world.install(monkeypatch.setattr)
    monkeypatch.setenv("AIRFLOW_VAR_PROD_KAFKA_PASSWORD", "hush-hush")
    sweep = world.sweep(1)
    reference = {"acks": "1", "sasl.password": "$PROD_KAFKA_PASSWORD"}
    spec = a_spec(sweep_id=sweep.sweep_id, producer=reference)
    sweep.write_plan(sweep.plan().model_copy(update={"trials": (spec,)}))
    return sweep


def test_the_tasks_of_a_sweep_get_what_the_plan_of_this_home_refers_to(
    home: Home, sweep: SweepFolder
) -> None:
    """Each is a process of its own."""
    mark_as_own(home, sweep)
    steps.provision(sweep.sweep_id)
    assert values(["PROD_KAFKA_PASSWORD"]) == ["hush-hush"]


def test_a_strange_plan_gets_no_value_of_airflow(sweep: SweepFolder) -> None:
    """It could send the value anywhere."""
    steps.provision(sweep.sweep_id)
    assert values(["PROD_KAFKA_PASSWORD"]) == [None]


def test_a_request_names_no_variable_that_airflow_then_sets(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may also write Airflow's Variables would run a command in each JVM."""
    FakeInfrastructure(home).install(monkeypatch.setattr)
    monkeypatch.setenv(f"AIRFLOW_VAR_{OPTIONS}", "-XX:OnOutOfMemoryError=touch\\ x")
    steps.plan_sweep(
        {
            "experiment": "quick",
            "set": [f"consumer.client.rack=${OPTIONS}"],
            "controls": "off",
            "acks": ["1"],
            "fault": ["none"],
        }
    )
    (sweep,) = list_sweeps(home)
    steps.provision(sweep.sweep_id)
    assert f"${OPTIONS}" in sweep.experiment_yaml.read_text()
    assert values([OPTIONS]) == [None]
