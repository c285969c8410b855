"""Moves replicas, and asks who may lead: what no client library of Python offers, and Kafka's own tools need the start of a JVM for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from infra.cluster.health import send_kafka_request
from infra.errors import HarnessError
from infra.kafka import wire
from infra.kafka.spec import NodeStatus
from infra.kafka.wire import NOT_CONTROLLER, LeaderCandidates
from infra.process.waiting import wait_until

_ANSWER_TIMEOUT_S: Final = 5.0
_DONE: Final = "accepted"


def reassign(
    nodes: Sequence[NodeStatus],
    topic: str,
    replicas: Mapping[int, Sequence[int]],
    timeout_s: float = 30.0,
) -> None:
    """Have the controller move partitions to these nodes, in this order (KIP-455); return once it has accepted, the move itself goes on.

    Args:
        nodes: of the cluster; any running one passes the request on.
        topic: its name.
        replicas: node ids by partition.
        timeout_s: until it is accepted.

    Raises:
        HarnessError: it refused, with Kafka's text.
        WaitTimeout: nobody answered.
    """
    asked = wire.reassignment_request(topic, replicas, _ANSWER_TIMEOUT_S)

    def answered() -> str | None:
        told = (wire.read_reassignment(answer) for answer in _answers(nodes, asked))
        return next(
            (
                refusal.text if refusal else _DONE
                for refusal in told
                if refusal is None or refusal.code != NOT_CONTROLLER
            ),
            None,
        )

    became = wait_until(
        answered, awaiting=f"an answer about the replicas of {topic}", timeout_s=timeout_s
    )
    if became is not _DONE:
        raise HarnessError(f"moving the replicas of {topic} to {dict(replicas)}: {became}")


def leader_choices(nodes: Sequence[NodeStatus], topic: str) -> tuple[LeaderCandidates, ...]:
    """Return who may lead each partition, as the first node knows it that answers; nothing: none did, or Kafka is too old to tell."""
    asked = wire.describe_partitions_request(topic)
    return next(filter(None, map(wire.read_leader_candidates, _answers(nodes, asked))), ())


def _answers(nodes: Sequence[NodeStatus], asked: bytes) -> Iterator[bytes]:
    """Ask one running broker after the other; give the answers of those that do."""
    at = (
        (node.host, node.replication_port)
        for node in nodes
        if node.is_broker and node.state == "running"
    )
    return filter(None, (send_kafka_request(address, asked, _ANSWER_TIMEOUT_S) for address in at))
