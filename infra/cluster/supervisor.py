"""The process that owns a cluster: `python -m infra.cluster.supervisor <cluster folder>`, detached, one a cluster.

It is the parent of every node, and the kernel kills them when it ends (PR_SET_PDEATHSIG). It does to them what it is asked over
its socket, keeps the handle on disk, and ends with them when nobody holds the cluster any more, or on SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from infra.cluster.capabilities import Capability, missing_capability
from infra.cluster.handle import ClusterHandle, LeaseHolder, read_handle
from infra.cluster.lease import Lease
from infra.cluster.node import Node, node_folder
from infra.cluster.supervisor_protocol import (
    SOCKET,
    NodeReport,
    SupervisorReply,
    SupervisorRequest,
    decode_request,
    encode,
    socket_address,
)
from infra.disk.folder import Disk, FolderDisk
from infra.disk.image import ImageDisk
from infra.errors import AckbenchError, HarnessError, MachineError, SupervisorError
from infra.jvm.runtime import java_environment
from infra.kafka.broker_settings import server_properties
from infra.kafka.kraft import NodeAddress, properties_text
from infra.kafka.spec import DiskKind, NodeStatus
from infra.kafka.storage import copy_formatted
from infra.kafka.zookeeper import MYID_FILE, PROPERTIES_FILE, zookeeper_properties
from infra.network import network_for
from infra.network.impairment import ImpairmentCounts
from infra.process.processes import ProcessIdentity

# ---------- A member's folder before its first start: what its program reads there, and how that program is started.


def prepare_node(
    handle: ClusterHandle,
    node: NodeAddress,
    members: Sequence[NodeAddress],
    folder: Path,
    data: Path,
) -> tuple[str, ...]:
    """Write a member's settings and what its data folder begins with; return the command that starts it.

    Args:
        handle: the cluster's.
        node: the member.
        members: all of them.
        folder: its own, in which it runs.
        data: its data folder, empty.

    Raises:
        InputError: a setting was asked for that follows from who the node is.
        HarnessError: the formatted folder is not as it was known.
    """
    if node.role == "zookeeper":
        (folder / PROPERTIES_FILE).write_text(properties_text(zookeeper_properties(node, members)))
        (data / MYID_FILE).write_text(f"{node.node_id}\n")
        return handle.launch.zookeeper
    if handle.spec.coordination == "kraft":
        copy_formatted(Path(handle.launch.formatted), data, node.node_id, handle.cluster_id)
    (folder / "server.properties").write_text(
        properties_text(server_properties(node, members, handle.spec))
    )
    return handle.launch.command


# ---------- Nodes that lose power: their processes and their disks end at one moment.


async def lose_power(disk: Disk, nodes: Sequence[Node]) -> None:
    """Take power from nodes, and give it back to their disks; the nodes are left stopped.

    First every process stands still: from then on nobody hears of a record, and nobody notices that disks go. Then every disk ends, then
    every process. The other way round would be a crash with time for the kernel to write, or a disk that fails under a process that still
    answers; one node after the other would let the later ones go on without the earlier.

    Raises:
        SupervisorError: a disk cannot lose power, or cannot be brought back.
        WaitTimeout: a process did not stand still, or did not end.
    """
    running = [node for node in nodes if node.state != "stopped"]
    for node in running:
        node.pause()
    for node in nodes:
        disk.shut_down(node.folder)
    for node in running:
        await node.kill()
    for node in nodes:
        disk.bring_back(node.folder)


_LISTENERS: Final = 3
"""Of a node: client, replication, controller."""
_log = logging.getLogger("supervisor")


class Supervisor:
    """One cluster's nodes, lease and handle. Everything happens on one event loop, in one thread."""

    def __init__(self, folder: Path, handle: ClusterHandle) -> None:
        """Make the network, the disks and each node's folder; nothing runs yet."""
        self._folder = folder
        self._handle = replace(handle, supervisor=ProcessIdentity.own())
        self._network, self._disk = (
            network_for(handle.spec.network, len(handle.spec.roles), _LISTENERS, handle.cluster_id),
            disk_for(handle.spec.disk),
        )
        self._nodes = {address.node_id: self._prepared(address) for address in self._addresses()}
        self._lease = Lease(on_expired=self._expire, on_change=self._write_handle)
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Start the nodes, serve until told to end or left alone, then end them and remove their data."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._over.set)
        for holder in self._handle.holders:
            self._lease.take(holder)
        try:
            await self._network.open()
            await self._serve()
        finally:
            await self._destroy()

    async def _serve(self) -> None:
        for node in self._nodes.values():
            node.start()
        self._write_handle()
        with socket_address(self._folder) as address:
            server = await asyncio.start_unix_server(self._converse, address)
        _log.info("nodes %s run, the socket is open", sorted(self._nodes))
        await self._over.wait()
        server.close()

    async def _destroy(self) -> None:
        """End every node, by force: its data goes with it. The logs stay. What cannot be undone leaves nothing else undone."""
        self._lease.close()
        with ExitStack() as undoing:
            undoing.callback(self._network.end)
            for node in self._nodes.values():
                undoing.callback(self._disk.remove, node.folder)
            for node in self._nodes.values():
                if node.state != "stopped":
                    await node.kill()
        (self._folder / SOCKET).unlink(missing_ok=True)
        self._handle = replace(self._handle, supervisor=None)
        self._write_handle()
        _log.info("every node has ended, their data is removed")

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        try:
            writer.write(encode(await self._answer(await reader.readline())))
            await writer.drain()
        except ConnectionError as error:
            _log.info("a caller went away: %s", error)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> SupervisorReply:
        try:
            request = decode_request(line)
            if request.verb != "status":
                _log.info("%s", request)
            return await self._do(request)
        except HarnessError as error:
            _log.warning("refused: %s", error)
            return SupervisorReply(error=str(error), kind=type(error).__name__)

    async def _do(self, request: SupervisorRequest) -> SupervisorReply:
        """Carry out a request; only what changes something is written to disk."""
        told: NodeStatus | None = None
        match request.verb:
            case "status":
                return SupervisorReply(
                    self._reports(), active_impairments=self._network.active_impairments()
                )
            case "lease":
                self._take_lease(request)
            case "disk":
                await self._handle_disks(request)
            case "destroy":
                self._over.set()
            case "impair" | "impairment_counts" | "heal":
                return SupervisorReply(
                    self._reports(), impairment_counts=self._handle_network(request)
                )
            case "kill" | "pause" | "resume" | "stop" | "start":
                told = await self._handle_node(request)
        self._write_handle()
        return SupervisorReply(self._reports(), told)

    async def _handle_node(self, request: SupervisorRequest) -> NodeStatus:
        """Do something to a node; return what it was before its end, or is after anything else."""
        node = self._node(request.node_id)
        before = node.status()
        match request.verb:
            case "kill":
                await node.kill()
            case "stop":
                await node.stop(request.timeout_s)
            case "pause":
                node.pause()
            case "resume":
                node.resume()
            case _:
                node.start()
        return before if request.verb in {"kill", "stop"} else node.status()

    def _handle_network(self, request: SupervisorRequest) -> tuple[ImpairmentCounts, ...]:
        """Do something to the network; return what was caught."""
        name = request.name or ""
        match request.verb:
            case "impair":
                self._network.impair(name, request.impairments)
            case "heal":
                return self._network.heal(name)
        return self._network.impairment_counts(name)

    async def _handle_disks(self, request: SupervisorRequest) -> None:
        """Do something to the disks of nodes."""
        nodes = [self._node(node_id) for node_id in request.node_ids]
        match request.deed:
            case "lose_power":
                await lose_power(self._disk, nodes)
            case "take_away":
                _each(nodes, self._disk.shut_down)
            case "bring_back":
                _each(nodes, self._disk.bring_back)
            case "replace":
                self._replace_disks(nodes)
            case "limit":
                _each(nodes, lambda folder: self._disk.limit(folder, request.write_bytes_per_s))
            case _:
                raise SupervisorError("it was not said what to do to the disks")

    def _replace_disks(self, nodes: Sequence[Node]) -> None:
        """Give stopped nodes empty disks, formatted as at their first start."""
        for node in nodes:
            if node.state != "stopped":
                raise SupervisorError(
                    f"node {node.address.node_id} is {node.state}: only a stopped node's disk can be replaced"
                )
            self._disk.remove(node.folder)
            prepare_node(
                self._handle,
                node.address,
                self._addresses(),
                node.folder,
                self._disk.make(node.folder),
            )

    def _node(self, node_id: int | None) -> Node:
        node = self._nodes.get(-1 if node_id is None else node_id)
        if node is None:
            raise SupervisorError(f"there is no node {node_id}: there are {sorted(self._nodes)}")
        return node

    def _take_lease(self, request: SupervisorRequest) -> None:
        if request.pid is None or request.start_ticks is None:
            raise SupervisorError("a lease needs a pid and its start time")
        self._lease.take(
            LeaseHolder(ProcessIdentity(request.pid, request.start_ticks), request.grace_s)
        )

    def _expire(self) -> None:
        _log.info("nobody holds the cluster any more")
        self._over.set()

    def _reports(self) -> tuple[NodeReport, ...]:
        return tuple(node.report() for node in self._nodes.values())

    def _write_handle(self) -> None:
        self._handle = replace(
            self._handle,
            holders=self._lease.holders,
            nodes=tuple(node.status() for node in self._nodes.values()),
        )
        self._handle.write(self._folder)

    def _addresses(self) -> tuple[NodeAddress, ...]:
        members = zip(self._network.places(), self._handle.spec.roles, strict=True)
        return tuple(
            NodeAddress.of(number, place, role)
            for number, (place, role) in enumerate(members, start=1)
        )

    def _prepared(self, address: NodeAddress) -> Node:
        """Make a node's folder, with its settings and the begin of its data."""
        folder = node_folder(self._folder, address.node_id)
        command = prepare_node(
            self._handle, address, self._addresses(), folder, self._disk.make(folder)
        )
        return Node(
            address,
            self._folder,
            self._network.command(address.node_id - 1, command),
            java_environment(),
        )


def disk_for(kind: DiskKind) -> Disk:
    """Return what a cluster asks for, not made yet.

    Raises:
        MachineError: this machine cannot have it.
    """
    if kind == "folder":
        return FolderDisk()
    lack = missing_capability(Capability.DISK_IMAGES)
    if lack:
        raise MachineError(
            f"there are no {Capability.DISK_IMAGES} here: {lack.reason}; {lack.remedy}"
        )
    return ImageDisk()


def _each(nodes: Sequence[Node], do: Callable[[Path], None]) -> None:
    for node in nodes:
        do(node.folder)


async def _own(folder: Path) -> None:
    await Supervisor(folder, read_handle(folder)).run()


def main() -> None:
    """Own the cluster whose folder is named, until its end."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout
    )
    os.umask(0o077)
    try:
        asyncio.run(_own(Path(sys.argv[1])))
    except AckbenchError as error:
        _log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
