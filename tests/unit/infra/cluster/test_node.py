"""Every exit of a node's process: when, how, and whether it was requested. Small processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ackbench.infra.cluster.node import NODE_LOG, Node, node_folder
from ackbench.infra.cluster.supervisor import lose_power
from ackbench.infra.disk.folder import FolderDisk
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.kafka.kraft import NodeAddress
from ackbench.infra.process.exits import ProcessExit
from ackbench.infra.process.processes import read_stat
from ackbench.infra.process.waiting import wait_until

WAITS = ("sleep", "600")
_ON_SIGTERM = (
    "import signal, sys; signal.signal(signal.SIGTERM, {}); print('ready', flush=True);"
    " signal.pause(); signal.pause()"
)
IGNORES_SIGTERM = (sys.executable, "-c", _ON_SIGTERM.format("signal.SIG_IGN"))
ENDS_LIKE_A_JVM = (sys.executable, "-c", _ON_SIGTERM.format("lambda *_: sys.exit(143)"))


class NoDisk(FolderDisk):
    """A disk that loses power without an effect."""

    def shut_down(self, folder: Path) -> None:
        """Do nothing."""

    def bring_back(self, folder: Path) -> None:
        """Do nothing."""


def observe(
    folder: Path, command: tuple[str, ...], act: Callable[[Node], Awaitable[None]]
) -> tuple[ProcessExit, ...]:
    """Run a node with this command, act on it, and return all exits of its process."""

    async def run() -> tuple[ProcessExit, ...]:
        node_folder(folder, 3).mkdir(parents=True)
        node = Node(NodeAddress(3, 1, 2, 3), folder, command, dict(os.environ))
        node.start()
        try:
            await act(node)
        finally:
            await node.end()
        return node.exits

    return asyncio.run(run())


def pid_of(node: Node) -> int:
    """Return the pid of a node's process, which runs."""
    pid = node.status().pid
    assert pid is not None
    return pid


def crash(node: Node) -> None:
    """Kill a node's process as another program would; return when it is a zombie."""
    pid = pid_of(node)
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: (stat := read_stat(Path("/proc", str(pid)))) is not None and stat.has_ended,
        awaiting="a zombie",
        timeout_s=10,
    )


async def until_stopped(node: Node) -> None:
    """Let the event loop run until the node's exit is noted."""
    await node.wait_ended(10)


def wait_ready(node: Node) -> None:
    """Wait until the node's program has printed a line."""
    log = node.folder / NODE_LOG
    wait_until(lambda: "ready" in log.read_text(), awaiting="the program", timeout_s=10)


def summary(exits: tuple[ProcessExit, ...]) -> list[tuple[int, str, bool]]:
    """Return number, kind and origin of each exit."""
    return [(one.number, one.how, one.requested) for one in exits]


def test_a_crash_that_was_requested_is_told_from_one_that_was_not(tmp_path: Path) -> None:
    """Both are by SIGKILL; each start of the process can end once, and all ends are kept."""

    async def act(node: Node) -> None:
        await node.kill()
        node.start()
        crash(node)
        await until_stopped(node)
        node.start()
        await node.kill()

    assert summary(observe(tmp_path, WAITS, act)) == [
        (1, "exited by SIGKILL", True),
        (2, "exited by SIGKILL", False),
        (3, "exited by SIGKILL", True),
    ]


def test_an_exit_of_its_own_has_its_status(tmp_path: Path) -> None:
    """No signal was sent at all; the exit names the node, and its time is that of the end."""
    (only,) = observe(tmp_path, ("sh", "-c", "exit 3"), until_stopped)
    assert (only.process, only.node_id, only.how) == ("node 3", 3, "exited with status 3")
    assert not only.requested


def test_a_node_that_died_a_moment_before_its_crash_was_requested_died_of_something_else(
    tmp_path: Path,
) -> None:
    """The event loop has not noticed yet; the request is refused, as for every stopped node."""

    async def act(node: Node) -> None:
        crash(node)
        with pytest.raises(SupervisorError, match="cannot kill node 3: it is stopped"):
            await node.kill()

    assert summary(observe(tmp_path, WAITS, act)) == [(1, "exited by SIGKILL", False)]


def test_a_node_that_died_a_moment_before_its_pause_is_not_paused(tmp_path: Path) -> None:
    """A zombie has no thread that runs either."""

    async def act(node: Node) -> None:
        crash(node)
        with pytest.raises(SupervisorError, match="cannot pause node 3: it is stopped"):
            node.pause()
        assert node.state == "stopped"

    assert summary(observe(tmp_path, WAITS, act)) == [(1, "exited by SIGKILL", False)]


def test_a_clean_shutdown_that_was_requested_is_requested_whatever_its_status(
    tmp_path: Path,
) -> None:
    """A JVM exits with 143 on SIGTERM, other programs die of it."""

    async def act(node: Node) -> None:
        wait_ready(node)
        await node.stop(10)

    assert summary(observe(tmp_path, ENDS_LIKE_A_JVM, act)) == [
        (1, "exited with status 143 (128 + SIGTERM)", True)
    ]


def test_a_sigkill_during_a_clean_shutdown_was_not_requested(tmp_path: Path) -> None:
    """Its own signal explains an exit, another one does not."""

    async def act(node: Node) -> None:
        wait_ready(node)
        with pytest.raises(WaitTimeout):
            await node.stop(0.05)
        crash(node)
        await until_stopped(node)

    assert summary(observe(tmp_path, IGNORES_SIGTERM, act)) == [(1, "exited by SIGKILL", False)]


def test_a_sigkill_after_a_clean_shutdown_that_took_too_long_was_requested(tmp_path: Path) -> None:
    """The fault sends both signals."""

    async def act(node: Node) -> None:
        wait_ready(node)
        with pytest.raises(WaitTimeout):
            await node.stop(0.05)
        await node.kill()

    assert summary(observe(tmp_path, IGNORES_SIGTERM, act)) == [(1, "exited by SIGKILL", True)]


def test_a_sigterm_of_another_program_was_not_requested(tmp_path: Path) -> None:
    """The status is the same as that of a clean shutdown."""

    async def act(node: Node) -> None:
        wait_ready(node)
        os.kill(pid_of(node), signal.SIGTERM)
        await until_stopped(node)

    assert summary(observe(tmp_path, ENDS_LIKE_A_JVM, act)) == [
        (1, "exited with status 143 (128 + SIGTERM)", False)
    ]


def test_a_paused_node_that_is_killed_by_another_program_died_of_something_else(
    tmp_path: Path,
) -> None:
    """SIGSTOP and SIGCONT are signals of the supervisor, and explain no exit."""

    async def act(node: Node) -> None:
        node.pause()
        crash(node)
        await until_stopped(node)

    assert summary(observe(tmp_path, WAITS, act)) == [(1, "exited by SIGKILL", False)]


def test_a_power_loss_is_requested(tmp_path: Path) -> None:
    """The supervisor pauses and kills the nodes itself."""

    async def act(node: Node) -> None:
        await lose_power(NoDisk(), [node])

    assert summary(observe(tmp_path, WAITS, act)) == [(1, "exited by SIGKILL", True)]


def test_a_report_has_the_exits_that_were_not_requested(tmp_path: Path) -> None:
    """Those that were are no news to whoever requested them."""
    reports = []

    async def act(node: Node) -> None:
        await node.kill()
        node.start()
        crash(node)
        await until_stopped(node)
        reports.append(node.report())
        node.start()
        reports.append(node.report())

    exits = observe(tmp_path, WAITS, act)
    stopped, running = reports
    assert stopped.unexpected_exits == running.unexpected_exits == (exits[1],)
    assert (stopped.exited_unexpectedly, running.exited_unexpectedly) == (True, False)
