"""The settings of a sweep that are not the defaults of clients and brokers."""

from dataclasses import replace
from typing import Any

import pytest
from support.golden_files import Says

from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.results.changed_settings import changed_setting_lines, changed_settings

BASE: dict[str, Any] = {
    "name": "changed",
    "title": "Changed",
    "question": "Which?",
    "axes": {"acks": ["all"], "fault": "leader-crash-behind"},
    "workload": {"duration_s": 12},
}


def changed(**sections: Any) -> dict[tuple[str, str], tuple[tuple[str, ...], str | None]]:
    """Return values and default by scope and name."""
    planned = plan(parse_experiment({**BASE, **sections}, "changed"), "changed-1")
    return {
        (one.scope, one.name): (one.values, one.default) for one in changed_settings(planned.trials)
    }


def test_a_setting_is_listed_with_its_default() -> None:
    """Here librdkafka's 60 s, and Kafka's 9 s and 1."""
    found = changed(
        producer={"socket.timeout.ms": 1000},
        broker={"broker.session.timeout.ms": 3500},
        topic={"min.insync.replicas": 2},
    )
    assert (
        found["producer", "socket.timeout.ms"],
        found["brokers", "broker.session.timeout.ms"],
        found["topic", "min.insync.replicas"],
    ) == ((("1000",), "60000"), (("3500",), "9000"), (("2",), "1"))


def test_a_setting_that_has_its_default_is_not_listed() -> None:
    """The limit of an idempotent producer's requests is derived, so it is a default too."""
    found = changed(
        axes={"acks": "all", "enable.idempotence": True, "fault": "leader-crash"},
        producer={"socket.timeout.ms": 60000},
    )
    assert {
        ("producer", "socket.timeout.ms"),
        ("producer", "max.in.flight.requests.per.connection"),
    }.isdisjoint(found)


def test_an_axis_is_not_listed() -> None:
    """The tables have a column for it."""
    found = changed(axes={"acks": [1, "all"], "linger.ms": [0, 100], "fault": "leader-crash"})
    assert {("producer", "linger.ms"), ("producer", "acks")}.isdisjoint(found)


@pytest.mark.parametrize(
    ("controllers", "expected"), [(0, (("broker,controller",), "broker")), (3, None)]
)
def test_combined_mode_is_named(
    controllers: int, expected: tuple[tuple[str, ...], str] | None
) -> None:
    """Kafka does not recommend it for critical deployments."""
    assert changed(controllers=controllers).get(("brokers", "process.roles")) == expected


def test_clients_with_their_own_defaults_have_only_what_was_overridden() -> None:
    """What ackbench sets for every other client is not set for them."""
    found = changed(
        axes={"acks": "all", "client.defaults": True, "fault": "leader-crash"},
        producer={"linger.ms": 7},
    )
    assert [name for name in found if name[0] == "producer"] == [("producer", "linger.ms")]


def test_the_lines_have_one_scope_each(says: Says) -> None:
    """Several values are those of different cells."""
    planned = plan(
        parse_experiment(
            {
                **BASE,
                "axes": {"acks": "all", "replication.factor": [1, 3], "fault": "leader-crash"},
                "topic": {"min.insync.replicas": "majority"},
            },
            "changed",
        ),
        "changed-1",
    )
    lines = list(changed_setting_lines(changed_settings(planned.trials)))
    assert [line.partition(",")[0] for line in lines] == [
        "producer",
        "consumer",
        "topic",
        "brokers",
    ]
    says(lines)


def test_a_version_that_this_machine_does_not_know_hides_no_results() -> None:
    """A sweep of another machine may have one; its clients' settings are still listed."""
    planned = plan(parse_experiment(BASE, "changed"), "changed-1")
    unknown = [
        spec.model_copy(update={"cluster": replace(spec.cluster, kafka_version="9.9.9")})
        for spec in planned.trials
    ]
    scopes = {one.scope for one in changed_settings(unknown)}
    assert scopes == {"producer", "consumer"}
