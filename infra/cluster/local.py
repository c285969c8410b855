"""A Kafka cluster on this machine, which any process that knows its folder can use.

Each cluster has a folder, and a supervisor process that is the parent of its nodes
(`infra.cluster.supervisor`). Every change to a node, the network or a disk is a request to the
supervisor; queries go to the nodes themselves, by Kafka's wire protocol.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final

from ackbench.infra.cluster import health
from ackbench.infra.cluster.cleaning import remove_processes, require_own_machine
from ackbench.infra.cluster.disks import Disks
from ackbench.infra.cluster.handle import LOCK_FILE, ClusterHandle, LeaseHolder, read_handle
from ackbench.infra.cluster.metadata_poller import LocalMetadataPoller
from ackbench.infra.cluster.node import NODE_LOG, node_folder
from ackbench.infra.cluster.supervisor_protocol import (
    CountsRequest,
    DestroyRequest,
    HealRequest,
    ImpairRequest,
    LeaseRequest,
    NodeAction,
    NodeReport,
    NodeRequest,
    ReportRequest,
    SupervisorReply,
    SupervisorRequest,
    send_request,
)
from ackbench.infra.errors import HarnessError, InputError, NodeFailed, SupervisorError, WaitTimeout
from ackbench.infra.kafka.broker_settings import broker_heartbeat_interval_ms, shared_properties
from ackbench.infra.kafka.commands import launch_spec
from ackbench.infra.kafka.kraft import LOG_DIR
from ackbench.infra.kafka.logs import BrokerLogEvent, read_broker_log
from ackbench.infra.kafka.replica_files import read_leader_epochs
from ackbench.infra.kafka.secrets import resolve_references
from ackbench.infra.kafka.spec import (
    ClusterSpec,
    ClusterState,
    LaunchSpec,
    LeaderEpoch,
    NodeStatus,
    node_name,
)
from ackbench.infra.kafka.storage import random_uuid
from ackbench.infra.network.impairment import Impairment, ImpairmentCounts
from ackbench.infra.process.exits import ProcessExit, describe_exit
from ackbench.infra.process.log_tail import failure_excerpt, read_from
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import wait_until
from ackbench.infra.start import module_command

_SUPERVISOR_LOG: Final = "supervisor.log"
_SUPERVISOR_START_TIMEOUT_S: Final = 30.0
_SUPERVISOR_END_TIMEOUT_S: Final = 30.0
_PROVISION_TIMEOUT_S: Final = 120.0
_QUERY_TIMEOUT_S: Final = 1.0
"""How long one node may take to answer."""
_HEALTH_CHECK_INTERVAL_S: Final = 0.03


class ClusterControl:
    """Changes the nodes and the network of a cluster, by requests to its supervisor. Thread-safe.

    Implements what `infra.cluster.interface.Cluster` says of nodes' processes and of traffic.
    """

    def __init__(self, folder: Path) -> None:
        """Store the cluster's folder, which holds the supervisor's socket."""
        self._folder = folder

    def kill(self, node_id: int) -> NodeStatus:
        """Crash a node (SIGKILL); return its status from before, once the process is gone.

        Raises:
            SupervisorError: the node is stopped.
        """
        return self._act("kill", node_id)

    def pause(self, node_id: int) -> None:
        """Pause a node (SIGSTOP); return once all its threads are stopped.

        Raises:
            SupervisorError: the node is stopped.
        """
        self._act("pause", node_id)

    def resume(self, node_id: int) -> None:
        """Resume a paused node (SIGCONT); has no effect on any other node."""
        self._act("resume", node_id)

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """Shut a node down cleanly (SIGTERM); has no effect on a stopped node.

        Raises:
            WaitTimeout: its process did not exit in time.
        """
        self._act("stop", node_id, timeout_s)

    def start(self, node_id: int) -> NodeStatus:
        """Start a stopped node; return once its process runs. It need not be registered yet.

        Has no effect on a node that runs or is paused.
        """
        return self._act("start", node_id)

    def restart(self, node_id: int) -> NodeStatus:
        """Shut a node down cleanly, then start it."""
        self.stop(node_id)
        return self.start(node_id)

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Start impairments of the nodes' traffic under a name.

        Raises:
            ImpairmentConflict: another impairment uses the same network resource.
            SupervisorError: the cluster's network does not support them, or the name is in use.
        """
        self._send(ImpairRequest(name, tuple(impairments)))

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return how much traffic the impairments of that name have affected so far.

        Raises:
            SupervisorError: no active impairment has this name.
        """
        return self._send(CountsRequest(name)).impairment_counts

    def active_impairments(self) -> tuple[str, ...]:
        """Return the names of the active impairments."""
        return self._send(ReportRequest()).active_impairments

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """End the impairments of that name; return the final counts. A second call has no effect.

        Raises:
            SupervisorError: the kernel refused.
        """
        return self._send(HealRequest(name)).impairment_counts

    def _act(self, action: NodeAction, node_id: int, timeout_s: float = 30.0) -> NodeStatus:
        status = self._send(NodeRequest(action, node_id, timeout_s)).node
        if status is None:
            raise SupervisorError(f"the supervisor did not return the status of node {node_id}")
        return status

    def _send(self, request: SupervisorRequest) -> SupervisorReply:
        return send_request(self._folder, request)


class LocalCluster(ClusterControl):
    """A cluster whose nodes are processes on this machine. Thread-safe.

    Implements `infra.cluster.interface.Cluster`.
    """

    def __init__(
        self, folder: Path, handle: ClusterHandle, supervisor: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Use the cluster of a folder; `provision` and `attach` call this.

        Args:
            folder: the cluster's.
            handle: the content of its handle file.
            supervisor: its process, where it is a child of this process, to be reaped.
        """
        super().__init__(folder)
        self._handle, self._supervisor = handle, supervisor

    @property
    def folder(self) -> Path:
        """The folder of its handle, data and logs."""
        return self._folder

    @property
    def spec(self) -> ClusterSpec:
        """The specification that it was provisioned from."""
        return self._handle.spec

    @property
    def broker_settings(self) -> dict[str, str]:
        """The effective settings that all nodes share, with the feature levels.

        The settings of a single node are in its `server.properties`.
        """
        return {
            **self._handle.shared_settings,
            **{name: str(level) for name, level in self.spec.features.items()},
        }

    @property
    def relay_pid(self) -> int | None:
        """The supervisor, if the cluster's network has relays."""
        supervisor = self._handle.supervisor
        return supervisor.pid if supervisor and self.spec.has_relays else None

    @property
    def bootstrap_servers(self) -> str:
        """The client listeners of all brokers, as `bootstrap.servers`."""
        return ",".join(
            f"{node.host}:{node.client_port}" for node in self._handle.nodes if node.is_broker
        )

    @property
    def admin_servers(self) -> str:
        """The replication listeners of all brokers; no fault of the client network affects them."""
        return ",".join(
            f"{node.host}:{node.replication_port}" for node in self._handle.nodes if node.is_broker
        )

    @property
    def disks(self) -> Disks:
        """The disks of all nodes."""
        return Disks(partial(node_folder, self._folder), self._send)

    def node_ids(self) -> tuple[int, ...]:
        """Return the ids of all brokers, running or not."""
        return tuple(node.node_id for node in self._handle.nodes if node.is_broker)

    def status(self) -> tuple[NodeStatus, ...]:
        """Return the state of each node's process as the supervisor knows it.

        Raises:
            SupervisorError: the supervisor cannot be reached.
        """
        return tuple(report.status for report in self._node_reports())

    def unexpected_exits(self) -> tuple[ProcessExit, ...]:
        """Return every exit of a node that no request had asked for, and failures of relays.

        Raises:
            SupervisorError: the supervisor cannot be reached.
        """
        reply = self._send(ReportRequest())
        of_nodes = (one for report in reply.nodes for one in report.unexpected_exits)
        return (*of_nodes, *reply.failures)

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Return the state of the cluster from the most current view that a broker has.

        See `infra.cluster.health.most_current_view`. Stopped and paused nodes are not queried.

        Raises:
            WaitTimeout: no broker answered.
            SupervisorError: the supervisor cannot be reached.
        """
        return wait_until(
            lambda: self._state(topics, min(timeout_s, _QUERY_TIMEOUT_S)),
            awaiting=f"a broker of {self._folder.name} to answer",
            timeout_s=timeout_s,
            seen=lambda: ", ".join(f"node {node.node_id} {node.state}" for node in self.status()),
        )

    def metadata_poller(self, topic: str) -> LocalMetadataPoller:
        """Return a poller of the topic's metadata; the caller closes it."""
        return LocalMetadataPoller(self._handle.nodes, topic)

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return the state of the cluster once it is healthy; see `infra.cluster.health`.

        Raises:
            NodeFailed: a node exited unexpectedly; the text ends with lines of its log.
            WaitTimeout: the cluster did not become healthy in time.
            SupervisorError: the supervisor cannot be reached.
        """
        reason = "not checked yet"

        def check() -> ClusterState | None:
            nonlocal reason
            state, reason = self._check_health()
            return state

        return wait_until(
            check,
            awaiting=f"cluster {self._folder.name} to become healthy",
            timeout_s=timeout_s,
            every_s=_HEALTH_CHECK_INTERVAL_S,
            seen=lambda: reason,
        )

    @property
    def log_ends_are_known(self) -> bool:
        """`True`: its nodes answer ackbench as they answer a follower."""
        return True

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the leader's log end offset by partition, above the high watermark or not.

        A partition without a running leader is left out.

        Raises:
            WaitTimeout: no broker answered.
            SupervisorError: the supervisor cannot be reached.
        """
        running = [node for node in self.status() if node.state == "running" and node.is_broker]
        partitions = self.describe([topic]).of(topic)
        return health.query_log_end_offsets(running, partitions, _QUERY_TIMEOUT_S)

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Return the current content of each replica's `leader-epoch-checkpoint`.

        Raises:
            HarnessError: a checkpoint cannot be read.
        """
        return tuple(
            epoch
            for node_id in self.node_ids()
            for epoch in read_leader_epochs(
                node_folder(self._folder, node_id) / LOG_DIR, node_id, topic
            )
        )

    def node_log(self, node_id: int) -> Path:
        """Return the path of a node's own log, which covers all its starts."""
        return node_folder(self._folder, node_id) / NODE_LOG

    def node_log_sizes(self) -> dict[int, int]:
        """Return the current size of each node's own log, bytes."""
        return {
            node.node_id: self.node_log(node.node_id).stat().st_size for node in self._handle.nodes
        }

    def node_log_events_since(
        self, node_log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """Return what the nodes have logged since then; see `infra.kafka.logs`."""
        return tuple(
            event
            for node_id, size_bytes in node_log_sizes.items()
            for event in read_broker_log(
                read_from(self.node_log(node_id), size_bytes), node_id, topic
            )
        )

    def destroy(self) -> None:
        """End all nodes and the supervisor, and remove the data; the nodes' logs stay.

        Works when the supervisor is dead, and a second time.
        """
        supervisor = read_handle(self._folder).supervisor
        if supervisor and supervisor.is_alive():
            self._end_supervisor(supervisor)
        remove_processes(self._folder)
        if self._supervisor:
            self._supervisor.wait(_SUPERVISOR_END_TIMEOUT_S)

    def _end_supervisor(self, supervisor: ProcessIdentity) -> None:
        """Ask the supervisor to end; the caller kills one that does not."""
        try:
            self._send(DestroyRequest())
            wait_until(
                lambda: not supervisor.is_alive(),
                awaiting="the supervisor to exit",
                timeout_s=_SUPERVISOR_END_TIMEOUT_S,
                every_s=0.01,
            )
        except (SupervisorError, WaitTimeout):
            return

    def _node_reports(self) -> tuple[NodeReport, ...]:
        return self._send(ReportRequest()).nodes

    def _state(self, topics: Sequence[str] | None, timeout_s: float) -> ClusterState | None:
        nodes = self.status()
        quorum = health.active_controller(nodes, timeout_s)
        view = health.most_current_view(nodes, quorum, topics, timeout_s)
        return health.cluster_state(view, quorum) if view else None

    def _check_health(self) -> tuple[ClusterState | None, str]:
        """Return the state of a healthy cluster, or `None` and the reason why it is not healthy.

        An impaired network counts as unhealthy although the health check itself does not notice
        it, because it uses other listeners than the clients: a trial that was killed may have
        left its impairments.
        """
        reports = self._node_reports()
        _raise_for_failed_nodes(self._folder, reports)
        nodes = [report.status for report in reports]
        quorum = health.active_controller(nodes, _QUERY_TIMEOUT_S)
        views = {
            node.node_id: health.query_broker(node, None, _QUERY_TIMEOUT_S)
            for node in nodes
            if quorum and node.state == "running" and node.is_broker
        }
        impairments = ", ".join(self.active_impairments())
        heartbeat_s = broker_heartbeat_interval_ms(self._handle.shared_settings) / 1000
        reason = (
            (f"its network is impaired by {impairments}" if impairments else None)
            or health.why_not_healthy(reports, quorum, views, least_unchanged_s=heartbeat_s)
            or health.why_metadata_unavailable(nodes, _QUERY_TIMEOUT_S)
        )
        view = next(filter(None, views.values()), None)  # the views of a healthy cluster agree
        if view is None or reason:
            return None, reason or "no broker answers"
        return health.cluster_state(view, quorum), ""


def provision(
    clusters: Path, cache: Path, name: str, spec: ClusterSpec, holder_grace_s: float = 0
) -> LocalCluster:
    """Provision a cluster and return it once it is healthy; a failure leaves nothing but logs.

    Args:
        clusters: the folder of all clusters.
        cache: the home's cache folder.
        name: of the cluster and of its folder, which must not exist.
        spec: what to provision.
        holder_grace_s: how long the cluster outlives this process and later holders.

    Raises:
        InputError: the name is in use, a broker setting is invalid, or an environment variable
            that one refers to is not set.
        MachineError: the jars cannot be fetched, or no ports are free.
        NodeFailed: a node did not start; the text ends with lines of its own log.
        WaitTimeout: the cluster did not become healthy in time.
    """
    return provision_with(clusters, name, spec, launch_spec(cache, spec), holder_grace_s)


def provision_with(
    clusters: Path, name: str, spec: ClusterSpec, launch: LaunchSpec, holder_grace_s: float = 0
) -> LocalCluster:
    """Provision a cluster whose nodes are started by these commands; otherwise like `provision`."""
    resolve_references(spec.broker)
    folder = _create_cluster_folder(clusters, name)
    with (folder / LOCK_FILE).open("w") as lock:
        # It stays locked until the supervisor, which inherits it, has ended too.
        fcntl.flock(lock, fcntl.LOCK_EX)
        holder = LeaseHolder(ProcessIdentity.own(), holder_grace_s)
        handle = ClusterHandle(
            name, random_uuid(), spec, launch, shared_properties(spec), (holder,)
        )
        handle.write(folder)
        supervisor = _start_supervisor(folder, lock)
    try:
        _wait_for_supervisor(folder, supervisor)
        cluster = LocalCluster(folder, read_handle(folder), supervisor)
        cluster.wait_until_healthy(_PROVISION_TIMEOUT_S)
    except BaseException:
        LocalCluster(folder, handle, supervisor).destroy()
        raise
    return cluster


def attach(folder: Path, holder_grace_s: float = 0) -> LocalCluster:
    """Return a cluster that another process provisioned; this process becomes a holder of it.

    Raises:
        SupervisorError: there is no cluster, its supervisor has ended, or it runs on another
            machine.
    """
    handle = require_own_machine(folder)
    own = ProcessIdentity.own()
    send_request(folder, LeaseRequest(own.pid, own.start_ticks, holder_grace_s))
    return LocalCluster(folder, handle)


def destroy(folder: Path) -> None:
    """Destroy the cluster of a folder, whichever process made it and whatever is still running.

    Raises:
        SupervisorError: the folder has no cluster handle, or the cluster may run on another
            machine.
    """
    LocalCluster(folder, require_own_machine(folder)).destroy()


def _create_cluster_folder(clusters: Path, name: str) -> Path:
    folder = clusters / name
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError as error:
        raise InputError(
            f"cluster folder {folder} already exists: run `ackbench clean` to remove what earlier "
            "clusters left behind"
        ) from error
    return folder.resolve()


def _start_supervisor(folder: Path, lock: IO[str]) -> subprocess.Popen[bytes]:
    """Start the supervisor in its own session, out of reach of Ctrl-C and of signals to a group.

    It inherits the lock of the cluster's folder, and its nodes do not.
    """
    with (folder / _SUPERVISOR_LOG).open("wb") as log:
        return subprocess.Popen(
            module_command("ackbench.infra.cluster.supervisor", str(folder)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )


def _wait_for_supervisor(folder: Path, supervisor: subprocess.Popen[bytes]) -> None:
    """Return once the supervisor answers.

    Raises:
        SupervisorError: it exited; the text ends with lines of its log.
        WaitTimeout: it did not answer in time.
    """

    def has_answered() -> bool:
        if supervisor.poll() is not None:
            raise SupervisorError(
                f"the supervisor of {folder.name} exited with status {supervisor.returncode}: "
                f"{failure_excerpt(folder / _SUPERVISOR_LOG)}"
            )
        try:
            return bool(send_request(folder, ReportRequest()).nodes)
        except HarnessError:
            return False

    wait_until(
        has_answered,
        awaiting=f"the supervisor of {folder.name} to answer",
        timeout_s=_SUPERVISOR_START_TIMEOUT_S,
        every_s=0.02,
    )


def _raise_for_failed_nodes(folder: Path, reports: Sequence[NodeReport]) -> None:
    for report in reports:
        if report.exited_unexpectedly:
            node = report.status
            excerpt = failure_excerpt(node_folder(folder, node.node_id) / NODE_LOG)
            raise NodeFailed(
                f"{node_name(node.node_id, node.role)} {describe_exit(report.exit_status)}, "
                f"unexpectedly; its log ends:\n{excerpt}"
            )
