"""The member's own process; what it does there is `member_work`'s, and of a copier `copier_work`'s."""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from experiments.clients.consumer.reads import ReadsFile
from experiments.clients.group.consumer import GroupConsumer
from experiments.clients.group.copier import CopyOutput, TransactionalCopyOutput
from experiments.clients.group.member import (
    ASSIGNED,
    COMMIT_REFUSED,
    COPY_FAILED,
    GIVEN_BACK,
    GO_ON,
    HURRY,
    JOINED,
    LEFT,
    LOST,
    MARKED,
    OUT_OF_RANGE,
    REVOKED,
    STOP,
    MemberJob,
    MemberLog,
    PausePoint,
    PendingRecords,
)
from experiments.clients.librdkafka.library import NO_ERROR, error_text
from experiments.clients.process.child import DONE, FINISH, READY, listen, say, told
from infra.errors import HarnessError

# ---------- What a member does in its own process: join, read, process and commit in the order that it is told, wait at marks, leave.


SLICE_S: Final = 0.1
"""What is in hand is completed after so long, however little it is."""
REFUSED: Final = frozenset({22, 25, 27, 82, 110, 113})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH
(https://kafka.apache.org/protocol#protocol_error_codes): the coordinator has not committed. After any other error nobody knows."""
COMMIT_TIMEOUT_S: Final = 60.0
NOTHING_CAME_S: Final = 1.0
"""A member that its group has let in, and that was given nothing for so long, waits for nothing: there are more members than partitions."""
_AGAIN_S: Final = 0.1


@dataclass(kw_only=True)
class MemberLoop:
    """A member that processes a record by writing it to its mapping."""

    job: MemberJob
    consumer: GroupConsumer
    ledger: ReadsFile
    log: MemberLog
    waits_at: PausePoint | None = None
    """Where it is to be held, as soon as it is there with records in hand."""
    joined: bool = field(default=False, init=False)
    let_in_s: float | None = field(default=None, init=False)
    """Since when it belongs to its group, by the monotonic clock."""
    leaving: bool = field(default=False, init=False)
    hurries: bool = field(default=False, init=False)
    """It is told to be slow no more."""
    stuck: set[int] = field(default_factory=set, init=False)
    """Partitions of which it was told that it cannot read on."""
    goes_back: bool = field(default=False, init=False)
    """What it read last is neither processed nor committed: it reads that again before it goes on."""

    def work(self) -> None:
        """Read and complete until told to finish; leaving gives the partitions back."""
        self.consumer.subscribe(self._assigned, self._revoking)
        while not self.leaving:
            self.consumer.read(SLICE_S)
            self._complete(marks=True)
            self._tell_where_it_is_stuck()
            if not self.joined:
                self._see_whether_it_is_let_in()
            self._listen(0)

    def process(self) -> bool:
        """Process what is in hand; a record is processed once it stands in the mapping. False: it is not, and nothing of it is to be committed."""
        self._take_time(self.consumer.in_hand.size)
        self.note()
        return True

    def note(self) -> None:
        """Write what is in hand to the mapping."""
        rows, filled = self.consumer.in_hand, self.ledger.filled
        while filled + rows.size > self.ledger.rows.size:
            self.ledger.grow()
        self.ledger.rows[filled : filled + rows.size] = rows
        self.ledger.filled = filled + rows.size

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        """Commit how far it has read; return the coordinator's error where it refused, so that it is not committed.

        Raises:
            HarnessError: the coordinator did not say for a minute.
        """
        until_s = time.monotonic() + COMMIT_TIMEOUT_S
        while (code := self.consumer.commit(offsets)) not in {NO_ERROR, *REFUSED}:
            if time.monotonic() > until_s:
                raise HarnessError(
                    f"the commit was not answered in {COMMIT_TIMEOUT_S:g} s: {error_text(code)}"
                )
            select.select([], [], [], _AGAIN_S)
        return None if code == NO_ERROR else error_text(code)

    def _take_time(self, records: int) -> None:
        """Be as slow as it was ordered to be; what it is told meanwhile is obeyed, and a word to hurry or to leave ends it."""
        until_s = time.monotonic() + (
            records / self.job.records_per_s if self.job.records_per_s else 0
        )
        while not (self.hurries or self.leaving) and (left_s := until_s - time.monotonic()) > 0:
            self._listen(left_s)

    def _listen(self, timeout_s: float) -> None:
        if select.select([sys.stdin], [], [], timeout_s)[0]:
            self._obey(told())

    def _tell_where_it_is_stuck(self) -> None:
        for partition, offset in self.consumer.auto_offset_reset().items():
            if partition not in self.stuck:
                self.log.tell(
                    OUT_OF_RANGE, "told so as an error", partition=partition, offset=offset
                )
        self.stuck.update(self.consumer.auto_offset_reset())

    def _obey(self, order: str) -> None:
        word, _, mark = order.partition(" ")
        if word == STOP:
            self.waits_at = PausePoint(mark) if mark else None
        elif word == HURRY:
            self.hurries = True
        elif word == FINISH:
            self.leaving = True
        else:
            raise HarnessError(f"told {order!r} instead of {STOP!r} or {FINISH!r}")

    def _see_whether_it_is_let_in(self) -> None:
        """With KIP-848 a member that is given nothing is never told so: it belongs to the group all the same, and is ready when nothing came for a while."""
        if self.let_in_s is None and self.consumer.belongs():
            self.log.tell(JOINED)
            self.let_in_s = time.monotonic()
        if self.let_in_s is not None and time.monotonic() - self.let_in_s > NOTHING_CAME_S:
            say(READY)
            self.joined = True

    def _assigned(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions or (None,):
            self.log.tell(ASSIGNED, "" if partition is not None else "none", partition=partition)
        if not self.joined:
            say(READY)
        self.joined = True

    def _revoking(self, partitions: tuple[int, ...], lost: bool) -> None:
        """Complete what is in hand before others go on with it, as an application has to."""
        self._complete(marks=False)
        for partition in partitions:
            self.log.tell(REVOKED, LOST if lost else GIVEN_BACK, partition=partition)

    def _complete(self, *, marks: bool) -> None:
        """Process what is in hand, and commit: in the order that the job says. Without marks it is in the middle of a rebalance."""
        if self.goes_back:
            self._go_back(rebalancing=not marks)
        elif self.job.commit == "before":
            self._commit_and_process(marks=marks)
        else:
            self._process_and_commit(marks=marks)

    def _commit_and_process(self, *, marks: bool) -> None:
        if self._commit(marks=marks):
            self.process()  # what cannot be processed now never is: it is committed
            self.consumer.done()
        else:
            self.consumer.give_back()  # not committed, so not to be processed: whoever reads on from the last commit does that

    def _process_and_commit(self, *, marks: bool) -> None:
        """Alone, processed stays processed where the commit is refused, and others repeat it; within a transaction it is undone."""
        if self.consumer.in_hand.size or self.consumer.progress():
            self.goes_back = not (
                self.process() and (self._commit(marks=marks) or self.job.commit == "after")
            )
            self.consumer.done()

    def _go_back(self, *, rebalancing: bool) -> None:
        """Lay down what was read since, and read on from the last commit; not in the middle of a rebalance, when partitions come and go."""
        self.consumer.done()
        if not rebalancing:
            self.consumer.back_to_committed(COMMIT_TIMEOUT_S)
            self.goes_back = False

    def _commit(self, *, marks: bool) -> bool:
        """Commit how far it has read; false: it was refused, so it is not committed.

        Raises:
            HarnessError: the coordinator did not say for a minute.
        """
        offsets = self.consumer.progress()
        if not offsets:
            return True
        self._wait_at(PausePoint.BEFORE_COMMIT, marks=marks)
        refused = self.commit(offsets)
        if refused is not None:
            for partition, offset in offsets.items():
                self.log.tell(COMMIT_REFUSED, refused, partition=partition, offset=offset)
            return False
        self._wait_at(PausePoint.AFTER_COMMIT, marks=marks)
        return True

    def _wait_at(self, mark: PausePoint, *, marks: bool) -> None:
        """Where the parent wants it held here, say so and wait until told to go on, or to the end of its life."""
        if marks and mark is self.waits_at and self.consumer.in_hand.size:
            self.waits_at = None
            in_hand = PendingRecords(
                mark=mark, records=self.consumer.in_hand.size, processed=self.job.commit != "before"
            )
            say(MARKED, in_hand.model_dump_json())
            listen(GO_ON)


# ---------- What a copier does in its own process: a member of a group that processes a record by producing a copy of it.
#
# Committed before the copies, each record is copied at most once; after them, at least once; together with them in a transaction, exactly once
# (https://kafka.apache.org/documentation/#semantics, KIP-98, KIP-447).


@dataclass(kw_only=True)
class CopierLoop(MemberLoop):
    """A copier whose copies and commits are each by themselves. Its mapping has what it was told is stored."""

    copies: CopyOutput

    def process(self) -> bool:
        """Copy what is in hand, and note it once all of it is stored."""
        return self._copied() and super().process()

    def _copied(self) -> bool:
        failed = self.copies.copy(self.consumer.in_hand)
        if failed is not None:
            self.log.tell(COPY_FAILED, failed)
        return failed is None


@dataclass(kw_only=True)
class TransactionalCopierLoop(CopierLoop):
    """A copier whose copies and commits are one transaction. Its mapping has what it was told is committed."""

    copies: TransactionalCopyOutput

    def process(self) -> bool:
        """Copy what is in hand, in the transaction that commits it too."""
        copied = self._copied()
        if not copied:
            self.copies.abort()
        return copied

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        """Commit the copies and how far it has read; return why that is not committed, and then none of it is."""
        error = self.copies.commit(self.consumer, offsets)
        if error is None:
            self.note()
            return None
        self.copies.abort()
        return str(error)


def main(job_path: Path) -> None:
    """Be the member.

    Raises:
        AckbenchError: it could not do its job.
    """
    job = MemberJob.model_validate_json(job_path.read_bytes())
    with ExitStack() as clients:
        _work_of(job, clients).work()
    MemberLog(job.told, job.anchor_ns).tell(LEFT)
    say(DONE)


def _work_of(job: MemberJob, clients: ExitStack) -> MemberLoop:
    """Make the member's clients: they end with the context, the consumer first, which gives its partitions back."""
    copies = _copies(job, clients)
    settings = {
        **job.settings,
        "enable.partition.eof": "true",
        "bootstrap.servers": job.bootstrap_servers,
    }
    consumer = GroupConsumer(
        settings,
        job.topic,
        job.partitions,
        job.token,
        job.anchor_ns,
        job.log,
        job.commit_every_records,
    )
    job.effective.write_text(json.dumps(clients.enter_context(consumer).effective_settings()))
    ledger, log = ReadsFile(job.reads), MemberLog(job.told, job.anchor_ns)
    if isinstance(copies, TransactionalCopyOutput):
        return TransactionalCopierLoop(
            job=job, consumer=consumer, ledger=ledger, log=log, copies=copies
        )
    if copies is not None:
        return CopierLoop(job=job, consumer=consumer, ledger=ledger, log=log, copies=copies)
    return MemberLoop(job=job, consumer=consumer, ledger=ledger, log=log)


def _copies(job: MemberJob, clients: ExitStack) -> CopyOutput | None:
    if job.output is None:
        return None
    settings = {**job.output.settings, "bootstrap.servers": job.bootstrap_servers}
    return clients.enter_context(
        (TransactionalCopyOutput if job.commit == "within" else CopyOutput)(
            job, job.output, settings
        )
    )
