"""A real Kafka cluster on this machine: provisioned, used by any process that holds its folder, destroyed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from infra.cluster import health
from infra.cluster.cleaning import remove_processes
from infra.cluster.disks import Disks
from infra.cluster.handle import ClusterHandle, LeaseHolder, read_handle
from infra.cluster.metadata_poller import LocalMetadataPoller
from infra.cluster.node import NODE_LOG, node_folder
from infra.cluster.supervisor_protocol import (
    NodeAction,
    NodeReport,
    SupervisorRequest,
    send_request,
)
from infra.errors import HarnessError, InputError, NodeFailed, SupervisorError, WaitTimeout
from infra.kafka.broker_settings import broker_heartbeat_interval_ms, shared_properties
from infra.kafka.commands import launch_spec
from infra.kafka.kraft import LOG_DIR
from infra.kafka.logs import BrokerLogEvent, read_broker_log
from infra.kafka.replica_files import read_leader_epochs
from infra.kafka.spec import ClusterSpec, ClusterState, LaunchSpec, LeaderEpoch, NodeStatus
from infra.kafka.storage import random_uuid
from infra.network.impairment import Impairment, ImpairmentCounts
from infra.process.log_tail import failure_excerpt, read_from
from infra.process.processes import ProcessIdentity
from infra.process.waiting import wait_until

# ---------- What is done to a cluster's nodes and their network: each is a request to its supervisor, which alone has its hands on them.


class ClusterControl:
    """The part of `infra.cluster.interface.Cluster` that changes something. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Know the cluster's folder, where its supervisor's socket lies."""
        self._folder = folder

    def status(self) -> tuple[NodeStatus, ...]:
        """Each node's state as the supervisor knows it.

        Raises:
            SupervisorError: it cannot be reached.
        """
        return tuple(report.status for report in self.reports())

    def reports(self) -> tuple[NodeReport, ...]:
        """Each node's state, and how it came to be so.

        Raises:
            SupervisorError: it cannot be reached.
        """
        return send_request(self._folder, SupervisorRequest("status")).nodes

    def kill(self, node_id: int) -> NodeStatus:
        """SIGKILL; returns, once the process is gone, what it was.

        Raises:
            SupervisorError: it does not run.
        """
        return self._told("kill", node_id)

    def pause(self, node_id: int) -> None:
        """SIGSTOP; returns once every thread of it stands.

        Raises:
            SupervisorError: it does not run.
        """
        self._told("pause", node_id)

    def resume(self, node_id: int) -> None:
        """SIGCONT; a node that is not paused is left as it is."""
        self._told("resume", node_id)

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """SIGTERM and wait for a clean end; a node that is stopped is left as it is.

        Raises:
            WaitTimeout: it goes on.
        """
        self._told("stop", node_id, timeout_s)

    def start(self, node_id: int) -> NodeStatus:
        """Start a stopped node; returns when the process runs (it need not be registered yet). One that runs is left as it is."""
        return self._told("start", node_id)

    def restart(self, node_id: int) -> NodeStatus:
        """Stop cleanly, then start."""
        self.stop(node_id)
        return self.start(node_id)

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Begin to treat the nodes' traffic so.

        Raises:
            SupervisorError: the cluster's network cannot, or the name is taken.
        """
        send_request(
            self._folder, SupervisorRequest("impair", name=name, impairments=tuple(impairments))
        )

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """What the impairments of that name have met with so far.

        Raises:
            SupervisorError: there are none of that name.
        """
        return send_request(
            self._folder, SupervisorRequest("impairment_counts", name=name)
        ).impairment_counts

    def active_impairments(self) -> tuple[str, ...]:
        """The names of what is done to the network now.

        Raises:
            SupervisorError: it cannot be reached.
        """
        return send_request(self._folder, SupervisorRequest("status")).active_impairments

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Let the traffic through again; return what was met with in all. A second time finds nothing to do.

        Raises:
            SupervisorError: the kernel refused.
        """
        return send_request(self._folder, SupervisorRequest("heal", name=name)).impairment_counts

    def _told(self, verb: NodeAction, node_id: int, timeout_s: float = 30.0) -> NodeStatus:
        told = send_request(self._folder, SupervisorRequest(verb, node_id, timeout_s)).node
        if told is None:
            raise SupervisorError(f"the supervisor did not say what became of node {node_id}")
        return told


# ---------- A cluster's folder and the supervisor that owns it: made, started, and waited for.


_LOG: Final = "supervisor.log"
_START_TIMEOUT_S: Final = 30.0


def create_cluster_folder(clusters: Path, name: str) -> Path:
    """Make a cluster's folder.

    Raises:
        InputError: the name is taken.
    """
    folder = clusters / name
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError as error:
        raise InputError(
            f"there is a cluster folder {folder} already: `ackbench clean` removes what was left behind"
        ) from error
    return folder.resolve()


def start_supervisor(folder: Path) -> subprocess.Popen[bytes]:
    """Detached: a session of its own, so that neither Ctrl-C nor a killed process group reaches it."""
    with (folder / _LOG).open("wb") as log:
        command = [sys.executable, "-m", "infra.cluster.supervisor", str(folder)]
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def await_supervisor(folder: Path, supervisor: subprocess.Popen[bytes]) -> ClusterHandle:
    """Return the handle once the supervisor answers.

    Raises:
        SupervisorError: it ended; the text has its last words.
        WaitTimeout: it did not answer in time.
    """

    def answered() -> bool:
        if supervisor.poll() is not None:
            raise SupervisorError(
                f"the supervisor of {folder.name} ended with status {supervisor.returncode}: {failure_excerpt(folder / _LOG)}"
            )
        try:
            return bool(send_request(folder, SupervisorRequest("status")).nodes)
        except HarnessError:
            return False

    wait_until(
        answered,
        awaiting=f"the supervisor of {folder.name}",
        timeout_s=_START_TIMEOUT_S,
        every_s=0.02,
    )
    return read_handle(folder)


def raise_for_failed_nodes(folder: Path, reports: Sequence[NodeReport]) -> None:
    """Check that no node ended by itself.

    Raises:
        NodeFailed: one did; the text ends with its last words.
    """
    for report in reports:
        if report.died_unasked:
            node_id = report.status.node_id
            words = failure_excerpt(node_folder(folder, node_id) / NODE_LOG)
            raise NodeFailed(
                f"node {node_id} ended by itself with status {report.exit_status}; its log ends:\n{words}"
            )


_PROVISION_TIMEOUT_S: Final = 120.0
_END_TIMEOUT_S: Final = 30.0
_ANSWER_TIMEOUT_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.03


class LocalCluster(ClusterControl):
    """A cluster whose nodes are processes of this machine; implements `infra.cluster.interface.Cluster`. Safe to use from several threads."""

    def __init__(
        self, folder: Path, handle: ClusterHandle, supervisor: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Know the cluster of a folder; `provision` and `attach` make one.

        Args:
            folder: the cluster's.
            handle: what its file says.
            supervisor: the process, where it is a child of this one, to be reaped.
        """
        super().__init__(folder)
        self._handle, self._supervisor = handle, supervisor

    @property
    def folder(self) -> Path:
        """Where its handle, data and logs lie."""
        return self._folder

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for."""
        return self._handle.spec

    @property
    def broker_settings(self) -> dict[str, str]:
        """The effective settings that all nodes share, features among them; each node's own are in its `server.properties`."""
        return {
            **self._handle.shared_settings,
            **{name: str(level) for name, level in self.spec.features.items()},
        }

    @property
    def bootstrap_servers(self) -> str:
        """The client listeners of all nodes, as the property wants them."""
        return ",".join(
            f"{node.host}:{node.client_port}" for node in self._handle.nodes if node.is_broker
        )

    @property
    def admin_servers(self) -> str:
        """The listeners that nodes use among themselves: no fault of the clients' network touches them."""
        return ",".join(
            f"{node.host}:{node.replication_port}" for node in self._handle.nodes if node.is_broker
        )

    def node_ids(self) -> tuple[int, ...]:
        """All brokers, running or not."""
        return tuple(node.node_id for node in self._handle.nodes if node.is_broker)

    def node_log(self, node_id: int) -> Path:
        """What the node had to say, over all its starts."""
        return node_folder(self._folder, node_id) / NODE_LOG

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Leaders, ISR, live brokers and the active controller, of the node that knows best: the active controller's own.

        Where that is no broker, or there is none: of the first that no other one calls fenced. Dead and paused ones are not asked.

        Raises:
            WaitTimeout: no broker answered.
            SupervisorError: the supervisor cannot be reached.
        """
        return wait_until(
            lambda: self._look(topics, min(timeout_s, _ANSWER_TIMEOUT_S)),
            awaiting=f"an answer of any broker of {self._folder.name}",
            timeout_s=timeout_s,
            seen=lambda: ", ".join(f"node {node.node_id} {node.state}" for node in self.status()),
        )

    def metadata_poller(self, topic: str) -> LocalMetadataPoller:
        """A place from which to look at the topic often; the caller closes it."""
        return LocalMetadataPoller(self._handle.nodes, topic)

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """The end of each partition's log as its leader has it, readable or not; a partition that no running node leads is left out.

        Raises:
            WaitTimeout, SupervisorError: as `describe`.
        """
        running = [node for node in self.status() if node.state == "running" and node.is_broker]
        return health.query_log_end_offsets(
            running, self.describe([topic]).of(topic), _ANSWER_TIMEOUT_S
        )

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return once every node itself says that all are registered and every partition has its full ISR; see `infra.cluster.health`.

        Raises:
            NodeFailed: a node died unasked; the text ends with its last words.
            WaitTimeout: the cluster did not become whole in time.
            SupervisorError: the supervisor cannot be reached.
        """
        lacking = "nothing was seen"

        def look() -> ClusterState | None:
            nonlocal lacking
            state, lacking = self._look_at_all()
            return state

        awaiting = f"{self._folder.name} to be whole"
        return wait_until(
            look,
            awaiting=awaiting,
            timeout_s=timeout_s,
            every_s=_LOOK_EVERY_S,
            seen=lambda: lacking,
        )

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """What each replica's `leader-epoch-checkpoint` says now; see `infra.kafka.replica_files`.

        Raises:
            HarnessError: one of them cannot be read.
        """
        return tuple(
            told
            for node in self.node_ids()
            for told in read_leader_epochs(node_folder(self._folder, node) / LOG_DIR, node, topic)
        )

    def node_log_sizes(self) -> dict[int, int]:
        """How long each member's own log is now, bytes; what is written later stands behind."""
        return {
            node.node_id: self.node_log(node.node_id).stat().st_size for node in self._handle.nodes
        }

    def node_log_events_since(
        self, log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """What the nodes' own logs tell from there on; see `infra.kafka.logs`."""
        return tuple(
            line
            for node, size in log_sizes.items()
            for line in read_broker_log(read_from(self.node_log(node), size), node, topic)
        )

    @property
    def disks(self) -> Disks:
        """What can be done to the nodes' disks, and read off them."""
        return Disks(partial(node_folder, self._folder), partial(send_request, self._folder))

    def destroy(self) -> None:
        """End every node and the supervisor, and remove the data; the nodes' logs stay until `ackbench clean`.

        Works as well when the supervisor is dead, and a second time.
        """
        supervisor = read_handle(self._folder).supervisor
        if supervisor and supervisor.is_alive():
            self._end_supervisor(supervisor)
        remove_processes(self._folder)
        if self._supervisor:
            self._supervisor.wait(_END_TIMEOUT_S)

    def _end_supervisor(self, supervisor: ProcessIdentity) -> None:
        """Ask it to end; what does not answer or does not end is left to the caller's next step."""
        try:
            send_request(self._folder, SupervisorRequest("destroy"))
            wait_until(
                lambda: not supervisor.is_alive(),
                awaiting="the supervisor's end",
                timeout_s=_END_TIMEOUT_S,
                every_s=0.01,
            )
        except (SupervisorError, WaitTimeout):
            return

    def _look(self, topics: Sequence[str] | None, timeout_s: float) -> ClusterState | None:
        nodes = self.status()
        quorum = health.active_controller(nodes, timeout_s)
        view = health.most_current_view(nodes, quorum, topics, timeout_s)
        return health.cluster_state(view, quorum) if view else None

    def _look_at_all(self) -> tuple[ClusterState | None, str]:
        """Return the state of a whole cluster, or `None` and what it lacks."""
        reports = self.reports()
        raise_for_failed_nodes(self._folder, reports)
        nodes = [report.status for report in reports]
        quorum = health.active_controller(nodes, _ANSWER_TIMEOUT_S)
        running = [node for node in nodes if node.state == "running" and node.is_broker]
        seen = (
            {node.node_id: health.query_broker(node, None, _ANSWER_TIMEOUT_S) for node in running}
            if quorum
            else {}
        )
        heartbeat_s = broker_heartbeat_interval_ms(self._handle.shared_settings) / 1000
        impaired = ", ".join(
            self.active_impairments()
        )  # a trial that was killed may have left its network so, unseen by who looks past the clients' listeners
        lacking = (
            f"its network is under {impaired}"
            if impaired
            else health.why_not_healthy(reports, quorum, seen, quiet_s=heartbeat_s)
        )
        lacking = lacking or health.why_metadata_unavailable(nodes, _ANSWER_TIMEOUT_S)
        view = next(filter(None, seen.values()), None)  # once it is whole they all see the same
        return (
            (health.cluster_state(view, quorum), "")
            if view and not lacking
            else (None, lacking or "no broker answers")
        )


def provision(
    clusters: Path, cache: Path, name: str, spec: ClusterSpec, holder_grace_s: float = 0
) -> LocalCluster:
    """Make a cluster and return it once it is whole; what fails on the way leaves nothing but logs.

    Args:
        clusters: the folder of all clusters.
        cache: the home's cache folder.
        name: the cluster's, and its folder's; must not exist.
        spec: what to provision.
        holder_grace_s: how long the cluster outlives this process and the later holders.

    Raises:
        InputError: the name is taken, or a broker setting cannot be set.
        MachineError: the jars cannot be had, or no ports are free.
        NodeFailed: a node did not start; the text ends with the last lines of its own log.
        WaitTimeout: it did not become whole.
    """
    return provision_with(clusters, name, spec, launch_spec(cache, spec), holder_grace_s)


def provision_with(
    clusters: Path, name: str, spec: ClusterSpec, launch: LaunchSpec, holder_grace_s: float = 0
) -> LocalCluster:
    """Make a cluster whose nodes are started in a given way; as `provision` otherwise."""
    folder = create_cluster_folder(clusters, name)
    holder = LeaseHolder(ProcessIdentity.own(), holder_grace_s)
    handle = ClusterHandle(name, random_uuid(), spec, launch, shared_properties(spec), (holder,))
    handle.write(folder)
    supervisor = start_supervisor(folder)
    try:
        cluster = LocalCluster(folder, await_supervisor(folder, supervisor), supervisor)
        cluster.wait_until_healthy(_PROVISION_TIMEOUT_S)
    except BaseException:
        LocalCluster(folder, handle, supervisor).destroy()
        raise
    return cluster


def attach(folder: Path, holder_grace_s: float = 0) -> LocalCluster:
    """Return a cluster that another process provisioned, and hold it from now on.

    Raises:
        SupervisorError: there is none, or its supervisor has ended.
    """
    handle = read_handle(folder)
    own = ProcessIdentity.own()
    send_request(
        folder,
        SupervisorRequest(
            "lease", pid=own.pid, start_ticks=own.start_ticks, grace_s=holder_grace_s
        ),
    )
    return LocalCluster(folder, handle)


def destroy(folder: Path) -> None:
    """Destroy the cluster of a folder, whoever made it and whatever still lives of it.

    Raises:
        SupervisorError: there is no cluster's handle.
    """
    LocalCluster(folder, read_handle(folder)).destroy()
