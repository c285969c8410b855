"""Shared broker settings: explicit, known to the Kafka version, overridden by the spec."""

from dataclasses import replace

import pytest

from ackbench.experiments.planning.properties import kafka_properties
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.broker_settings import (
    broker_heartbeat_interval_ms,
    broker_session_timeout_ms,
    server_properties,
    shared_properties,
)
from ackbench.infra.kafka.jars import shipped_versions
from ackbench.infra.kafka.kraft import NodeAddress
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.kafka.versions import supports_zookeeper
from ackbench.infra.kafka.zookeeper import TICK_MS, zookeeper_properties

COMBINED = ClusterSpec()
ZOOKEEPER = ClusterSpec(kafka_version="3.9.2", coordination="zookeeper", zookeepers=3)
MEMBERS = tuple(
    NodeAddress(number, 100 * number + 1, 100 * number + 2, 100 * number + 3, role=role)
    for number, role in enumerate(ZOOKEEPER.roles, 1)
)
KINDS = [ClusterSpec(kafka_version=version) for version in shipped_versions()]
KINDS += [
    replace(kind, coordination="zookeeper", zookeepers=1)
    for kind in KINDS
    if supports_zookeeper(kind.kafka_version)
]


@pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: f"{kind.kafka_version} {kind.coordination}"
)
def test_the_version_knows_every_shared_setting(kind: ClusterSpec) -> None:
    """Kafka ignores unknown settings: the trial would record a setting that had no effect."""
    known = {known.name for known in kafka_properties(kind.kafka_version).broker}
    undocumented = {
        "controller.quorum.append.linger.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
    }
    unknown = {
        name
        for name in shared_properties(kind)
        if name not in known and not name.startswith("share.coordinator.")
    } - undocumented
    assert unknown == set()


def test_the_spec_overrides_shared_settings() -> None:
    """An experiment may sweep any setting that does not depend on the node."""
    overrides = {"broker.session.timeout.ms": "1500", "log.flush.interval.messages": "1"}
    assert overrides.items() <= shared_properties(replace(COMBINED, broker=overrides)).items()


@pytest.mark.parametrize("key", ["node.id", "listeners", "log.dirs", "controller.quorum.voters"])
def test_a_setting_that_depends_on_the_node_is_refused(key: str) -> None:
    """The cluster would not start, or differ from what the trial records."""
    with pytest.raises(InputError, match=key):
        shared_properties(replace(COMBINED, broker={key: "x"}))


@pytest.mark.parametrize(
    ("nodes", "replicas", "majority"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_internal_topics_fit_the_number_of_nodes(nodes: int, replicas: str, majority: str) -> None:
    """They have one replica per node, up to three, and need a majority of them in sync."""
    shared = shared_properties(replace(COMBINED, nodes=nodes))
    assert (
        shared["offsets.topic.replication.factor"]
        == shared["transaction.state.log.replication.factor"]
        == replicas
    )
    assert shared["transaction.state.log.min.isr"] == majority


@pytest.mark.parametrize("kind", [COMBINED, ZOOKEEPER], ids=["kraft", "zookeeper"])
def test_a_session_outlasts_several_heartbeats(kind: ClusterSpec) -> None:
    """A busy machine must not fence its nodes. The timeout is the same under ZooKeeper."""
    shared = shared_properties(kind)
    assert broker_session_timeout_ms(shared) >= 3 * broker_heartbeat_interval_ms(shared)
    assert broker_session_timeout_ms(shared) == broker_session_timeout_ms(
        shared_properties(COMBINED)
    )


def test_a_broker_under_zookeeper_connects_to_every_server_of_the_ensemble() -> None:
    """It is not a member of a KRaft quorum."""
    own = server_properties(MEMBERS[1], MEMBERS, ZOOKEEPER)
    assert own["zookeeper.connect"] == "127.0.0.1:403,127.0.0.1:503,127.0.0.1:603"
    assert own["broker.id"] == "2"
    assert not any(name.startswith(("controller.quorum.", "process.")) for name in own)


def test_the_servers_of_an_ensemble_have_three_ports() -> None:
    """For brokers, for following the leader and for electing one."""
    settings = zookeeper_properties(MEMBERS[3], MEMBERS)
    assert settings["clientPort"] == "403"
    assert {settings[f"server.{number}"] for number in (4, 5, 6)} == {
        "127.0.0.1:402:401",
        "127.0.0.1:502:501",
        "127.0.0.1:602:601",
    }


def test_a_single_server_has_no_list_of_servers() -> None:
    """With a list of one it would wait for an election."""
    single = replace(ZOOKEEPER, zookeepers=1)
    members = MEMBERS[: len(single.roles)]
    assert not any(name.startswith("server.") for name in zookeeper_properties(members[3], members))


def test_zookeeper_accepts_the_session_timeout() -> None:
    """It silently raises a timeout below two ticks."""
    assert broker_session_timeout_ms(shared_properties(ZOOKEEPER)) >= 2 * TICK_MS
