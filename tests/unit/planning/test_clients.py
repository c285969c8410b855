"""The clients under test are an axis: explicit settings by each client's names, or its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fakes.client_rules import RULES
from support.golden_files import Says

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.overrides import Overrides, apply_overrides
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.properties import kafka_properties
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.trial.clients.librdkafka.properties import known_properties
from ackbench.experiments.trial.clients.settings import java, librdkafka
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice, request_timeout_ms
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.infra.errors import InputError


def planned(axes: dict[str, Any] | list[dict[str, Any]], **changes: Any) -> Plan:
    """Return the plan of an experiment with these axes and otherwise default settings."""
    return plan(
        parse_experiment(
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


def test_each_client_gets_the_request_timeout_under_its_own_name() -> None:
    """It is librdkafka's socket.timeout.ms and Java's request.timeout.ms; the contract uses it."""
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


def test_with_defaults_clients_are_passed_overrides_and_required_settings_only() -> None:
    """The plan still has all effective settings: Java is idempotent, librdkafka is not."""
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


def test_an_experiments_settings_take_precedence_over_the_clients_defaults() -> None:
    """With acks=1, Java's producer is not idempotent by default; requested settings are passed."""
    one, without = planned(
        [
            {"client": "java", "client.defaults": True, "acks": 1},
            {"client": "java", "client.defaults": True, "enable.idempotence": False},
        ]
    ).trials
    by_acks = {str(trial.cell["acks"]): trial for trial in (one, without)}
    assert by_acks["1"].cell["enable.idempotence"] is False
    assert by_acks["1"].passed is not None
    assert by_acks["1"].passed.producer == {"retries": "2147483647", "acks": "1"}
    assert by_acks["all"].passed is not None
    assert by_acks["all"].passed.producer == {
        "retries": "2147483647",
        "enable.idempotence": "false",
    }


@pytest.mark.parametrize(
    ("axes", "changes", "message"),
    [
        ({"client": "kafka-pithon"}, {}, "client is 'kafka-pithon'; allowed: librdkafka, java, "),
        (
            {"client": ["java", "librdkafka"]},
            {"producer": {"max.block.ms": 5}},
            "producer property max.block.ms is unknown to client librdkafka",
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
            "workload.record_size_bytes is an axis; allowed with client java: no such axis",
        ),
        (
            {"client": "java"},
            {"workload": {"headers": 1}},
            "headers is 1; allowed with client java: 0",
        ),
        (
            {"client": "java", "client.defaults": 3},
            {},
            "client.defaults is 3; allowed: true or false",
        ),
    ],
)
def test_a_setting_that_a_client_lacks_is_refused_by_name(
    axes: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    """The experiment is refused before anything starts."""
    with pytest.raises(ExperimentError) as refused:
        planned(axes, **changes)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("axes", "producer"),
    [
        ({"enable.idempotence": True, "acks": 1}, {}),
        ({"enable.idempotence": True}, {"max.in.flight": 6}),
        ({"acks": "all"}, {"delivery.timeout.ms": 5000, "request.timeout.ms": 5000}),
    ],
)
def test_a_cell_that_javas_producer_refuses_is_listed_with_its_message(
    axes: dict[str, Any], producer: dict[str, Any]
) -> None:
    """It is listed and never run."""
    made = planned({"client": "java", **axes}, producer=producer)
    assert made.trials == ()
    assert made.refused[0].reason.startswith(("Must set", "delivery.timeout.ms should be"))


def test_both_names_of_one_property_must_have_one_value() -> None:
    """socket.timeout.ms and request.timeout.ms are one property of Java's clients."""
    with pytest.raises(InputError, match=r"request\.timeout\.ms is given twice"):
        java.canonical_names({"socket.timeout.ms": "1", "request.timeout.ms": "2"})


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_the_recorded_defaults_of_java_are_those_of_kafkas_definitions(kind: str) -> None:
    """Required settings differ."""
    defined = {known.name: known.default for known in getattr(kafka_properties("4.3.1"), kind)}
    own = getattr(ClientChoice(kind="java", defaults=True), f"{kind}_settings")({})
    needed = java.REQUIRED_PRODUCER_SETTINGS | java.REQUIRED_CONSUMER_SETTINGS
    assert {
        name: value
        for name, value in own.items()
        if defined[name].strip('"') != value and name not in needed
    } == {}


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_the_recorded_defaults_of_librdkafka_are_those_of_the_library(kind: str) -> None:
    """Required settings differ, and two values have a second name."""
    known: dict[str, str] = {}
    for one in known_properties().values():
        known.setdefault(librdkafka.CANONICAL_NAMES.get(one.name, one.name), one.default)
    own = getattr(ClientChoice(defaults=True), f"{kind}_settings")({})
    same = {("acks", "all", "-1"), ("compression.type", "none", "inherit")}
    differing = {(name, value, known[name]) for name, value in own.items() if known[name] != value}
    assert {
        one
        for one in differing - same
        if one[0]
        not in librdkafka.REQUIRED_PRODUCER_SETTINGS | librdkafka.REQUIRED_CONSUMER_SETTINGS
    } == set()


OURS = {"name": "ours", "version": "1.2.0", "command": ["true", "--fast"]}


def test_a_program_is_planned_with_its_command_and_its_librarys_defaults() -> None:
    """It gets acks, idempotence and what the experiment sets; the plan has its path."""
    (trial,) = planned({"acks": 1}, client=OURS, producer={"linger.ms": 7}).trials
    assert (trial.client, trial.client_version) == ("ours", "1.2.0")
    assert Path(trial.client_command[0]).is_absolute()
    assert trial.client_command[1:] == ("--fast",)
    assert trial.passed is not None
    assert trial.passed.producer == {"acks": "1", "enable.idempotence": "false", "linger.ms": "7"}
    assert trial.passed.consumer == {
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    assert trial.producer["max.in.flight.requests.per.connection"] == "5"


def test_programs_are_values_of_the_axis_beside_other_clients() -> None:
    """Each cell has its own."""
    others = {**OURS, "name": "theirs", "version": "2.0.0"}
    plan_ = planned({"client": ["librdkafka", "ours", "theirs"]}, clients=[OURS, others])
    assert {(one.client, one.client_version) for one in plan_.trials} == {
        ("librdkafka", None),
        ("ours", "1.2.0"),
        ("theirs", "2.0.0"),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"client": {**OURS, "command": ["no-such"]}}, "client ours: no such program: 'no-such'"),
        ({"client": {**OURS, "name": "java"}}, "a program has the name java; allowed: any but"),
        ({"clients": [OURS, OURS]}, "two programs have the name ours; allowed: one"),
        (
            {"client": OURS, "client.version": "2.0.0"},
            "client.version is '2.0.0' and client ours is a program; allowed: `version` of the",
        ),
        (
            {"client": OURS, "transactions": {"records": 10}},
            "transactions.records is 10; allowed with client ours: no transactions",
        ),
        (
            {"client": OURS, "group": {"consumers": 2, "commit": "before"}},
            "group.commit is before; allowed with client ours: after",
        ),
        (
            {"client": OURS, "producer": {"no.such.property": 1}},
            "unknown producer property no.such.property",
        ),
    ],
)
def test_what_a_program_cannot_do_is_refused_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    """Before anything starts."""
    with pytest.raises(ExperimentError) as refused:
        planned({"acks": "all"}, **changes)
    assert message in str(refused.value)


def test_an_idempotent_program_with_acks_1_is_a_refused_cell(says: Says) -> None:
    """As every client refuses it (KIP-98)."""
    (cell,) = planned({"acks": 1, "enable.idempotence": True}, client=OURS).refused
    says(cell.reason)


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_the_quick_sweep_is_one_of_either_client_alone(client: str) -> None:
    """Its properties have librdkafka's names; Java's client gets its own for them."""
    quick = apply_overrides(load_experiment("quick"), Overrides({"client": (client,)}))
    producers = [trial.producer for trial in plan(quick, "quick-1").trials]
    refresh = {"java": "metadata.max.age.ms"}.get(client, "topic.metadata.refresh.interval.ms")
    assert {one[refresh] for one in producers} == {"200"}
