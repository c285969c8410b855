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

from infra.cluster.supervisor_protocol import NodeReport
from infra.errors import SupervisorError, WaitTimeout
from infra.kafka.kraft import NodeAddress
from infra.kafka.spec import NodeState, NodeStatus
from infra.process.processes import ProcessIdentity, is_stopped, spawn_dying_with_parent
from infra.process.waiting import wait_until

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
        self._end_requested = True

    @property
    def state(self) -> NodeState:
        """Running, paused or stopped."""
        return self._state

    def status(self) -> NodeStatus:
        """Return the node's current state, process and addresses."""
        address, identity = self.address, self._identity
        return NodeStatus(
            node_id=address.node_id,
            state=self._state,
            pid=identity.pid if identity else None,
            start_ticks=identity.start_ticks if identity else None,
            client_port=address.advertised_client_port,
            replication_port=address.replication_port,
            controller_port=address.controller_port,
            host=address.host,
            role=address.role,
        )

    def report(self) -> NodeReport:
        """Return the node's status, how long it has not changed, and how the process ended."""
        return NodeReport(
            self.status(),
            unchanged_s=time.monotonic() - self._changed_s,
            exited_unexpectedly=self._state == "stopped" and not self._end_requested,
            exit_status=self._process.returncode if self._process else None,
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
        self._ended, self._end_requested = asyncio.Event(), False
        self._set_state("running")
        pidfd = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(pidfd, self._reap, pidfd)

    def pause(self) -> None:
        """Send SIGSTOP and wait until every thread of the process is stopped.

        Raises:
            SupervisorError: the node is stopped.
            WaitTimeout: a thread did not stop.
        """
        process = self._require_process("pause")
        process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: is_stopped(process.pid),
            awaiting=f"all threads of node {self.address.node_id} to stop after SIGSTOP",
            timeout_s=_SIGNAL_TIMEOUT_S,
            every_s=0.001,
        )
        self._set_state("paused")

    def resume(self) -> None:
        """Send SIGCONT; has no effect on a node that is not paused."""
        if self._state == "paused" and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._set_state("running")

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process.

        Raises:
            SupervisorError: the node is stopped.
            WaitTimeout: the kernel did not end the process.
        """
        self._require_process("kill").kill()
        await self._wait_ended(_SIGNAL_TIMEOUT_S)

    async def stop(self, timeout_s: float) -> None:
        """Send SIGTERM and wait for the clean shutdown; has no effect on a stopped node.

        Raises:
            WaitTimeout: the process did not exit in time.
        """
        if self._state != "stopped":
            self._require_process("stop").terminate()
            self.resume()
            await self._wait_ended(timeout_s)

    async def _wait_ended(self, timeout_s: float) -> None:
        """Wait for the end of a process that was signalled to end."""
        self._end_requested = True
        try:
            await asyncio.wait_for(self._ended.wait(), timeout_s)
        except TimeoutError as error:
            raise WaitTimeout(
                f"waited {timeout_s:g} s for node {self.address.node_id} to exit; "
                "its process is still running"
            ) from error

    def _require_process(self, action: str) -> subprocess.Popen[bytes]:
        if self._state == "stopped" or self._process is None:
            raise SupervisorError(f"cannot {action} node {self.address.node_id}: it is stopped")
        return self._process

    def _reap(self, pidfd: int) -> None:
        """Note the end of the process; the event loop calls this when the pidfd is readable."""
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        if self._process is not None:
            exit_status = self._process.wait()
            how = "as requested" if self._end_requested else "unexpectedly"
            _log.info("node %s exited with status %s, %s", self.address.node_id, exit_status, how)
        self._identity = None
        self._set_state("stopped")
        self._ended.set()

    def _set_state(self, state: NodeState) -> None:
        self._state, self._changed_s = state, time.monotonic()
