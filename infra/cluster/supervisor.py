"""The supervisor: the process that owns a cluster, one per cluster, detached from the run.

Run as `python -m ackbench.infra.cluster.supervisor <cluster folder>`. It is the parent of every
node, so the kernel kills the nodes when it ends (PR_SET_PDEATHSIG). It serves the requests of
`infra.cluster.supervisor_protocol` on its socket, and keeps the cluster's handle on disk. It ends,
with all nodes, when no process holds the cluster any more, or on SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from ackbench.infra.cluster.capabilities import Capability, missing_capability
from ackbench.infra.cluster.handle import ClusterHandle, LeaseHolder, read_handle
from ackbench.infra.cluster.lease import Lease
from ackbench.infra.cluster.node import Node, node_folder
from ackbench.infra.cluster.supervisor_protocol import (
    SOCKET,
    CountsRequest,
    DestroyRequest,
    DiskRequest,
    HealRequest,
    ImpairRequest,
    LeaseRequest,
    NodeReport,
    NodeRequest,
    ReportRequest,
    SupervisorReply,
    SupervisorRequest,
    decode_request,
    encode,
    socket_address,
)
from ackbench.infra.disk.folder import Disk, FolderDisk
from ackbench.infra.disk.image import ImageDisk
from ackbench.infra.errors import AckbenchError, MachineError, SupervisorError
from ackbench.infra.jvm.runtime import java_environment
from ackbench.infra.kafka.broker_settings import server_properties
from ackbench.infra.kafka.kraft import NodeAddress, properties_text
from ackbench.infra.kafka.secrets import provide_references
from ackbench.infra.kafka.spec import DiskKind, NodeStatus
from ackbench.infra.kafka.storage import copy_formatted
from ackbench.infra.kafka.zookeeper import MYID_FILE, PROPERTIES_FILE, zookeeper_properties
from ackbench.infra.machine.home import keep_files_private
from ackbench.infra.network import network_for
from ackbench.infra.network.failures import LoopFailures
from ackbench.infra.network.impairment import ImpairmentCounts
from ackbench.infra.process.processes import ProcessIdentity

_LISTENERS_PER_NODE: Final = 3
"""Client, replication, controller."""
_log = logging.getLogger("supervisor")


class Supervisor:
    """The nodes, lease and handle of one cluster; all of it runs on one event loop."""

    def __init__(self, folder: Path, handle: ClusterHandle) -> None:
        """Make the network, the disks and each node's folder; no process is started yet."""
        self._folder = folder
        self._handle = replace(handle, supervisor=ProcessIdentity.own())
        self._network = network_for(
            handle.spec.network, len(handle.spec.roles), _LISTENERS_PER_NODE, handle.cluster_id
        )
        self._disk = disk_for(handle.spec.disk)
        self._nodes = {address.node_id: self._make_node(address) for address in self._addresses()}
        self._lease = Lease(on_expired=self._on_lease_expired, on_change=self._write_handle)
        self._shutdown = asyncio.Event()
        self._failures = LoopFailures("a relay or the supervisor")

    async def run(self) -> None:
        """Start the nodes and serve requests until the end, then destroy the cluster.

        The end is a `destroy` request, the expiry of the lease, or a signal.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._shutdown.set)
        loop.set_exception_handler(self._failures.note)
        for holder in self._handle.holders:
            self._lease.take(holder)
        try:
            await self._network.start()
            await self._serve()
        finally:
            await self._destroy()

    async def _serve(self) -> None:
        for node in self._nodes.values():
            node.start()
        self._write_handle()
        with socket_address(self._folder) as address:
            server = await asyncio.start_unix_server(self._serve_connection, address)
        _log.info("nodes %s are running, the socket is open", sorted(self._nodes))
        await self._shutdown.wait()
        server.close()

    async def _destroy(self) -> None:
        """Kill every node and remove the data and the network; the logs stay.

        The nodes need no clean shutdown, because their data are removed. What cannot be removed
        does not keep the rest from being removed.
        """
        self._lease.close()
        with ExitStack() as cleanup:
            cleanup.callback(self._network.close)
            for node in self._nodes.values():
                cleanup.callback(self._disk.remove, node.folder)
            for node in self._nodes.values():
                await node.end()
        (self._folder / SOCKET).unlink(missing_ok=True)
        self._handle = replace(self._handle, supervisor=None)
        try:
            self._write_handle()
        except OSError as error:  # a full disk: `ackbench clean` finds that no process is left
            _log.warning("the handle cannot be written: %s", error)
        _log.info("all nodes have ended, their data are removed")

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the one request of a connection."""
        try:
            writer.write(encode(await self._answer(await reader.readline())))
            await writer.drain()
        except ConnectionError as error:
            _log.info("a client disconnected before its reply: %s", error)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> SupervisorReply:
        try:
            request = decode_request(line)
            if not isinstance(request, ReportRequest):
                _log.info("%s", request)
            return await self._handle_request(request)
        except AckbenchError as error:
            _log.warning("refused: %s", error)
            return SupervisorReply(error=str(error), error_type=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - the nodes run on; the requester decides
            _log.exception("%s failed", line)
            return SupervisorReply(
                error=f"the supervisor of {self._folder.name} failed: {error}",
                error_type=SupervisorError.__name__,
            )

    async def _handle_request(self, request: SupervisorRequest) -> SupervisorReply:
        """Carry out a request; write the handle after those that may have changed it."""
        node: NodeStatus | None = None
        match request:
            case ReportRequest():
                active = self._network.active_impairments()
                return SupervisorReply(
                    self._reports(), active_impairments=active, failures=self._failures.so_far
                )
            case ImpairRequest() | CountsRequest() | HealRequest():
                counts = self._handle_network(request)
                return SupervisorReply(self._reports(), impairment_counts=counts)
            case DestroyRequest():
                self._shutdown.set()  # the handle is written when the nodes have ended
                return SupervisorReply(self._reports())
            case LeaseRequest(pid=pid, start_ticks=start_ticks, grace_s=grace_s):
                self._lease.take(LeaseHolder(ProcessIdentity(pid, start_ticks), grace_s))
            case DiskRequest():
                await self._handle_disks(request)
            case NodeRequest():
                node = await self._handle_node(request)
        self._write_handle()
        return SupervisorReply(self._reports(), node)

    async def _handle_node(self, request: NodeRequest) -> NodeStatus:
        """Carry out a node action; return the status before `kill` and `stop`, after the others."""
        node = self._node(request.node_id)
        before = node.status()
        match request.action:
            case "kill":
                await node.kill()
            case "stop":
                await node.stop(request.timeout_s)
            case "pause":
                node.pause()
            case "resume":
                node.resume()
            case "start":
                node.start()
        return before if request.action in {"kill", "stop"} else node.status()

    def _handle_network(
        self, request: ImpairRequest | CountsRequest | HealRequest
    ) -> tuple[ImpairmentCounts, ...]:
        """Impair or heal; return the counts of the named impairments."""
        if isinstance(request, HealRequest):
            return self._network.heal(request.name)
        if isinstance(request, ImpairRequest):
            self._network.impair(request.name, request.impairments)
        return self._network.impairment_counts(request.name)

    async def _handle_disks(self, request: DiskRequest) -> None:
        """Carry out a disk action on the disks of the named nodes."""
        nodes = [self._node(node_id) for node_id in request.node_ids]
        match request.action:
            case "lose_power":
                await lose_power(self._disk, nodes)
            case "shut_down":
                _for_each(nodes, self._disk.shut_down)
            case "bring_back":
                _for_each(nodes, self._disk.bring_back)
            case "replace":
                self._replace_disks(nodes)
            case "limit":
                _for_each(nodes, lambda folder: self._disk.limit(folder, request.write_bytes_per_s))

    def _replace_disks(self, nodes: Sequence[Node]) -> None:
        """Give stopped nodes empty disks, formatted as at their first start."""
        for node in nodes:
            if node.state != "stopped":
                raise SupervisorError(
                    f"cannot replace the disk of node {node.address.node_id}: it is {node.state}; "
                    "stop the node first"
                )
            self._disk.remove(node.folder)
            self._prepare(node.address, node.folder)

    def _node(self, node_id: int) -> Node:
        node = self._nodes.get(node_id)
        if node is None:
            raise SupervisorError(f"there is no node {node_id}: there are {sorted(self._nodes)}")
        return node

    def _on_lease_expired(self) -> None:
        _log.info("the lease has expired: no process holds the cluster any more")
        self._shutdown.set()

    def _reports(self) -> tuple[NodeReport, ...]:
        return tuple(node.report() for node in self._nodes.values())

    def _write_handle(self) -> None:
        self._handle = replace(
            self._handle,
            holders=self._lease.holders,
            lease_ends_s=self._lease.ends_s,
            nodes=tuple(node.status() for node in self._nodes.values()),
        )
        self._handle.write(self._folder)

    def _addresses(self) -> tuple[NodeAddress, ...]:
        listeners = zip(self._network.listen_addresses(), self._handle.spec.roles, strict=True)
        return tuple(
            NodeAddress.of(node_id, place, role)
            for node_id, (place, role) in enumerate(listeners, start=1)
        )

    def _make_node(self, address: NodeAddress) -> Node:
        """Make a node's folder with its disk and its settings."""
        command = self._prepare(address, node_folder(self._folder, address.node_id))
        return Node(
            address,
            self._folder,
            self._network.launch_command(address.node_id - 1, command),
            java_environment(),
        )

    def _prepare(self, address: NodeAddress, folder: Path) -> tuple[str, ...]:
        data = self._disk.make(folder)
        return prepare_node(self._handle, address, self._addresses(), folder, data)


def prepare_node(
    handle: ClusterHandle,
    node: NodeAddress,
    members: Sequence[NodeAddress],
    folder: Path,
    data: Path,
) -> tuple[str, ...]:
    """Write a node's settings and the initial content of its data folder.

    Args:
        handle: the cluster's.
        node: the node.
        members: all nodes of the cluster.
        folder: the node's folder, in which its process runs.
        data: its data folder, empty.

    Returns:
        The command that starts the node's process.

    Raises:
        InputError: a requested setting follows from the node's identity and cannot be overridden,
            or an environment variable that one refers to is not set.
        HarnessError: the formatted log folder has an unknown content.
    """
    if node.role == "zookeeper":
        (folder / PROPERTIES_FILE).write_text(properties_text(zookeeper_properties(node, members)))
        (data / MYID_FILE).write_text(f"{node.node_id}\n")
        return handle.launch.zookeeper
    if handle.spec.coordination == "kraft":
        copy_formatted(Path(handle.launch.formatted), data, node.node_id, handle.cluster_id)
    (folder / "server.properties").write_text(
        properties_text(provide_references(server_properties(node, members, handle.spec)))
    )
    return handle.launch.command


async def lose_power(disk: Disk, nodes: Sequence[Node]) -> None:
    """Cut the power of nodes and their disks at once, and mount the disks again.

    The nodes are left stopped. The order matters. First all processes are paused: from then on no
    process learns of a record, and none notices that the disks fail. Then all disks are shut down,
    then all processes are killed. In the opposite order the kernel would have time to write back
    what a crashed process left, or a disk would fail under a process that still answers. One node
    after the other would let the later nodes continue without the earlier ones.

    Raises:
        SupervisorError: a disk cannot lose power, or cannot be mounted again.
        WaitTimeout: a process did not stop on SIGSTOP, or did not end on SIGKILL.
    """
    running = [node for node in nodes if node.state != "stopped"]
    for node in running:
        node.pause()
    for node in nodes:
        disk.shut_down(node.folder)
    for node in running:
        await node.end()
    for node in nodes:
        disk.bring_back(node.folder)


def disk_for(kind: DiskKind) -> Disk:
    """Return the kind of disk that a cluster requests; nothing is made yet.

    Raises:
        MachineError: this machine does not support it.
    """
    if kind == "folder":
        return FolderDisk()
    missing = missing_capability(Capability.DISK_IMAGES)
    if missing:
        raise MachineError(
            f"this machine does not support {Capability.DISK_IMAGES}: {missing.reason}; "
            f"{missing.remedy}"
        )
    return ImageDisk()


def _for_each(nodes: Sequence[Node], action: Callable[[Path], None]) -> None:
    for node in nodes:
        action(node.folder)


async def _run(folder: Path) -> None:
    await Supervisor(folder, read_handle(folder)).run()


def main() -> None:
    """Own the cluster in the folder that the command line names, until it is destroyed."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout
    )
    keep_files_private()
    try:
        asyncio.run(_run(Path(sys.argv[1])))
    except AckbenchError as error:
        _log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
