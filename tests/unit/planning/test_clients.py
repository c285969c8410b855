"""Which clients are under test is an axis: each gets what was asked for by its own names, or keeps its own defaults."""

from __future__ import annotations

from typing import Any

import pytest
from support.fakes.client_rules import RULES

from experiments.clients.librdkafka.properties import known_properties
from experiments.clients.settings import java, librdkafka
from experiments.clients.settings.kinds import ClientChoice, request_timeout_ms
from experiments.errors import ExperimentError
from experiments.planning.experiment import experiment_of
from experiments.planning.planner import plan
from experiments.planning.properties import kafka_properties
from experiments.sweep.plan import Plan
from experiments.verdicts.contract import circumstances_of
from infra.errors import InputError


def planned(axes: dict[str, Any] | list[dict[str, Any]], **changes: Any) -> Plan:
    """Return the plan of an experiment with these axes and nothing else that is unusual."""
    return plan(
        experiment_of(
            {
                "name": "clients",
                "title": "t",
                "question": "q",
                "axes": axes,
                "controls": False,
                **changes,
            },
            "clients.yaml",
        ),
        "clients-1",
        RULES,
    )


def test_one_time_to_wait_for_an_answer_is_each_client_s_own() -> None:
    """Librdkafka calls it socket.timeout.ms, Java request.timeout.ms; the contract counts with it."""
    trials = planned(
        {"client": ["librdkafka", "java"], "acks": "all"}, producer={"socket.timeout.ms": 1000}
    ).trials
    passed = {
        trial.client: (
            trial.producer.get("socket.timeout.ms"),
            trial.producer.get("request.timeout.ms"),
        )
        for trial in trials
    }
    assert passed == {"librdkafka": ("1000", None), "java": (None, "1000")}
    assert {request_timeout_ms(trial) for trial in trials} == {1000}
    assert {circumstances_of(trial).socket_timeout_ms for trial in trials} == {1000}


def test_with_their_own_defaults_clients_are_passed_nothing_but_what_was_asked_for_and_what_they_need() -> (
    None
):
    """All that then holds stands in the plan: Java is idempotent, librdkafka is not."""
    trials = planned(
        {"client": ["librdkafka", "java"], "client.defaults": True, "linger.ms": 7}
    ).trials
    given = {trial.client: trial.passed.producer for trial in trials if trial.passed}
    holds = {
        trial.client: (
            trial.producer["enable.idempotence"],
            trial.producer["delivery.timeout.ms"],
            trial.producer["acks"],
        )
        for trial in trials
    }
    assert given == {
        "librdkafka": {"debug": "topic", "linger.ms": "7"},
        "java": {"retries": "2147483647", "linger.ms": "7"},
    }
    assert holds == {"librdkafka": ("false", "300000", "all"), "java": ("true", "120000", "all")}
    assert {trial.client: trial.cell["enable.idempotence"] for trial in trials} == {
        "librdkafka": False,
        "java": True,
    }


def test_what_an_experiment_says_wins_over_the_client_s_defaults() -> None:
    """Java's producer is not idempotent with acks=1, and says so by itself; asked for, both are passed."""
    one, asked = planned(
        [
            {"client": "java", "client.defaults": True, "acks": 1},
            {"client": "java", "client.defaults": True, "enable.idempotence": False},
        ]
    ).trials
    told = {str(trial.cell["acks"]): trial for trial in (one, asked)}
    assert told["1"].cell["enable.idempotence"] is False
    assert told["1"].passed is not None
    assert told["1"].passed.producer == {"retries": "2147483647", "acks": "1"}
    assert told["all"].passed is not None
    assert told["all"].passed.producer == {"retries": "2147483647", "enable.idempotence": "false"}


@pytest.mark.parametrize(
    ("axes", "changes", "told"),
    [
        ({"client": "kafka-python"}, {}, "client is 'kafka-python'; allowed: librdkafka or java"),
        (
            {"client": ["java", "librdkafka"]},
            {"producer": {"max.block.ms": 5}},
            "producer property max.block.ms is none that client librdkafka knows",
        ),
        (
            {"client": "java"},
            {"producer": {"retries": "-1"}},
            "producer property retries is '-1'; allowed with client java: a whole number",
        ),
        (
            {"client": "java"},
            {"consumer": {"max.poll.records": 0}},
            "consumer property max.poll.records is 0; allowed with client java",
        ),
        (
            {"client": "java"},
            {"producer": {"partitioner": "random"}},
            "producer property partitioner is 'random'; allowed with client java: murmur2",
        ),
        (
            {"client": "java"},
            {"workload": {"rate_records_per_s": 10.5}},
            "rate_records_per_s is 10.5 for each producer; allowed with client java",
        ),
        (
            {"client": "java", "workload.record_size_bytes": [100, 200]},
            {},
            "workload.record_size_bytes is swept; allowed with client java: not at all",
        ),
        (
            {"client": "java"},
            {"workload": {"transaction_records": 10}},
            "transaction_records is 10; allowed with client java: 0",
        ),
        (
            {"client": "java", "client.defaults": 3},
            {},
            "client.defaults is 3; allowed: true or false",
        ),
    ],
)
def test_what_a_client_cannot_have_is_refused_in_a_line_that_names_it(
    axes: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    """Before anything starts."""
    with pytest.raises(ExperimentError) as refused:
        planned(axes, **changes)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("axes", "producer"),
    [
        ({"enable.idempotence": True, "acks": 1}, {}),
        ({"enable.idempotence": True}, {"max.in.flight": 6}),
        ({"acks": "all"}, {"delivery.timeout.ms": 5000, "request.timeout.ms": 5000}),
    ],
)
def test_a_cell_that_java_s_producer_does_not_take_is_refused_with_its_words(
    axes: dict[str, Any], producer: dict[str, Any]
) -> None:
    """It is listed, and never run."""
    found = planned({"client": "java", **axes}, producer=producer)
    assert found.trials == ()
    assert found.refused[0].reason.startswith(("Must set", "delivery.timeout.ms should be"))


def test_one_thing_under_both_clients_names_must_be_one_value() -> None:
    """socket.timeout.ms and request.timeout.ms are the same of Java's."""
    with pytest.raises(InputError, match=r"request\.timeout\.ms is given twice"):
        java.to_java_names({"socket.timeout.ms": "1", "request.timeout.ms": "2"})


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_the_defaults_that_we_say_java_has_are_those_of_kafka_s_definitions(kind: str) -> None:
    """But for what it is passed all the same."""
    defined = {known.name: known.default for known in getattr(kafka_properties("4.3.1"), kind)}
    own = getattr(ClientChoice(kind="java", defaults=True), kind)({})
    needed = java.REQUIRED_PRODUCER_SETTINGS | java.REQUIRED_CONSUMER_SETTINGS
    assert {
        name: value
        for name, value in own.items()
        if defined[name].strip('"') != value and name not in needed
    } == {}


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_the_defaults_that_we_say_librdkafka_has_are_the_library_s(kind: str) -> None:
    """But for what it is passed all the same; one value has two names."""
    known: dict[str, str] = {}
    for one in known_properties().values():
        known.setdefault(librdkafka.CANONICAL_NAMES.get(one.name, one.name), one.default)
    own = getattr(ClientChoice(defaults=True), kind)({})
    same = {("acks", "all", "-1"), ("compression.type", "none", "inherit")}
    differing = {(name, value, known[name]) for name, value in own.items() if known[name] != value}
    assert {
        one
        for one in differing - same
        if one[0] not in librdkafka.REQUIRED_PRODUCER_SETTINGS | librdkafka.REQUIRED_CONSUMER_SETTINGS
    } == set()
