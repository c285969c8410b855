"""Which timeouts are named as shorter than their defaults."""

from __future__ import annotations

import pytest
from support.golden_files import Says

from ackbench.experiments.planning.experiment import Experiment, parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.results.lessons.shortened import describe_shortened


def _experiment(**keys: object) -> Experiment:
    data = {
        "name": "mine",
        "title": "One line",
        "question": "Why?",
        "axes": {"acks": ["all"]},
        "producer": {"delivery.timeout.ms": 300_000},
        "controls": False,
        **keys,
    }
    return parse_experiment(data, "mine.yaml")


def test_an_experiment_with_default_timeouts_names_none() -> None:
    """The same holds for longer ones."""
    longer = _experiment(broker={"broker.session.timeout.ms": 18_000})
    assert describe_shortened(plan(_experiment(), "s")) is None
    assert describe_shortened(plan(longer, "s")) is None


def test_a_shorter_timeout_is_named_with_its_default(says: Says) -> None:
    """Broker, librdkafka's producer and members each have their own."""
    shorter = _experiment(
        broker={"broker.session.timeout.ms": 2_000, "group.min.session.timeout.ms": 1_000},
        producer={"delivery.timeout.ms": 300_000, "socket.timeout.ms": 1_000},
        consumer={"session.timeout.ms": 3_000},
        group={"consumers": 2},
    )
    says(describe_shortened(plan(shorter, "s")))


def test_all_values_of_an_axis_are_named(says: Says) -> None:
    """The default itself is not shorter."""
    swept = _experiment(axes={"acks": ["all"], "broker.session.timeout.ms": [1500, 3000, 9000]})
    says(describe_shortened(plan(swept, "s")))


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("librdkafka", "socket.timeout.ms 5 s (librdkafka's default 60 s)."),
        ("java", "request.timeout.ms 5 s (Java's default 30 s)."),
    ],
)
def test_each_client_has_its_own_defaults(client: str, text: str) -> None:
    """Librdkafka's socket.timeout.ms is Java's request.timeout.ms."""
    delivery = 300_000 if client == "librdkafka" else 120_000
    experiment = _experiment(
        client=client,
        producer={
            "delivery.timeout.ms": delivery,
            "socket.timeout.ms" if client == "librdkafka" else "request.timeout.ms": 5_000,
        },
    )
    assert describe_shortened(plan(experiment, "s")) == text
