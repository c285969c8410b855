"""Retention of a trial's topic is resolved by Kafka's rules, once for the read and the contract."""

from __future__ import annotations

import pytest
from support.builders.records import a_spec

from ackbench.experiments.sweep.plan import ClusterNeed
from ackbench.experiments.sweep.retention import Retention, resolve_retention, retention_of
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances, circumstances_of

WEEK_MS = 604_800_000


@pytest.mark.parametrize(
    ("topic", "broker", "can_expire"),
    [
        ({}, {}, False),
        ({"retention.bytes": "4194304"}, {}, True),
        ({"retention.ms": "2000"}, {}, True),
        ({"retention.ms": "604800000"}, {"log.retention.ms": "1000"}, False),
        ({}, {"log.retention.bytes": "1000"}, True),
        ({}, {"log.retention.minutes": "5"}, True),
        ({}, {"log.retention.hours": "0"}, True),
        ({}, {"log.retention.ms": "null", "log.retention.bytes": "-1"}, False),
    ],
)
def test_records_can_expire_when_a_limit_can_be_reached_during_a_trial(
    topic: dict[str, str], broker: dict[str, str], *, can_expire: bool
) -> None:
    """A topic's own setting wins over its brokers'."""
    assert resolve_retention(topic, broker).can_expire is can_expire


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({}, WEEK_MS),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "2", "log.retention.ms": "null"}, 7_200_000),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_of_several_broker_settings_the_finest_unit_wins(
    broker: dict[str, str], retention_ms: int
) -> None:
    """Kafka's precedence is ms, minutes, hours; without any of them it keeps records for a week."""
    assert resolve_retention({}, broker) == Retention(retention_ms, -1)


@pytest.mark.parametrize(
    "broker",
    [
        {"log.retention.minutes": "5"},
        {"log.retention.hours": "1"},
        {"log.retention.ms": "1000", "log.retention.hours": "1"},
        {"log.retention.bytes": "1000"},
    ],
)
def test_the_final_read_and_the_contract_agree(broker: dict[str, str]) -> None:
    """The final read stops retention exactly where the contract lets records expire."""
    spec = a_spec(
        cluster=ClusterNeed(kafka_version="4.3.1", broker=broker),
        producer={"acks": "all", "enable.idempotence": "false"},
    )
    circumstances: Circumstances = circumstances_of(spec)
    retention = retention_of(spec)
    assert (circumstances.retention_ms, circumstances.retention_bytes) == (
        retention.ms,
        retention.bytes,
    )
    assert circumstances.expires is retention.can_expire
