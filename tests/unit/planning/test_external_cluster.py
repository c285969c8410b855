"""A cluster that is somebody else's, as an experiment says it: where it is, who we are, and nothing that would need its nodes."""

import re
from typing import Any

import pytest

from experiments.errors import ExperimentError
from experiments.planning.experiment import experiment_of
from experiments.planning.planner import plan
from experiments.sweep.plan import Plan
from experiments.verdicts.contract.circumstances import circumstances_of

PASSWORD = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "$ACKBENCH_TEST_PASSWORD",
}


def planned(**changes: Any) -> Plan:
    """Return the plan of an experiment on an external cluster."""
    base = {
        "name": "theirs",
        "title": "Theirs",
        "question": "What?",
        "controls": False,
        "cluster": "external",
        "bootstrap.servers": "theirs:9092",
    }
    return plan(
        experiment_of(
            {
                **base,
                "axes": {"acks": ["1", "all"]},
                **{n.replace("__", "."): v for n, v in changes.items()},
            },
            "theirs",
        ),
        "theirs",
    )


def test_every_client_is_told_who_we_are_and_no_file_holds_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is written is the name of the variable that holds it."""
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "hunter2")
    made = planned(security=PASSWORD)
    (cluster,) = {trial.cluster.model_dump_json(): trial.cluster for trial in made.trials}.values()
    assert (cluster.external, cluster.kafka_version, cluster.security) == (
        "theirs:9092",
        "not known",
        PASSWORD,
    )
    assert PASSWORD.items() <= made.trials[0].producer.items()
    assert PASSWORD.items() <= made.trials[0].consumer.items()
    assert "hunter2" not in made.model_dump_json()


def test_what_its_brokers_told_decides_on_promises() -> None:
    """And not what we would have set."""
    trial = planned().trials[0]
    read = trial.cluster.model_copy(
        update={"broker": {"broker.session.timeout.ms": "9000", "replica.lag.time.max.ms": "1000"}}
    )
    found = circumstances_of(trial.model_copy(update={"cluster": read}))
    assert (found.session_timeout_ms, found.replica_lag_ms) == (9000, 1000)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"bootstrap__servers": None}, "bootstrap.servers is missing"),
        (
            {"cluster": "local"},
            "bootstrap.servers and security are of a cluster that is somebody else's",
        ),
        ({"cluster": "rented"}, "cluster is 'rented'; allowed: local or external"),
        (
            {"security": {"ssl.ca.locaton": "x"}},
            "unknown security property ssl.ca.locaton; did you mean ssl.ca.location",
        ),
        ({"security": {"linger.ms": 5}}, "unknown security property linger.ms"),
        (
            {"security": {"sasl.password": "hunter2"}},
            "security property sasl.password is a secret; allowed: the name of an environment variable",
        ),
        (
            {"security": {"sasl.password": "$ACKBENCH_TEST_NOT_SET"}},
            "from the environment variable ACKBENCH_TEST_NOT_SET, which is not set",
        ),
        (
            {"broker": {"broker.session.timeout.ms": 4000}},
            "broker.session.timeout.ms cannot be set with cluster external",
        ),
        ({"nodes": 5}, "nodes cannot be set with cluster external"),
        (
            {"axes": {"kafka.version": ["4.0.2", "4.3.1"]}},
            "kafka.version cannot be set with cluster external",
        ),
        (
            {"axes": {"broker.session.timeout.ms": [4000, 9000]}},
            "broker.session.timeout.ms cannot be set with cluster external",
        ),
        ({"zookeeper__nodes": 3}, "zookeeper.nodes cannot be set with cluster external"),
        (
            {"axes": {"fault": "leader-crash"}},
            "fault 'leader-crash' needs the nodes, and the cluster is external; possible from outside: consumer-",
        ),
        ({"client": "java"}, "client is java with cluster external"),
    ],
)
def test_what_cannot_be_said_of_it_is_refused_in_one_line(
    changes: dict[str, Any], line: str
) -> None:
    """Before anybody is asked."""
    with pytest.raises(ExperimentError, match=re.escape(line)) as refused:
        planned(**changes)
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)
