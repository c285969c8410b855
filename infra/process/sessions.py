"""Ends whole sessions: a service and everything it forked, also what outlived it.

A service is started as the leader of a session of its own (setsid(2)), and what it forks stays in that session unless it asks
otherwise. The leader's number is given to nobody else while a member lives, so leader and start time name the session for good.

Run as a script, `python -m infra.process.sessions <pid> <start ticks> <record>`: waits for the end of that process, however it ends, and
then ends every session in the record. PR_SET_PDEATHSIG alone would reach the leaders and orphan what they forked.
"""

from __future__ import annotations

import json
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from infra.errors import HarnessError
from infra.machine.files import replace_file
from infra.process.processes import ProcessIdentity, open_pidfd, send_signal
from infra.process.waiting import wait_until


def session_members(leader: ProcessIdentity) -> tuple[ProcessIdentity, ...]:
    """Return who lives in the session that a process leads or led, the leader itself among them."""
    if _taken_over(leader):
        return ()
    return tuple(process for process, session in _processes() if session == leader.pid)


def end_sessions(
    leaders: Iterable[ProcessIdentity], *, patience_s: float, timeout_s: float = 10.0
) -> None:
    """Ask every member of the sessions to end (SIGTERM, leaders alone), then end whoever is left (SIGKILL).

    Args:
        leaders: who leads or led them.
        patience_s: how long the leaders have to end their sessions in good order.
        timeout_s: how long the kernel may take to end the rest.

    Raises:
        WaitTimeout: a process did not end after SIGKILL.
    """
    led = tuple(leaders)
    for leader in led:
        send_signal(leader, signal.SIGTERM)
    with suppress(HarnessError):
        wait_until(lambda: not _left(led), awaiting="the services' end", timeout_s=patience_s)

    def killed() -> bool:
        return not [process for process in _left(led) if send_signal(process, signal.SIGKILL)]

    wait_until(
        killed,
        awaiting="the services' end after SIGKILL",
        timeout_s=timeout_s,
        seen=lambda: _left(led),
    )


def write_session_record(record: Path, leaders: Iterable[ProcessIdentity]) -> None:
    """Keep on disk whose sessions are to be ended."""
    replace_file(record, json.dumps([asdict(leader) for leader in leaders]))


def read_session_record(record: Path) -> tuple[ProcessIdentity, ...]:
    """Return the leaders in a record; none when there is no record."""
    try:
        return tuple(ProcessIdentity(**leader) for leader in json.loads(record.read_text()))
    except FileNotFoundError:
        return ()


def _left(leaders: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    return [process for leader in leaders for process in session_members(leader)]


def _taken_over(leader: ProcessIdentity) -> bool:
    """Whether the leader's number belongs to another process by now, so that the session has no member left."""
    with suppress(HarnessError):
        return ProcessIdentity.of(leader.pid) != leader
    return False


def _processes() -> Iterator[tuple[ProcessIdentity, int]]:
    """Yield each process of this machine that has not ended, with its session (fields 6 and 22 of /proc/<pid>/stat)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            text = (folder / "stat").read_text()
            fields = text[text.rindex(")") + 2 :].split()
            if fields[0] not in "ZX":
                yield ProcessIdentity(int(folder.name), int(fields[19])), int(fields[3])


def main() -> None:
    """Wait for the end of a process, then end the sessions it was to end."""
    pid, start_ticks, record = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    pidfd = open_pidfd(ProcessIdentity(pid, start_ticks))
    if pidfd is not None:
        select.select([pidfd], [], [])
    end_sessions(read_session_record(record), patience_s=0)
    record.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
