"""A member of a consumer group, as the parent sees it.

Its process can be killed or paused at a breakpoint before or after a commit, and restarted. Each
process is one *generation* of the member. What runs in the process is `member_main`. A record
counts as processed once it is in the member's mapped file, which outlives the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
from pydantic import Field

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Frozen, Keys
from ackbench.experiments.sweep.workload import Commit
from ackbench.experiments.trial.clients.consumer.reads import load_reads, to_reads_table
from ackbench.experiments.trial.clients.librdkafka.log import read_client_log
from ackbench.experiments.trial.clients.librdkafka.versions import library_variables
from ackbench.experiments.trial.clients.process.client_job import ClientJob
from ackbench.experiments.trial.clients.process.client_process import DONE, FINISH, ClientProcess
from ackbench.experiments.trial.clients.process.fork_server import SpawnRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import HarnessError, WaitTimeout

# Kinds of the events that a member writes.
ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
COMMIT_REFUSED: Final = "commit_refused"
COPY_FAILED: Final = "copy_failed"
"""A copier could not store the copies of all pending records."""
JOINED: Final = "joined"
LEFT: Final = "left"
OUT_OF_RANGE: Final = "out_of_range"
"""The log no longer contains the member's next offset, and the client reported it as an error: the
member reads no further."""
MEMBER_CRASHED: Final = "member_crashed"
"""The member's process ended without leaving its group. Written by the parent."""

# Details of the event `revoked`.
LOST: Final = "lost"
"""The group had taken the partition away before: other members may read it already."""
RELEASED: Final = "released"

# Messages between the parent and the member's process.
HOLD: Final = "hold"
"""To the member, with its number and a breakpoint: wait there."""
HELD: Final = "held"
"""From the member: it waits at the breakpoint of a hold, with its number and a `PendingBatch`."""
RELEASE: Final = "release"
"""To the member: go on from the breakpoint, or do not wait there any more."""
UNTHROTTLE: Final = "unthrottle"
"""To a slow member: process as fast as you can."""

_LEAVE_TIMEOUT_S: Final = 30.0
"""What it can take to leave a group whose coordinator was just elected."""
_HOLD_TIMEOUT_S: Final = 10.0


class MemberEvent(Frozen):
    """One line of a member's event file."""

    at_ns: int
    kind: str
    partition: int | None = None
    offset: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class MemberEventLog:
    """Writes a member's event file, one JSON line per event.

    Each line is written at once, so that no event is lost when the member is killed.
    """

    path: Path
    anchor_ns: int
    """Time since the epoch = this + monotonic clock."""

    def write(
        self,
        kind: str,
        detail: str = "",
        *,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Append an event that happens now.

        Raises:
            OSError: the file is not writable.
        """
        line = MemberEvent(
            at_ns=self.anchor_ns + time.monotonic_ns(),
            kind=kind,
            partition=partition,
            offset=offset,
            detail=detail,
        ).model_dump_json()
        with self.path.open("a", encoding="utf-8") as file:
            os.write(file.fileno(), f"{line}\n".encode())


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


class Breakpoint(StrEnum):
    """Where a member can be held."""

    BEFORE_COMMIT = "before-commit"
    """It is about to commit its pending records."""
    AFTER_COMMIT = "after-commit"
    """The coordinator has acknowledged the commit; of an asynchronous one, it was requested."""
    IN_BATCH = "in-batch"
    """It has processed the first half of its pending records, and not the others."""


class PendingBatch(Frozen):
    """The pending records of a member that is held at a breakpoint."""

    breakpoint: Breakpoint
    records: int
    processed_records: int
    """How many of them are in its mapped file already."""
    commit_answered: bool = True
    """After a commit: whether the coordinator has acknowledged it; otherwise that is unknown."""


class CopyTarget(Frozen):
    """Where a copier writes to.

    A copier is a member that processes a record by producing one of the same identity.
    """

    topic: str
    partitions: Annotated[int, Field(gt=0)]
    """How many partitions the topic has; a copy goes to its record's partition modulo this."""
    settings: dict[str, str]
    """The producer's settings, passed as they are.

    A copier that commits in a transaction has its own `transactional.id` here.
    """
    record_size_bytes: Annotated[int, Field(gt=0)]
    keys: Keys
    """The keys of the records as their producer chose them."""


class MemberJob(ClientJob):
    """The job description of one generation of a member."""

    consumer: Annotated[int, Field(ge=1)]
    """Its number in the trial; 0 is the concurrent consumer."""
    generation: Annotated[int, Field(ge=0)] = 0
    partitions: Annotated[int, Field(gt=0)]
    settings: dict[str, str]
    """The client's settings with `group.id`, passed as they are."""
    commit: Commit
    """Whether to commit before or after processing a record, in one transaction with it, or to
    leave it to the client."""
    commit_every_records: Annotated[int, Field(gt=0)]
    asynchronous_commits: bool = False
    """Whether to go on before the coordinator has answered a commit."""
    commit_on_revocation: bool = True
    """Whether to commit before partitions are revoked."""
    records_per_s: Annotated[float, Field(ge=0)] = 0
    """The processing rate of a slow member until it is unthrottled; 0: as fast as it can."""
    output: CopyTarget | None = None
    """Where a copier writes to; `None`: the member processes a record by storing it in its file."""

    @property
    def member_name(self) -> str:
        """The member: `member 1`, or `copier 1`."""
        return f"{'member' if self.output is None else 'copier'} {self.consumer}"

    @property
    def name(self) -> str:
        """The member and its generation: `member 1.0`."""
        return f"{self.member_name}.{self.generation}"

    @property
    def stem(self) -> str:
        """How the names of its files begin."""
        return f"member-{self.consumer}.{self.generation}"

    @property
    def reads(self) -> Path:
        """The mapped file with the processed records (`consumer.reads`)."""
        return self.file("reads")

    @property
    def output_log(self) -> Path:
        """The log of librdkafka of a copier's producer."""
        return self.file("output.log")

    @property
    def event_log(self) -> Path:
        """The member's events, one JSON line each."""
        return self.file("events")

    @property
    def errors(self) -> Path:
        """Its standard error."""
        return self.file("errors")

    @property
    def job_file(self) -> Path:
        """This job description."""
        return self.file("json")


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
            HarnessError: the process exited early.
            WaitTimeout: the process does not exit.
        """
        self.wait_in_group(_LEAVE_TIMEOUT_S)
        self.send_line(FINISH)
        self.expect_line(DONE, _LEAVE_TIMEOUT_S)
        self.wait_for_exit(_LEAVE_TIMEOUT_S)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that were passed to the client."""
        return self.job.settings

    def reads(self) -> pa.Table:
        """Return the records that all generations processed; schema `READS`.

        Raises:
            HarnessError: no generation left a mapped file.
        """
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
