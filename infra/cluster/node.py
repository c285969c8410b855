"""One broker process, as the supervisor that is its parent handles it."""

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
    """Where a node's settings, data and log lie."""
    return cluster / "nodes" / str(node_id)


class Node:
    """A process that may be started again and again. Its parent alone reaps it, so its pid is never another's meanwhile."""

    def __init__(
        self,
        address: NodeAddress,
        cluster: Path,
        command: tuple[str, ...],
        environment: dict[str, str],
    ) -> None:
        """Know how to start it; nothing runs yet."""
        self.address = address
        self.folder = node_folder(cluster, address.node_id)
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._ended = asyncio.Event()
        self._state: NodeState = "stopped"
        self._changed_s = time.monotonic()
        self._end_is_asked = True

    @property
    def state(self) -> NodeState:
        """Running, paused or stopped."""
        return self._state

    def status(self) -> NodeStatus:
        """Return what it is now."""
        pid, ticks = (
            (self._identity.pid, self._identity.start_ticks) if self._identity else (None, None)
        )
        at = self.address
        return NodeStatus(
            at.node_id,
            self._state,
            pid,
            ticks,
            at.clients_port,
            at.replication_port,
            at.controller_port,
            at.host,
            at.role,
        )

    def report(self) -> NodeReport:
        """Return what it is now, and how it came to be so."""
        exit_status = self._process.returncode if self._process else None
        died = self._state == "stopped" and not self._end_is_asked
        return NodeReport(self.status(), time.monotonic() - self._changed_s, died, exit_status)

    def start(self) -> None:
        """Start the process; one that runs is left as it is."""
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
        self._ended, self._end_is_asked = asyncio.Event(), False
        self._become("running")
        pidfd = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(pidfd, self._reap, pidfd)

    def pause(self) -> None:
        """SIGSTOP; return once every thread of it stands.

        Raises:
            SupervisorError: it does not run.
        """
        process = self._running("pause")
        process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: is_stopped(process.pid),
            awaiting=f"node {self.address.node_id} to stand still",
            timeout_s=_SIGNAL_TIMEOUT_S,
            every_s=0.001,
        )
        self._become("paused")

    def resume(self) -> None:
        """SIGCONT; one that is not paused is left as it is."""
        if self._state == "paused" and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._become("running")

    async def kill(self) -> None:
        """SIGKILL; return once the process is gone.

        Raises:
            SupervisorError: it does not run.
            WaitTimeout: the kernel did not end it.
        """
        self._running("kill").kill()
        await self._end(_SIGNAL_TIMEOUT_S)

    async def stop(self, timeout_s: float) -> None:
        """SIGTERM, and wait for its clean end; one that is stopped is left as it is.

        Raises:
            WaitTimeout: it goes on.
        """
        if self._state != "stopped":
            self._running("stop").terminate()
            self.resume()
            await self._end(timeout_s)

    async def _end(self, timeout_s: float) -> None:
        """Wait for the end of a process that was told to end."""
        self._end_is_asked = True
        try:
            await asyncio.wait_for(self._ended.wait(), timeout_s)
        except TimeoutError as error:
            raise WaitTimeout(
                f"waited {timeout_s:g} s for the end of node {self.address.node_id}; it is still there"
            ) from error

    def _running(self, verb: str) -> subprocess.Popen[bytes]:
        if self._state == "stopped" or self._process is None:
            raise SupervisorError(f"cannot {verb} node {self.address.node_id}: it is stopped")
        return self._process

    def _reap(self, pidfd: int) -> None:
        """Called by the event loop when the process has ended."""
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        if self._process is not None:
            status = self._process.wait()
            _log.info(
                "node %s ended with status %s, %s",
                self.address.node_id,
                status,
                "as asked" if self._end_is_asked else "unasked",
            )
        self._identity = None
        self._become("stopped")
        self._ended.set()

    def _become(self, state: NodeState) -> None:
        self._state, self._changed_s = state, time.monotonic()
