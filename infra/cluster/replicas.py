"""Replica reassignment and leader candidates, by Kafka's wire protocol.

No Python client library offers them, and Kafka's own tools need the start of a JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ackbench.infra.cluster.health import send_kafka_request
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka import wire
from ackbench.infra.kafka.spec import NodeStatus
from ackbench.infra.kafka.wire import NOT_CONTROLLER, LeaderCandidates
from ackbench.infra.process.waiting import wait_until

_RESPONSE_TIMEOUT_S: Final = 5.0
_ACCEPTED: Final = "accepted"


def reassign(
    nodes: Sequence[NodeStatus],
    topic: str,
    replicas: Mapping[int, Sequence[int]],
    timeout_s: float = 30.0,
) -> None:
    """Have the controller reassign partitions to these nodes, in this order (KIP-455).

    Returns once the controller has accepted; the reassignment itself continues.

    Args:
        nodes: the cluster's nodes; any running broker forwards the request.
        topic: whose partitions.
        replicas: node ids by partition.
        timeout_s: how long the controller may take to accept.

    Raises:
        HarnessError: the controller refused, with Kafka's text.
        WaitTimeout: no broker answered.
    """
    request = wire.reassignment_request(topic, replicas, _RESPONSE_TIMEOUT_S)

    def outcome() -> str | None:
        responses = (wire.read_reassignment(response) for response in _responses(nodes, request))
        return next(
            (
                refusal.text if refusal else _ACCEPTED
                for refusal in responses
                if refusal is None or refusal.code != NOT_CONTROLLER
            ),
            None,
        )

    result = wait_until(
        outcome,
        awaiting=f"the controller to accept the replica reassignment of {topic}",
        timeout_s=timeout_s,
    )
    if result is not _ACCEPTED:
        raise HarnessError(f"Kafka refused to reassign {topic} to {dict(replicas)}: {result}")


def leader_candidates(nodes: Sequence[NodeStatus], topic: str) -> tuple[LeaderCandidates, ...]:
    """Return which replicas may lead each partition, from the first broker that answers.

    Nothing is returned when no broker answers, or when this version of Kafka does not report it.
    """
    request = wire.describe_partitions_request(topic)
    return next(filter(None, map(wire.read_leader_candidates, _responses(nodes, request))), ())


def _responses(nodes: Sequence[NodeStatus], request: bytes) -> Iterator[bytes]:
    """Send the request to one running broker after the other; yield the responses."""
    addresses = (
        (node.host, node.replication_port)
        for node in nodes
        if node.is_broker and node.state == "running"
    )
    return filter(
        None, (send_kafka_request(address, request, _RESPONSE_TIMEOUT_S) for address in addresses)
    )
