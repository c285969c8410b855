"""A member of a consumer group, as the parent sees it.

Its process can be killed or paused at a breakpoint before or after a commit, and restarted. Each
process is one *generation* of the member. What runs in the process is `member_main`. A record
counts as processed once it is in the member's mapped file, which outlives the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.clients.consumer.reads import load_reads, to_reads_table
from ackbench.experiments.trial.clients.group.jobs import MemberJob
from ackbench.experiments.trial.clients.group.messages import (
    HELD,
    HOLD,
    MEMBER_CRASHED,
    RELEASE,
    UNTHROTTLE,
    Breakpoint,
    MemberEvent,
    PendingBatch,
)
from ackbench.experiments.trial.clients.librdkafka.log import read_client_log
from ackbench.experiments.trial.clients.librdkafka.versions import library_variables
from ackbench.experiments.trial.clients.process.client_process import (
    DONE,
    FINISH,
    Call,
    ClientProcess,
)
from ackbench.experiments.trial.clients.process.fork_server import SpawnRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import HarnessError, WaitTimeout

_LEAVE_TIMEOUT_S: Final = 30.0
"""What it can take to leave a group whose coordinator was just elected."""
_HOLD_TIMEOUT_S: Final = 10.0


def read_member_events(text: str, member: str) -> Iterator[Event]:
    """Yield a member's events in order, without a last line that was cut off by a kill.

    Args:
        text: the content of the member's event file.
        member: the name that the events' details begin with: `member 1.0`.
    """
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            event = MemberEvent.model_validate_json(line)
            yield Event(
                event.at_ns,
                event.kind,
                Source.CLIENT,
                None,
                None,
                event.partition,
                None,
                event.offset,
                f"{member}: {event.detail}".removesuffix(": "),
            )


class ClientHangs(HarnessError):
    """A call of the client under test has not returned after its time-out."""


def transactional_call(calls: Sequence[Call]) -> str | None:
    """Return the call of a transactional producer that a process is in; `None`: it is elsewhere.

    Args:
        calls: of the process, innermost first. `TransactionApi._call` makes each such call.
    """
    callers = (caller.function for call, caller in pairwise(calls) if _is_api_call(call))
    return next(callers, None)


def _is_api_call(call: Call) -> bool:
    return (call.file, call.function) == ("transactions.py", "_call")


class MemberProcess(ClientProcess):
    """A member in its own process, through all its generations.

    It joins its group on its own. It is ready once partitions were assigned to it, or none.
    """

    def __init__(self, job: MemberJob) -> None:
        self.jobs = [job]
        self._is_ready = False
        self._holds = 0
        self._awaited_hold: int | None = None
        self._crashes: list[Event] = []
        super().__init__(job.member_name, _spawn_request(job), job.errors)

    @property
    def job(self) -> MemberJob:
        """The job of the current or last generation."""
        return self.jobs[-1]

    @property
    def generation_name(self) -> str:
        """The member and its generation: `member 1.0`."""
        return self.job.name

    def restart(self) -> None:
        """Start the next generation after `kill`: a new process without the old one's state.

        Raises:
            HarnessError: it could not be started.
        """
        self.jobs.append(self.job.model_copy(update={"generation": self.job.generation + 1}))
        self._is_ready = False
        self.start_process(_spawn_request(self.job), self.job.errors)

    def kill(self) -> None:
        """Kill the process as `ClientProcess.kill` does; unless it had exited, note the crash."""
        was_running = self.is_alive()
        super().kill()
        if was_running:
            self._crashes.append(
                Event(now_ns(), MEMBER_CRASHED, Source.TRIAL, detail=self.job.name)
            )

    def unthrottle(self) -> None:
        """Let a slow member process as fast as it can from now on.

        Raises:
            HarnessError: the process has exited.
        """
        self.wait_in_group(_LEAVE_TIMEOUT_S)
        if self.job.records_per_s:
            self.send_line(UNTHROTTLE)

    def leave(self) -> None:
        """Have the member leave its group and exit; `restart` brings it back."""
        self.finish()
        super().kill()  # the process has exited: this closes its pipes

    def start_client(self) -> None:
        """Do nothing: it has started by itself."""

    def wait_in_group(self, timeout_s: float) -> None:
        """Wait until the group has accepted the member.

        Raises:
            HarnessError: the process exited before.
            WaitTimeout: the group did not accept it in time.
        """
        if not self._is_ready:
            self.wait_ready(timeout_s)
            self._is_ready = True

    def hold_at(self, point: Breakpoint) -> PendingBatch:
        """Hold the member at a breakpoint, with records pending.

        Raises:
            WaitTimeout: it did not reach the breakpoint in time.
            HarnessError: the process has exited.
        """
        self.wait_in_group(_HOLD_TIMEOUT_S)
        self._holds += 1
        self._awaited_hold = self._holds
        self.send_line(f"{HOLD} {self._holds} {point}")
        try:
            _, _, batch = self.expect_line(HELD, _HOLD_TIMEOUT_S).partition(" ")
        except WaitTimeout:
            self.release()  # or it would stop there later and stay
            raise
        finally:
            self._awaited_hold = None
        return PendingBatch.model_validate_json(batch)

    def _next_line(self) -> str | None:
        """Return the next line; a member that was held after nobody waited for it went on."""
        line = super()._next_line()
        word, _, rest = (line or "").partition(" ")
        is_late = word == HELD and rest.partition(" ")[0] != f"{self._awaited_hold}"
        return None if is_late else line

    def release(self) -> None:
        """Let the member go on from its breakpoint; has no effect on one that has exited."""
        if self.is_alive():
            self.send_line(RELEASE)

    def finish(self) -> None:
        """Have the member complete its pending records, leave its group and exit.

        Raises:
            ClientHangs: a call of its client has not returned after its time-out; the process was
                killed.
            HarnessError: the process exited early.
            WaitTimeout: the process does not exit.
        """
        self.wait_in_group(_LEAVE_TIMEOUT_S)
        self.send_line(FINISH)
        longest_s = _LEAVE_TIMEOUT_S
        if self.job.output:
            longest_s += self.job.output.longest_batch_s
        try:
            self.expect_line(DONE, longest_s)
        except WaitTimeout as late:
            call = transactional_call(self.calls())
            if call is None or self.job.output is None:
                raise
            self.kill()
            raise ClientHangs(
                f"{self.generation_name}: {call}() had not returned {longest_s:.0f} s after its "
                f"shutdown was requested; the call's time-out is "
                f"{self.job.output.transaction_s:.0f} s"
            ) from late
        self.wait_for_exit(_LEAVE_TIMEOUT_S)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that were passed to the client."""
        return self.job.settings

    @staticmethod
    def uncommitted_records() -> None:
        """Return `None`: what is pending is known where the member is held."""

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the records that all generations processed; schema `READS`.

        Raises:
            HarnessError: no generation left a mapped file.
        """
        del attempts  # a record carries all
        jobs = [job for job in self.jobs if job.reads.exists()]  # none after a very early kill
        if not jobs:
            raise HarnessError(f"{self.name} left no records at {self.job.reads}")
        return pa.concat_tables(
            [to_reads_table(load_reads(job.reads), job.consumer, job.generation) for job in jobs]
        )

    def events(self) -> Iterator[Event]:
        """Yield all events: crashes, the member's own, and those in librdkafka's logs."""
        yield from self._crashes
        yield from self.own_events()
        for job in self.jobs:
            yield from read_client_log(_read_if_exists(job.log), job.name, job.topic)

    def own_events(self) -> Iterator[Event]:
        """Yield the events that the member itself wrote, in all generations."""
        for job in self.jobs:
            yield from read_member_events(_read_if_exists(job.event_log), job.name)

    def delete_files(self) -> None:
        """Delete the mapped files."""
        for job in self.jobs:
            job.reads.unlink(missing_ok=True)


def _spawn_request(job: MemberJob) -> SpawnRequest:
    job.job_file.write_text(job.model_dump_json())
    return SpawnRequest(
        role="member", job=job.job_file, server_environment=library_variables(job.client_version)
    )


def _read_if_exists(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
