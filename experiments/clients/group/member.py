"""A member of a consumer group, as the parent sees it: a process that can be killed or stopped at a marked point, and started again.

The process itself is `member_main`. What it has written to its mapping counts as processed, and survives it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
from pydantic import Field

from experiments.clients.librdkafka.log import read_client_log
from experiments.clients.process.child import DONE, FINISH, Child
from experiments.clients.process.fork_server import SpawnRequest
from experiments.events.clock import anchor_ns, now_ns
from experiments.events.journal import Event
from experiments.ledger.record import Frozen, KeyOptions
from experiments.ledger.schema import Source
from experiments.sweep.plan import Commit
from infra.errors import HarnessError, WaitTimeout
from infra.process.processes import is_stopped
from infra.process.waiting import wait_until

# ---------- What a member tells of its group while it runs: partitions given and taken, commits refused. A line each, as JSON. Pure but for the writer.


ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
COMMIT_REFUSED: Final = "commit_refused"
COPY_FAILED: Final = "copy_failed"
"""A copier could not store all copies of what it had in hand."""
JOINED: Final = "joined"
LEFT: Final = "left"
OUT_OF_RANGE: Final = "out_of_range"
"""The log does not hold the offset any more at which it was to read on, and it was told so as an error: it reads no further."""
LOST: Final = "lost"
"""In the detail of `revoked`: the group had taken the partition away before."""
GIVEN_BACK: Final = "given back"


class MemberEvent(Frozen):
    """One line."""

    at_ns: int
    kind: str
    partition: int | None = None
    offset: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class MemberLog:
    """The member's side: each line is written at once, so that a killed one has told it."""

    path: Path
    anchor_ns: int
    """The trial's: epoch = this + monotonic clock."""

    def tell(
        self,
        kind: str,
        detail: str = "",
        *,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Write a line.

        Raises:
            OSError: the file cannot be written.
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


def read_member_log(text: str, member: str) -> Iterator[Event]:
    """Give what a member told, in its order; a last line that was cut off when it was killed is left out.

    Args:
        text: the file.
        member: who it is, as the details begin: `member 1.0`.
    """
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            told = MemberEvent.model_validate_json(line)
            yield Event(
                told.at_ns,
                told.kind,
                Source.CLIENT,
                None,
                None,
                told.partition,
                None,
                told.offset,
                f"{member}: {told.detail}".removesuffix(": "),
            )


STOP: Final = "stop"
"""Told to a member, with a mark: wait there; without one: nowhere."""
MARKED: Final = "marked"
"""Said by a member that waits at its mark, with what it has in hand."""
GO_ON: Final = "go-on"
HURRY: Final = "hurry"
"""Told to a member that is slow by order: it is so no more."""
GONE: Final = "member_crashed"
"""The kind of the event that a member's process has ended without leaving its group."""
_MARGIN_S: Final = 30.0
"""What leaving a group may take, with a coordinator that was just elected."""
_STOP_TIMEOUT_S: Final = 10.0


class PausePoint(StrEnum):
    """Where a member can be held."""

    BEFORE_COMMIT = "before-commit"
    """It is about to commit what it has in hand."""
    AFTER_COMMIT = "after-commit"
    """The coordinator has told it that the commit is done."""


class PendingRecords(Frozen):
    """What a member that waits at its mark has in hand."""

    mark: PausePoint
    records: int
    processed: bool
    """They stand in its mapping already."""


class Output(Frozen):
    """Where a copier writes to: a member that processes a record by producing one of the same identity."""

    topic: str
    partitions: Annotated[int, Field(gt=0)]
    """A copy goes to the partition of the same number as its record's, or of the rest of a division by this where there is none."""
    settings: dict[str, str]
    """Of its producer, passed as they are; `transactional.id`, its own, where it commits within a transaction."""
    record_size_bytes: Annotated[int, Field(gt=0)]
    keying: KeyOptions
    """Which key a record has, as its producer made it."""


class MemberJob(Frozen):
    """All that one life of a member is to do."""

    consumer: Annotated[int, Field(ge=1)]
    """Its number in the group; 0 is the reader along."""
    generation: Annotated[int, Field(ge=0)] = 0
    """Which life it is."""
    bootstrap_servers: str
    topic: str
    partitions: Annotated[int, Field(gt=0)]
    settings: dict[str, str]
    """With its `group.id`; passed as they are."""
    commit: Commit
    """Before or after a record is processed, which is when it is written to the mapping, or together with it."""
    commit_every_records: Annotated[int, Field(gt=0)]
    records_per_s: Annotated[float, Field(ge=0)] = 0
    """It processes no faster than this until it is told to hurry; 0: as fast as it can."""
    token: Annotated[int, Field(ge=0, lt=2**63)]
    folder: Path
    anchor_ns: int = Field(default_factory=anchor_ns)
    output: Output | None = None
    """Of a copier; `None`: to process a record is to write it to the mapping."""

    @property
    def who(self) -> str:
        """Which member: `member 1`, or `copier 1`."""
        return f"{'member' if self.output is None else 'copier'} {self.consumer}"

    @property
    def name(self) -> str:
        """Which life of which member: `member 1.0`."""
        return f"{self.who}.{self.generation}"

    @property
    def effective(self) -> Path:
        """All that the client says of its settings, as JSON."""
        return self._file("effective.json")

    @property
    def reads(self) -> Path:
        """The mapping; see `reads`."""
        return self._file("reads")

    @property
    def log(self) -> Path:
        """What librdkafka has to say."""
        return self._file("log")

    @property
    def output_log(self) -> Path:
        """What librdkafka has to say of a copier's producer."""
        return self._file("output.log")

    @property
    def told(self) -> Path:
        """What became of its partitions and commits; see `member_log`."""
        return self._file("told")

    @property
    def errors(self) -> Path:
        """Its standard error."""
        return self._file("errors")

    @property
    def itself(self) -> Path:
        """This job."""
        return self._file("json")

    def _file(self, kind: str) -> Path:
        return self.folder / f"member-{self.consumer}.{self.generation}.{kind}"


class MemberProcess(Child):
    """A member in a process of its own, through all its lives; it joins by itself, and is ready when it first was given partitions, or none."""

    def __init__(self, job: MemberJob) -> None:
        self.jobs = [job]
        self._is_ready = False
        self._gone: list[Event] = []
        super().__init__(job.who, _birth(job), job.errors)

    @property
    def job(self) -> MemberJob:
        """Of the life under way, or of the last one."""
        return self.jobs[-1]

    def start_again(self) -> None:
        """Begin another life after `kill`: a new process, which knows nothing of the one before.

        Raises:
            HarnessError: it cannot be started.
        """
        self.jobs.append(self.job.model_copy(update={"generation": self.job.generation + 1}))
        self._is_ready = False
        self.live(_birth(self.job), self.job.errors)

    def kill(self) -> None:
        """As `Child.kill`; keep when it was gone, unless it had ended by itself."""
        struck = self.lives()
        super().kill()
        if struck:
            self._gone.append(Event(now_ns(), GONE, Source.TRIAL, detail=self.job.name))

    def hurry(self) -> None:
        """Let it process as fast as it can from now on.

        Raises:
            HarnessError: it has ended.
        """
        self.wait_in_group(_MARGIN_S)
        if self.job.records_per_s:
            self.tell(HURRY)

    def leave(self) -> None:
        """As `finish`: it leaves its group while that goes on; `start_again` lets it come back."""
        self.finish()
        super().kill()  # it has ended: what is left of it is closed

    def wait_in_group(self, timeout_s: float) -> None:
        """Return when the group has let it in.

        Raises:
            HarnessError: it ended before.
            WaitTimeout: the group did not.
        """
        if not self._is_ready:
            self.wait_ready(timeout_s)
            self._is_ready = True

    def hold_at(self, mark: PausePoint) -> PendingRecords:
        """Let it go on to a mark with records in hand, and wait there.

        Raises:
            WaitTimeout: it came to none.
            HarnessError: it has ended.
        """
        self.wait_in_group(_STOP_TIMEOUT_S)
        self.tell(f"{STOP} {mark}")
        try:
            return PendingRecords.model_validate_json(self.hear(MARKED, _STOP_TIMEOUT_S))
        except WaitTimeout:
            self.tell(STOP)  # at none any more, or it would wait there for nobody
            raise

    def go_on(self) -> None:
        """Let it leave its mark."""
        self.tell(GO_ON)

    def pause(self) -> None:
        """SIGSTOP; returns once the kernel shows it stopped.

        Raises:
            WaitTimeout: it does not stop.
        """
        self.send(signal.SIGSTOP)
        wait_until(
            lambda: is_stopped(self.pid),
            awaiting=f"{self.name} to stand still",
            timeout_s=_STOP_TIMEOUT_S,
        )

    def resume(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)

    def finish(self) -> None:
        """Let it complete what it has in hand, and leave the group.

        Raises:
            HarnessError: it ended on the way.
            WaitTimeout: it does not end.
        """
        self.wait_in_group(_MARGIN_S)
        self.tell(FINISH)
        self.hear(DONE, _MARGIN_S)
        self.wait(_MARGIN_S)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that it was given."""
        return self.job.settings

    def reads(self) -> pa.Table:
        """Return what it processed in all its lives; schema `READS`.

        Raises:
            HarnessError: a life left nothing.
        """
        from experiments.clients.consumer.reads import reads_in, reads_of

        lives = [
            job for job in self.jobs if job.reads.exists()
        ]  # one that was killed at once has not come to make its mapping
        if not lives:
            raise HarnessError(f"{self.name} left nothing at {self.job.reads}")
        return pa.concat_tables(
            [reads_of(reads_in(job.reads), job.consumer, job.generation) for job in lives]
        )

    def events(self) -> Iterator[Event]:
        """Give what it, and librdkafka in it, told in all its lives, and when its process was gone."""
        yield from self._gone
        yield from self.told()
        for job in self.jobs:
            yield from read_client_log(_text(job.log), job.name, job.topic)

    def told(self) -> Iterator[Event]:
        """Give what it told itself, in all its lives."""
        for job in self.jobs:
            yield from read_member_log(_text(job.told), job.name)

    def forget(self) -> None:
        """Remove the mappings."""
        for job in self.jobs:
            job.reads.unlink(missing_ok=True)


def _birth(job: MemberJob) -> SpawnRequest:
    job.itself.write_text(job.model_dump_json())
    return SpawnRequest(role="member", job=job.itself)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
