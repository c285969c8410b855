"""What brokers share: explicit, known to their version, and merged with what was asked for."""

from dataclasses import replace

import pytest

from experiments.planning.properties import kafka_properties
from infra.errors import InputError
from infra.kafka.broker_settings import (
    broker_heartbeat_interval_ms,
    broker_session_timeout_ms,
    server_properties,
    shared_properties,
)
from infra.kafka.jars import shipped_versions
from infra.kafka.kraft import NodeAddress
from infra.kafka.spec import ClusterSpec
from infra.kafka.versions import supports_zookeeper
from infra.kafka.zookeeper import TICK_MS, zookeeper_properties

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
def test_every_setting_of_ours_is_one_that_the_version_knows(kind: ClusterSpec) -> None:
    """What Kafka does not know it ignores, and a trial would be recorded with a setting that it did not have."""
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


def test_what_was_asked_for_wins_over_ours() -> None:
    """An experiment may sweep any setting that does not follow from the cluster itself."""
    asked = {"broker.session.timeout.ms": "1500", "log.flush.interval.messages": "1"}
    assert asked.items() <= shared_properties(replace(COMBINED, broker=asked)).items()


@pytest.mark.parametrize("key", ["node.id", "listeners", "log.dirs", "controller.quorum.voters"])
def test_what_follows_from_the_cluster_cannot_be_asked_for(key: str) -> None:
    """It would make a cluster that cannot start, or another one than is recorded."""
    with pytest.raises(InputError, match=key):
        shared_properties(replace(COMBINED, broker={key: "x"}))


@pytest.mark.parametrize(
    ("nodes", "replicas", "majority"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_internal_topics_fit_the_number_of_nodes(nodes: int, replicas: str, majority: str) -> None:
    """Offsets and transactions have as many replicas as there are nodes, three at most, and a majority of them in sync."""
    shared = shared_properties(replace(COMBINED, nodes=nodes))
    assert (
        shared["offsets.topic.replication.factor"]
        == shared["transaction.state.log.replication.factor"]
        == replicas
    )
    assert shared["transaction.state.log.min.isr"] == majority


@pytest.mark.parametrize("kind", [COMBINED, ZOOKEEPER], ids=["kraft", "zookeeper"])
def test_a_session_outlasts_several_heartbeats(kind: ClusterSpec) -> None:
    """Otherwise a busy machine alone would fence its nodes; and it is as long with ZooKeeper as without."""
    shared = shared_properties(kind)
    assert broker_session_timeout_ms(shared) >= 3 * broker_heartbeat_interval_ms(shared)
    assert broker_session_timeout_ms(shared) == broker_session_timeout_ms(
        shared_properties(COMBINED)
    )


def test_a_broker_under_zookeeper_knows_every_server_of_the_ensemble() -> None:
    """And is no member of any quorum."""
    own = server_properties(MEMBERS[1], MEMBERS, ZOOKEEPER)
    assert own["zookeeper.connect"] == "127.0.0.1:403,127.0.0.1:503,127.0.0.1:603"
    assert own["broker.id"] == "2"
    assert not any(name.startswith(("controller.quorum.", "process.")) for name in own)


def test_the_servers_of_an_ensemble_know_each_other() -> None:
    """Where brokers come, where the others come, and where leaders are elected are three ports."""
    settings = zookeeper_properties(MEMBERS[3], MEMBERS)
    assert settings["clientPort"] == "403"
    assert {settings[f"server.{number}"] for number in (4, 5, 6)} == {
        "127.0.0.1:402:401",
        "127.0.0.1:502:501",
        "127.0.0.1:602:601",
    }


def test_a_server_alone_has_no_ensemble() -> None:
    """With a list of one it would wait for an election."""
    alone = replace(ZOOKEEPER, zookeepers=1)
    members = MEMBERS[: len(alone.roles)]
    assert not any(name.startswith("server.") for name in zookeeper_properties(members[3], members))


def test_a_brokers_session_is_one_that_zookeeper_grants() -> None:
    """It grants none shorter than two ticks, and would lengthen it in silence."""
    assert broker_session_timeout_ms(shared_properties(ZOOKEEPER)) >= 2 * TICK_MS
