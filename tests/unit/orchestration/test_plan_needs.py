"""What of a plan needs a permission, and that an experiment's own file permits all of its plan."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders.records import a_spec

from ackbench.experiments.orchestration.plan_needs import granted_by, needs_of
from ackbench.experiments.planning.catalog.loading import catalog_experiments
from ackbench.experiments.planning.experiment import Experiment, parse_experiment
from ackbench.experiments.planning.external_cluster import as_reported
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, Plan
from ackbench.infra.cluster.external import ExternalClusterInfo

BASE: dict[str, Any] = {"name": "mine", "title": "Mine", "question": "?", "controls": False}
EXTERNAL = {"cluster": "external", "bootstrap.servers": "kafka.example:9093"}
TLS = {
    "security.protocol": "sasl_ssl",
    "ssl.endpoint.identification.algorithm": "none",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "$ACKBENCH_TEST_PASSWORD",
}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "security, by an alias, also behind a relay": {
        **EXTERNAL,
        "security": TLS,
        "axes": {"acks": ["all"], "fault": ["none", "relay-dropped"]},
        "producer": {"socket.timeout.ms": 1000},
    },
    "security of Java's clients": {
        **EXTERNAL,
        "security": TLS | {"sasl.mechanism": "PLAIN"},
        "client": "java",
        "axes": {"acks": ["all"]},
    },
    "defaults of the client": {
        **EXTERNAL,
        "security": TLS,
        "client.defaults": True,
        "axes": {"acks": ["all"]},
    },
    "token command": {
        **EXTERNAL,
        "security": {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"},
        "token_command": ["true", "--audience", "kafka"],
        "axes": {"acks": ["all"], "client": ["librdkafka", "java"]},
    },
    "commands": {
        **EXTERNAL,
        "bootstrap.servers": "$ACKBENCH_TEST_ADDRESS",
        "allow_faults": "this-cluster",
        "faults": {
            "kill": {
                "kind": "command",
                "inject": ["true", "$LEADER"],
                "heal": ["true"],
                "proof": ["true"],
                "at_s": 1.0,
            }
        },
        "axes": {"acks": ["all"], "fault": ["none", "kill"], "fault.lasts_s": [1, 2]},
    },
    "code": {
        "allow_code": True,
        "broker": {"metric.reporters": "org.example.Own", "ssl.engine.factory.class": "Own"},
        "axes": {"acks": ["all"], "client": ["java"], "interceptor.classes": ["A", "B"]},
    },
    "security of the brokers": {
        "broker": {
            "ssl.keystore.location": "/etc/own.p12",
            "ssl.key.password": "$ACKBENCH_TEST_PASSWORD",
        },
        "axes": {"acks": ["all"]},
    },
}


def planned(**changes: Any) -> tuple[Experiment, Plan]:
    """Return an experiment and its plan, as the cluster reports itself."""
    experiment = parse_experiment({**BASE, **changes}, "mine")
    made = plan(experiment, "mine-1")
    reported = ExternalClusterInfo("this-cluster", (1,), {"metric.reporters": "Reported"}, None)
    if experiment.cluster == "external":
        trials = tuple(
            one.model_copy(update={"cluster": as_reported(one.cluster, reported)})
            for one in made.trials
        )
        made = made.model_copy(update={"trials": trials})
    return experiment, made


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "hunter2")
    monkeypatch.setenv("ACKBENCH_TEST_ADDRESS", "kafka.example:9093")


@pytest.mark.parametrize("changes", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_a_file_permits_everything_that_its_own_plan_does(changes: dict[str, Any]) -> None:
    """Otherwise another host could not run the sweep of the same file."""
    experiment, made = planned(**changes)
    needed = frozenset[object]().union(*map(needs_of, made.trials))
    assert needed
    assert needed <= granted_by(experiment)


def test_the_experiments_of_the_catalogue_need_no_permission() -> None:
    """Their sweeps run on every host."""
    for experiment in catalog_experiments():
        for trial in plan(experiment, f"{experiment.name}-1").trials:
            assert needs_of(trial) == frozenset()


def test_what_a_cluster_reports_of_itself_needs_no_permission() -> None:
    """No program of this machine gets it."""
    _, made = planned(**EXTERNAL, axes={"acks": ["all"]})
    assert {need.subject for need in needs_of(made.trials[0])} == {"bootstrap.servers"}


def test_a_command_that_prints_tokens_needs_permission() -> None:
    """Where only the clients' security properties have it."""
    security = {"ackbench.token.command": '["touch", "x"]'}
    access = ExternalAccess(addresses="kafka.example:9093", security=security)
    needed = needs_of(a_spec(cluster=ClusterNeed(external=access)))
    assert {(need.subject, need.why) for need in needed} == {
        ("bootstrap.servers", "names an external cluster"),
        ("security property ackbench.token.command", "runs a command"),
    }


def test_a_file_permits_no_code_without_saying_so() -> None:
    """Planning would refuse it as well."""
    experiment, made = planned(**EXPERIMENTS["code"])
    careless = experiment.model_copy(update={"allow_code": False})
    assert not needs_of(made.trials[0]) & granted_by(careless)


def test_a_file_permits_commands_on_one_cluster_only() -> None:
    """An address may answer as another cluster than the one that was meant."""
    experiment, made = planned(**EXPERIMENTS["commands"])
    other = experiment.model_copy(update={"allow_faults": "another-cluster"})
    (by_command, *_) = (one for one in made.trials if one.fault.kind == "command")
    missing = {need.subject for need in needs_of(by_command) - granted_by(other)}
    assert missing == {"allow_faults"}
