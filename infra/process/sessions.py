"""Ends sessions: a service together with every process that it forked, also those that outlived it.

A service is started as the leader of its own session (setsid(2)), and what it forks stays in that
session unless it leaves on purpose. The kernel does not reuse the leader's pid while a member of
the session lives, so the leader's pid and start time identify the session.

Run as a process, `infra.process.sessions <pid> <start ticks> <record>`: waits until that
process ends, however it ends, and then ends every session in the record. PR_SET_PDEATHSIG alone
would reach the leaders only, and orphan what they forked.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import REPOSITORY
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity, open_pidfd, read_stat, send_signal
from ackbench.infra.process.waiting import wait_until
from ackbench.infra.start import module_command


def session_members(leader: ProcessIdentity) -> tuple[ProcessIdentity, ...]:
    """Return the living processes of the session that a process leads or led, with the leader."""
    if _pid_was_reused(leader):
        return ()
    return tuple(process for process, session in _processes() if session == leader.pid)


def end_sessions(
    leaders: Iterable[ProcessIdentity], *, grace_s: float | None, timeout_s: float = 10.0
) -> None:
    """End the sessions: SIGTERM to their leaders, then SIGKILL to every process that is left.

    Args:
        leaders: the processes that lead or led the sessions.
        grace_s: how long the leaders have to shut down after SIGTERM; `None`: only SIGKILL is sent.
        timeout_s: how long the kernel may take to end the rest.

    Raises:
        WaitTimeout: a process did not end after SIGKILL.
    """
    sessions = tuple(leaders)
    if grace_s is not None:
        _terminate(sessions, grace_s)

    def all_killed() -> bool:
        return not [
            process for process in _remaining(sessions) if send_signal(process, signal.SIGKILL)
        ]

    wait_until(
        all_killed,
        awaiting="the services to end after SIGKILL",
        timeout_s=timeout_s,
        seen=lambda: _remaining(sessions),
    )


def _terminate(leaders: tuple[ProcessIdentity, ...], grace_s: float) -> None:
    for leader in leaders:
        send_signal(leader, signal.SIGTERM)
    with suppress(HarnessError):
        wait_until(
            lambda: not _remaining(leaders), awaiting="the services to exit", timeout_s=grace_s
        )


def write_session_record(record: Path, leaders: Iterable[ProcessIdentity]) -> None:
    """Store the leaders of the sessions that must be ended, and where they run."""
    content = {
        "machine": asdict(MachineIdentity.own()),
        "leaders": [asdict(leader) for leader in leaders],
    }
    replace_file(record, json.dumps(content), durable=False)


def read_session_record(record: Path) -> tuple[ProcessIdentity, ...]:
    """Return the leaders in a record that run here.

    There are none without a record, and none in that of another container or from before a restart:
    their session ids may be those of other sessions here.
    """
    try:
        content = json.loads(record.read_text())
        if not MachineIdentity(**content["machine"]).is_own:
            return ()
        return tuple(ProcessIdentity(**leader) for leader in content["leaders"])
    except (FileNotFoundError, TypeError):  # `TypeError`: of an earlier version
        return ()


def guard_sessions(record: Path) -> subprocess.Popen[Any]:
    """Start the process that ends the sessions of a record once this process has ended.

    It outlives this one, also if that is killed. The record may be written later.
    """
    own = ProcessIdentity.own()
    command = module_command(
        "ackbench.infra.process.sessions", str(own.pid), str(own.start_ticks), str(record)
    )
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, start_new_session=True
    )


def _remaining(leaders: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    return [process for leader in leaders for process in session_members(leader)]


def _pid_was_reused(leader: ProcessIdentity) -> bool:
    """Whether the leader's pid belongs to another process, so that its session is empty."""
    with suppress(HarnessError):
        return ProcessIdentity.of(leader.pid) != leader
    return False


def _processes() -> Iterator[tuple[ProcessIdentity, int]]:
    """Yield each process of this machine that has not ended, with its session."""
    for folder in Path("/proc").glob("[0-9]*"):
        stat = read_stat(folder)
        if stat is not None and not stat.has_ended:
            yield ProcessIdentity(int(folder.name), stat.start_ticks), stat.session


def main() -> None:
    """Wait until a process ends, then end the sessions of its record."""
    pid, start_ticks, record = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    pidfd = open_pidfd(ProcessIdentity(pid, start_ticks))
    if pidfd is not None:
        select.select([pidfd], [], [])
    end_sessions(read_session_record(record), grace_s=0)
    record.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
