"""When an external cluster is healthy for a sweep, and when a broker is certainly gone."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from ackbench.infra.cluster.external import GoneBrokers, is_healthy, refuses_connections
from ackbench.infra.kafka.addresses import Address
from ackbench.infra.kafka.spec import ClusterState, PartitionState

OWN = "ackbench-quick-20260101T000000-abcd-"


def state_with(topic: str) -> ClusterState:
    """Return a cluster of two brokers with one topic, whose partition has no leader."""
    partition = PartitionState(topic=topic, partition=0, leader=None, replicas=(1, 2), isr=())
    return ClusterState(
        brokers=(1, 2), controller=None, controller_epoch=None, partitions=(partition,)
    )


def test_topics_of_others_block_no_trial() -> None:
    """Theirs may have no leader for years; also those of other sweeps."""
    for topic in ("trial-000", "ackbench-quick-20260101T000000-ffff-000-abcdef"):
        assert is_healthy(state_with(topic), (1, 2), OWN)


def test_an_own_topic_without_a_leader_is_waited_for() -> None:
    """Its trial would begin during the election."""
    assert not is_healthy(state_with(f"{OWN}000-abcdef"), (1, 2), OWN)


def test_a_missing_broker_is_waited_for() -> None:
    """Also if no topic of the sweep is there yet."""
    assert not is_healthy(state_with("others"), (1, 2, 3), OWN)


ADDRESSES = {1: ("one", 1), 2: ("two", 2), 3: ("three", 3)}


def metadata(*brokers: int, answered_by: int = 1) -> SimpleNamespace:
    """Return what librdkafka reports of these brokers."""
    return SimpleNamespace(brokers=dict.fromkeys(brokers), orig_broker_id=answered_by)


def test_a_broker_that_is_missing_and_refuses_connections_is_gone() -> None:
    """Until it is in the metadata again."""
    gone = GoneBrokers(ADDRESSES, lambda address: address == ("three", 3))
    assert [
        gone.refresh(metadata(1, 2, 3)),
        gone.refresh(metadata(1, 2)),
        gone.refresh(metadata(1, 2)),
        gone.refresh(metadata(1, 2, 3)),
    ] == [frozenset(), {3}, {3}, frozenset()]


def test_a_broker_that_is_missing_and_accepts_connections_may_be_fenced() -> None:
    """The controller fences a broker whose heartbeats are late, as on a busy machine."""
    gone = GoneBrokers(ADDRESSES, lambda _address: False)
    assert gone.refresh(metadata(1, 2)) == frozenset()


def test_a_broker_that_has_just_started_does_not_know_who_is_missing() -> None:
    """It is not in its own metadata yet."""
    gone = GoneBrokers(ADDRESSES, lambda _address: True)
    assert gone.refresh(metadata(2, answered_by=1)) == frozenset()


def test_missing_brokers_are_tried_once_in_a_while() -> None:
    """The metadata are polled a hundred times per second."""
    tried: list[Address] = []

    def refuses(address: Address) -> bool:
        tried.append(address)
        return False

    gone = GoneBrokers(ADDRESSES, refuses)
    for _ in range(3):
        gone.refresh(metadata(1, 2))
    assert tried == [("three", 3)]


def test_a_closed_port_refuses_connections_and_an_open_one_does_not() -> None:
    """A socket that is bound and does not listen keeps its port closed."""
    with socket.create_server(("127.0.0.1", 0)) as open_port, socket.socket() as closed_port:
        closed_port.bind(("127.0.0.1", 0))
        assert [refuses_connections(one.getsockname()) for one in (open_port, closed_port)] == [
            False,
            True,
        ]
