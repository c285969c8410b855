"""What the nodes say of their cluster, each asked by itself, and whether that makes a whole cluster.

Whom to believe. A broker answers from its own copy of the metadata, which is old when it was paused, cut off or just started.
The active controller's own process has the newest: it wrote the records. A controller that was replaced without knowing says so
with an older epoch (KIP-595), so of several that take themselves for active the one with the highest epoch is right. Under ZooKeeper
the controller is a broker, and tells the others so itself: one that takes itself for it is believed, of several the one that most take for it.
"""

from __future__ import annotations

import re
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

from infra.cluster.supervisor_protocol import NodeReport
from infra.kafka import wire
from infra.kafka.spec import ClusterState, ControllerView, NodeStatus, PartitionState
from infra.kafka.wire import BrokerView


def query_broker(
    node: NodeStatus, topics: Sequence[str] | None, timeout_s: float
) -> BrokerView | None:
    """Return the broker's own view of the topics, or of all; `None` when it does not answer in time."""
    answer = send_kafka_request(
        (node.host, node.replication_port), wire.metadata_request(topics), timeout_s
    )
    return wire.read_metadata(answer) if answer is not None else None


def most_current_view(
    nodes: Sequence[NodeStatus],
    quorum: ControllerView | None,
    topics: Sequence[str] | None,
    timeout_s: float,
) -> BrokerView | None:
    """Return the view of the broker that knows best: the active controller's own; where that is none, or silent, of one that no other calls fenced."""
    brokers = [node for node in nodes if node.state == "running" and node.is_broker]
    active = next(
        (node for node in brokers if quorum is not None and node.node_id == quorum.leader), None
    )
    view = query_broker(active, topics, timeout_s) if active else None
    if view is not None:
        return view
    answers = {
        node.node_id: query_broker(node, topics, timeout_s)
        for node in brokers
        if node is not active
    }
    return first_unfenced_view(
        {node_id: answer for node_id, answer in answers.items() if answer is not None}
    )


def first_unfenced_view(views: Mapping[int, BrokerView]) -> BrokerView | None:
    """Return the first view of a broker that no other one calls fenced: one that is cut off goes on answering with what was, and calls nobody so.

    Who does not know itself yet, as just after its start, has no say.
    """
    informed = {node_id: view for node_id, view in views.items() if node_id in view.brokers}
    fenced = {
        node_id for node_id in informed for view in informed.values() if node_id not in view.brokers
    }
    believed = [
        *(view for node_id, view in informed.items() if node_id not in fenced),
        *views.values(),
    ]
    return believed[0] if believed else None


def query_controller(node: NodeStatus, timeout_s: float) -> ControllerView | None:
    """Return the quorum as the node's controller sees it; `None` when it is not active, or does not answer in time."""
    answer = send_kafka_request((node.host, node.controller_port), wire.quorum_request(), timeout_s)
    return wire.read_quorum(answer) if answer is not None else None


def query_log_end_offsets(
    nodes: Sequence[NodeStatus], partitions: Sequence[PartitionState], timeout_s: float
) -> dict[int, int]:
    """Return the end of each partition's log, asked from its leader; left out where that is none of the nodes, or does not answer in time."""
    ends: dict[int, int] = {}
    for node in nodes:
        led = [partition for partition in partitions if partition.leader == node.node_id]
        answer = (
            send_kafka_request(
                (node.host, node.replication_port),
                wire.list_offsets_request(led[0].topic, [p.partition for p in led]),
                timeout_s,
            )
            if led
            else None
        )
        ends |= wire.read_list_offsets(answer) if answer is not None else {}
    return ends


def active_controller(nodes: Sequence[NodeStatus], timeout_s: float) -> ControllerView | None:
    """Ask every running node that can tell; return who the active controller is, `None` when nobody takes itself for it.

    Args:
        nodes: all members of the cluster, running or not: what they are tells whom to ask.
        timeout_s: how long each may take to answer.
    """
    running = [node for node in nodes if node.state == "running"]
    if not any(node.is_controller for node in nodes):
        return zookeeper_controller(
            {node.node_id: query_broker(node, (), timeout_s) for node in running if node.is_broker}
        )
    return newest_controller(
        query_controller(node, timeout_s) for node in running if node.is_controller
    )


def newest_controller(answers: Iterable[ControllerView | None]) -> ControllerView | None:
    """Return the answer with the highest epoch, of those that take themselves for the active controller."""
    return max(
        (answer for answer in answers if answer), key=lambda answer: answer.epoch or 0, default=None
    )


def zookeeper_controller(views: Mapping[int, BrokerView | None]) -> ControllerView | None:
    """Return the broker that takes itself for the controller under ZooKeeper; of several, the one that most take for it."""
    named = Counter(view.controller for view in views.values() if view)
    claims = [node_id for node_id, view in views.items() if view and view.controller == node_id]
    return ControllerView(max(claims, key=lambda node_id: named[node_id]), None) if claims else None


def why_metadata_unavailable(nodes: Sequence[NodeStatus], timeout_s: float) -> str | None:
    """Return what those lack that are no brokers and keep the metadata, in words; `None`: each of them serves."""
    for node in nodes:
        if (
            node.role == "controller"
            and send_kafka_request(
                (node.host, node.controller_port), wire.quorum_request(), timeout_s
            )
            is None
        ):
            return f"controller {node.node_id} does not answer"
        if node.role == "zookeeper" and zookeeper_mode(node, timeout_s) is None:
            return f"ZooKeeper server {node.node_id} does not serve"
    return None


def zookeeper_mode(node: NodeStatus, timeout_s: float) -> str | None:
    """Return what a server is in its ensemble: `leader`, `follower`, or `standalone`; `None` when it serves nobody, as one that is in the minority."""
    try:
        with socket.create_connection(
            (node.host, node.controller_port), timeout=timeout_s
        ) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"srvr")
            with connection.makefile("rb") as answer:
                told = re.search(rb"^Mode: (\w+)$", answer.read(), re.MULTILINE)
                return told[1].decode() if told else None
    except OSError:
        return None


def zookeeper_leader(nodes: Sequence[NodeStatus], timeout_s: float) -> int | None:
    """Return the server that leads its ensemble, or is alone; `None` when none does."""
    running = [node for node in nodes if node.role == "zookeeper" and node.state == "running"]
    return next(
        (
            node.node_id
            for node in running
            if zookeeper_mode(node, timeout_s) in {"leader", "standalone"}
        ),
        None,
    )


def cluster_state(view: BrokerView, quorum: ControllerView | None) -> ClusterState:
    """Return one broker's view and the quorum's as the contract has them."""
    leader, epoch = (quorum.leader, quorum.epoch) if quorum else (None, None)
    return ClusterState(tuple(sorted(view.brokers)), leader, epoch, view.partitions)


def why_not_healthy(
    reports: Sequence[NodeReport],
    quorum: ControllerView | None,
    views: Mapping[int, BrokerView | None],
    quiet_s: float,
) -> str | None:
    """Return what keeps the cluster from being whole, in words; `None` when it is.

    Whole: every node runs, and has run undisturbed for as long as a heartbeat needs (a node that was resumed may have been given
    up in that moment); there is an active controller; and every broker itself says that all of them are registered and not
    fenced, and that each partition has a leader and its full ISR. One view alone would not do: the one of a broker that was
    paused is from before, and the others' is from before when it was killed and came back within its session.

    Args:
        reports: the nodes as their supervisor knows them.
        quorum: the active controller's answer.
        views: each node's own answer.
        quiet_s: how long a node must not have been started or resumed.
    """
    for report in reports:
        node = report.status
        if node.state != "running":
            return f"node {node.node_id} is {node.state}"
        if report.quiet_s < quiet_s:
            return f"node {node.node_id} runs for {report.quiet_s:.1f} s only"
    if quorum is None:
        return "no node is the active controller"
    return next(
        filter(None, (_flaw(node_id, view, set(views)) for node_id, view in views.items())), None
    ) or _disagreement(views)


def _flaw(node_id: int, view: BrokerView | None, nodes: set[int]) -> str | None:
    """What one broker's view lacks."""
    if view is None:
        return f"node {node_id} does not answer"
    if view.brokers != nodes:
        return f"node {node_id} sees the brokers {sorted(view.brokers)} of {sorted(nodes)}"
    return next(
        (
            f"node {node_id} sees {_text(p)}"
            for p in view.partitions
            if p.leader is None or set(p.isr) != set(p.replicas)
        ),
        None,
    )


def _disagreement(views: Mapping[int, BrokerView | None]) -> str | None:
    """Leaders and ISR must be the same everywhere; with full ISR, that leaves leaders and the partitions that there are."""
    seen = {
        frozenset((p.topic, p.partition, p.leader) for p in view.partitions)
        for view in views.values()
        if view
    }
    return None if len(seen) == 1 else "the nodes see different partitions or leaders"


def _text(partition: PartitionState) -> str:
    return f"{partition.topic}-{partition.partition} with leader {partition.leader} and ISR {list(partition.isr)} of {list(partition.replicas)}"


def send_kafka_request(at: tuple[str, int], request: bytes, timeout_s: float) -> bytes | None:
    """Send one request over a connection of its own; `None` when nothing whole came back in time."""
    try:
        with socket.create_connection(at, timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(request)
            with connection.makefile("rb") as answers:
                return _read_frame(answers)
    except OSError:
        return None


def _read_frame(answers: BinaryIO) -> bytes | None:
    """A size in four bytes, and so many bytes; `None` when the connection ended before."""
    head = answers.read(4)
    if len(head) < 4:  # noqa: PLR2004 - the size's own
        return None
    (size_bytes,) = struct.unpack(">i", head)
    answer = answers.read(size_bytes)
    return answer if len(answer) == size_bytes else None
