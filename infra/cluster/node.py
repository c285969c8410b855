"""One node's process, as its parent, the supervisor, handles it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from ackbench.infra.cluster.supervisor_protocol import NodeReport
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.kafka.kraft import NodeAddress
from ackbench.infra.kafka.spec import NodeState, NodeStatus, node_name
from ackbench.infra.process.exits import ProcessExit, describe_exit, is_explained
from ackbench.infra.process.processes import (
    ProcessIdentity,
    spawn_dying_with_parent,
    wait_until_stopped,
)

NODE_LOG: Final = "node.log"
_SIGNAL_TIMEOUT_S: Final = 10.0
_log = logging.getLogger("supervisor")


def node_folder(cluster: Path, node_id: int) -> Path:
    """Return the folder of a node's settings, data and log.

    Args:
        cluster: the cluster's folder.
        node_id: the node.
    """
    return cluster / "nodes" / str(node_id)


class Node:
    """A node whose process can be started again and again.

    Only its parent reaps the process, so its pid is not reused before that.
    """

    def __init__(
        self,
        address: NodeAddress,
        cluster: Path,
        command: tuple[str, ...],
        environment: dict[str, str],
    ) -> None:
        """Store how to start the process; nothing runs yet.

        Args:
            address: the node's id, role and listeners.
            cluster: the cluster's folder.
            command: starts the process in the node's folder.
            environment: its environment variables.
        """
        self.address = address
        self.folder = node_folder(cluster, address.node_id)
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._ended = asyncio.Event()
        self._state: NodeState = "stopped"
        self._changed_s = time.monotonic()
        self._pidfd = -1
        self._sent: set[signal.Signals] = set()
        """The signals that were sent to the current process."""
        self._exits: list[ProcessExit] = []

    @property
    def state(self) -> NodeState:
        """Running, paused or stopped."""
        return self._state

    @property
    def exits(self) -> tuple[ProcessExit, ...]:
        """Every exit of its process so far, requested or not."""
        return tuple(self._exits)

    def status(self) -> NodeStatus:
        """Return the node's current state, process and addresses."""
        address, identity = self.address, self._identity
        return NodeStatus(
            node_id=address.node_id,
            state=self._state,
            pid=identity.pid if identity else None,
            start_ticks=identity.start_ticks if identity else None,
            client_port=address.advertised[0],
            replication_port=address.replication_port,
            controller_port=address.controller_port,
            host=address.host,
            role=address.role,
        )

    def report(self) -> NodeReport:
        """Return the node's status, how long it has not changed, and its unexpected exits."""
        return NodeReport(
            self.status(),
            unchanged_s=time.monotonic() - self._changed_s,
            exited_unexpectedly=self._state == "stopped" and self._last_exit_unexpected(),
            exit_status=self._process.returncode if self._process else None,
            unexpected_exits=tuple(one for one in self._exits if not one.requested),
        )

    def start(self) -> None:
        """Start the process; has no effect on a node that runs or is paused."""
        if self._state != "stopped":
            return
        with (self.folder / NODE_LOG).open("ab") as log:
            self._process = spawn_dying_with_parent(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._identity = ProcessIdentity.of(self._process.pid)
        self._ended, self._sent = asyncio.Event(), set()
        self._set_state("running")
        self._pidfd = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def pause(self) -> None:
        """Send SIGSTOP and wait until every thread of the process is stopped.

        Raises:
            SupervisorError: the node is stopped.
            WaitTimeout: a thread did not stop.
        """
        process = self._signal(signal.SIGSTOP, "pause")
        wait_until_stopped(process.pid, f"node {self.address.node_id}")
        self._reap_if_ended()
        self._require_process("pause")
        self._set_state("paused")

    def resume(self) -> None:
        """Send SIGCONT; has no effect on a node that is not paused."""
        if self._state == "paused" and self._process is not None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)
            self._set_state("running")

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process.

        Raises:
            SupervisorError: the node is stopped, or its process has ended by itself.
            WaitTimeout: the kernel did not end the process.
        """
        self._signal(signal.SIGKILL, "kill")
        await self.wait_ended(_SIGNAL_TIMEOUT_S)

    async def end(self) -> None:
        """Kill the node unless it is stopped, or its process has ended by itself.

        Raises:
            WaitTimeout: as `kill`.
        """
        self._reap_if_ended()
        if self._state != "stopped":
            await self.kill()

    async def stop(self, timeout_s: float) -> None:
        """Send SIGTERM and wait for the clean shutdown; has no effect on a stopped node.

        Raises:
            SupervisorError: its process has ended by itself, which was not known yet.
            WaitTimeout: the process did not exit in time.
        """
        if self._state != "stopped":
            self._signal(signal.SIGTERM, "stop")
            self.resume()
            await self.wait_ended(timeout_s)

    async def wait_ended(self, timeout_s: float) -> None:
        """Wait for the end of the process.

        Raises:
            WaitTimeout: it did not exit in time.
        """
        try:
            await asyncio.wait_for(self._ended.wait(), timeout_s)
        except TimeoutError as error:
            raise WaitTimeout(
                f"waited {timeout_s:g} s for node {self.address.node_id} to exit; "
                "its process is still running"
            ) from error

    def _signal(self, number: signal.Signals, action: str) -> subprocess.Popen[bytes]:
        """Send a signal to the process, and remember it for the reason of the exit.

        A process that has ended just before is reaped first: this signal does not explain its exit.
        """
        self._reap_if_ended()
        process = self._require_process(action)
        self._sent.add(number)
        signal.pidfd_send_signal(self._pidfd, number)
        return process

    def _require_process(self, action: str) -> subprocess.Popen[bytes]:
        if self._state == "stopped" or self._process is None:
            since = f"; {self._exits[-1]} by itself" if self._last_exit_unexpected() else ""
            raise SupervisorError(
                f"cannot {action} node {self.address.node_id}: it is stopped{since}"
            )
        return self._process

    def _last_exit_unexpected(self) -> bool:
        return bool(self._exits) and not self._exits[-1].requested

    def _reap_if_ended(self) -> None:
        """Note an end that the event loop has not noticed yet."""
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if self._pidfd >= 0 and os.waitid(os.P_PIDFD, self._pidfd, ended) is not None:
            self._reap()

    def _reap(self) -> None:
        """Note the end of the process; the event loop calls this when the pidfd is readable."""
        if self._process is None:  # every pidfd is of a process
            raise AssertionError(self._pidfd)
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd, self._identity = -1, None
        status = self._process.wait()
        self._exits.append(
            ProcessExit(
                node_name(self.address.node_id, self.address.role),
                number=len(self._exits) + 1,
                at_s=time.monotonic(),
                how=describe_exit(status),
                requested=is_explained(status, self._sent),
                node_id=self.address.node_id,
                status=status,
            )
        )
        how = "unexpectedly" if self._last_exit_unexpected() else "as requested"
        _log.info("%s, %s", self._exits[-1], how)
        self._set_state("stopped")
        self._ended.set()

    def _set_state(self, state: NodeState) -> None:
        self._state, self._changed_s = state, time.monotonic()
