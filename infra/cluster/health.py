"""What the nodes report of their cluster, and whether the reports agree on a healthy cluster.

A cluster is healthy when all nodes run and are registered and unfenced, and all partitions have a
leader and their full ISR.

Which report is right. A broker answers from its own copy of the metadata, which is outdated while
the broker is paused, cut off or just started. The active controller's own process has the newest
metadata, because it writes them. A controller that was replaced without noticing reports itself
with an older epoch (KIP-595), so of several nodes that report themselves as active controller, the
one with the highest epoch is right. Under ZooKeeper the controller is a broker, and a broker that
names itself is right; of several such brokers, the one that most brokers name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ackbench.infra.cluster.supervisor_protocol import NodeReport
from ackbench.infra.kafka import wire
from ackbench.infra.kafka.spec import ClusterState, ControllerView, NodeStatus, PartitionState
from ackbench.infra.kafka.wire import BrokerView
from ackbench.infra.network.timed_connection import TimedConnection

_MODE_BYTES: Final = 1 << 16
"""More than a ZooKeeper server says about itself."""


def send_kafka_request(address: tuple[str, int], request: bytes, timeout_s: float) -> bytes | None:
    """Send one request over a new connection; return the response without its size.

    `None`: there is no complete response in time.

    Raises:
        HarnessError: what answers is not Kafka.
    """
    try:
        with TimedConnection(address, timeout_s) as node:
            node.send(request)
            return node.receive_response()
    except OSError:
        return None


def query_broker(
    node: NodeStatus, topics: Sequence[str] | None, timeout_s: float
) -> BrokerView | None:
    """Return the broker's own view of these topics, or of all topics.

    `None`: the broker does not answer in time.
    """
    address = (node.host, node.replication_port)
    response = send_kafka_request(address, wire.metadata_request(topics), timeout_s)
    return wire.read_metadata(response) if response is not None else None


def query_controller(node: NodeStatus, timeout_s: float) -> ControllerView | None:
    """Return the quorum as the node's controller sees it.

    `None`: the controller is not active, or does not answer in time.
    """
    response = send_kafka_request(
        (node.host, node.controller_port), wire.quorum_request(), timeout_s
    )
    return wire.read_quorum(response) if response is not None else None


def query_log_end_offsets(
    nodes: Sequence[NodeStatus], partitions: Sequence[PartitionState], timeout_s: float
) -> dict[int, int]:
    """Return the log end offset of each partition of one topic, queried from its leader.

    A partition is left out when its leader is none of the nodes, or does not answer in time.
    """
    offsets: dict[int, int] = {}
    for node in nodes:
        led = [partition for partition in partitions if partition.leader == node.node_id]
        if led:
            request = wire.list_offsets_request(led[0].topic, [one.partition for one in led])
            address = (node.host, node.replication_port)
            response = send_kafka_request(address, request, timeout_s)
            if response is not None:
                offsets |= wire.read_list_offsets(response)
    return offsets


def zookeeper_mode(node: NodeStatus, timeout_s: float) -> str | None:
    """Return the mode of a ZooKeeper server: `leader`, `follower` or `standalone`.

    `None`: it does not serve requests, for example because it is in the minority.
    """
    try:
        with TimedConnection((node.host, node.controller_port), timeout_s) as server:
            server.send(b"srvr")
            mode = re.search(rb"^Mode: (\w+)$", server.receive_all(_MODE_BYTES), re.MULTILINE)
            return mode[1].decode() if mode else None
    except OSError:
        return None


def zookeeper_leader(nodes: Sequence[NodeStatus], timeout_s: float) -> int | None:
    """Return the id of the ZooKeeper server that leads its ensemble, or is standalone."""
    running = [node for node in nodes if node.role == "zookeeper" and node.state == "running"]
    return next(
        (
            node.node_id
            for node in running
            if zookeeper_mode(node, timeout_s) in {"leader", "standalone"}
        ),
        None,
    )


def active_controller(nodes: Sequence[NodeStatus], timeout_s: float) -> ControllerView | None:
    """Return the active controller; `None` when no node reports that it is.

    Args:
        nodes: all nodes of the cluster, running or not; their roles decide which are queried.
        timeout_s: how long each node may take to answer.
    """
    running = [node for node in nodes if node.state == "running"]
    if not any(node.is_controller for node in nodes):
        return zookeeper_controller(
            {node.node_id: query_broker(node, (), timeout_s) for node in running if node.is_broker}
        )
    return newest_controller(
        query_controller(node, timeout_s) for node in running if node.is_controller
    )


def newest_controller(reports: Iterable[ControllerView | None]) -> ControllerView | None:
    """Return the report with the highest epoch, of the nodes that report to be the controller."""
    return max(
        (report for report in reports if report), key=lambda report: report.epoch or 0, default=None
    )


def zookeeper_controller(views: Mapping[int, BrokerView | None]) -> ControllerView | None:
    """Return the broker that names itself as the controller under ZooKeeper.

    Of several such brokers it is the one that most brokers name. Its epoch is not reported.

    Args:
        views: each broker's own view by node id.
    """
    votes = Counter(view.controller for view in views.values() if view)
    self_named = [node_id for node_id, view in views.items() if view and view.controller == node_id]
    if not self_named:
        return None
    return ControllerView(max(self_named, key=lambda node_id: votes[node_id]), None)


def most_current_view(
    nodes: Sequence[NodeStatus],
    quorum: ControllerView | None,
    topics: Sequence[str] | None,
    timeout_s: float,
) -> BrokerView | None:
    """Return the most current view of the cluster that a broker reports.

    That is the view of the active controller's own process. Where that is no broker, or does not
    answer, it is the view of a broker that no other broker reports as fenced.
    """
    brokers = [node for node in nodes if node.state == "running" and node.is_broker]
    active = next(
        (node for node in brokers if quorum is not None and node.node_id == quorum.leader), None
    )
    view = query_broker(active, topics, timeout_s) if active else None
    if view is not None:
        return view
    views = {
        node.node_id: query_broker(node, topics, timeout_s)
        for node in brokers
        if node is not active
    }
    return first_unfenced_view(
        {node_id: view for node_id, view in views.items() if view is not None}
    )


def first_unfenced_view(views: Mapping[int, BrokerView]) -> BrokerView | None:
    """Return the first view of a broker that no other broker reports as fenced.

    A broker that is cut off keeps answering from its old metadata, in which no broker is fenced.
    A broker that is not in its own view, as just after its start, is not counted.
    """
    informed = {node_id: view for node_id, view in views.items() if node_id in view.brokers}
    fenced = {
        node_id for node_id in informed for view in informed.values() if node_id not in view.brokers
    }
    candidates = [
        *(view for node_id, view in informed.items() if node_id not in fenced),
        *views.values(),
    ]
    return candidates[0] if candidates else None


def cluster_state(view: BrokerView, quorum: ControllerView | None) -> ClusterState:
    """Return the state of the cluster from one broker's view and the active controller."""
    leader, epoch = (quorum.leader, quorum.epoch) if quorum else (None, None)
    return ClusterState(tuple(sorted(view.brokers)), leader, epoch, view.partitions)


def why_metadata_unavailable(nodes: Sequence[NodeStatus], timeout_s: float) -> str | None:
    """Return which dedicated controller or ZooKeeper server does not serve; `None`: all serve."""
    for node in nodes:
        if node.role == "controller":
            address = (node.host, node.controller_port)
            if send_kafka_request(address, wire.quorum_request(), timeout_s) is None:
                return f"controller {node.node_id} does not answer"
        if node.role == "zookeeper" and zookeeper_mode(node, timeout_s) is None:
            return f"ZooKeeper server {node.node_id} does not serve"
    return None


def why_not_healthy(
    reports: Sequence[NodeReport],
    quorum: ControllerView | None,
    views: Mapping[int, BrokerView | None],
    least_unchanged_s: float,
) -> str | None:
    """Return what keeps the cluster from being healthy; `None` when it is healthy.

    Each node must run, and must have run for a heartbeat interval without a fault: a node that was
    resumed may have been fenced in that moment. There must be an active controller. Every broker
    itself must report all brokers as registered and unfenced, and each partition with a leader and
    its full ISR. One view is not enough: that of a broker that was paused is outdated, and so are
    the others' when a broker crashed and came back within its session.

    Args:
        reports: the nodes as their supervisor knows them.
        quorum: the active controller.
        views: each broker's own view by node id.
        least_unchanged_s: how long each node must not have been started or resumed.
    """
    for report in reports:
        node = report.status
        if node.state != "running":
            return f"node {node.node_id} is {node.state}"
        if report.unchanged_s < least_unchanged_s:
            return f"node {node.node_id} has been running for only {report.unchanged_s:.1f} s"
    if quorum is None:
        return "no node is the active controller"
    for node_id, view in views.items():
        defect = _defect(node_id, view, set(views))
        if defect is not None:
            return defect
    return _disagreement(views)


def _defect(node_id: int, view: BrokerView | None, expected: set[int]) -> str | None:
    """Return what one broker's view lacks."""
    if view is None:
        return f"node {node_id} does not answer"
    if view.brokers != expected:
        return f"node {node_id} reports the brokers {sorted(view.brokers)} of {sorted(expected)}"
    return next(
        (
            f"node {node_id} reports {_describe(partition)}"
            for partition in view.partitions
            if partition.leader is None or set(partition.isr) != set(partition.replicas)
        ),
        None,
    )


def _disagreement(views: Mapping[int, BrokerView | None]) -> str | None:
    """Return whether the views differ in partitions or leaders; each has all ISRs full by now."""
    different = {
        frozenset((one.topic, one.partition, one.leader) for one in view.partitions)
        for view in views.values()
        if view
    }
    return None if len(different) == 1 else "the nodes report different partitions or leaders"


def _describe(partition: PartitionState) -> str:
    return (
        f"{partition.topic}-{partition.partition} with leader {partition.leader} and ISR "
        f"{list(partition.isr)} of {list(partition.replicas)}"
    )
