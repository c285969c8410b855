"""A group member's process: join, read, process, commit and leave.

The job decides the order of processing and committing, and so the delivery semantics
(https://kafka.apache.org/documentation/#semantics, KIP-98, KIP-447). Committed before it is
processed, a record is processed at most once; after, at least once; in one transaction, exactly
once. A client that commits by itself (`enable.auto.commit`) commits the offsets that are stored in
it: those of the records that it has handed out, processed or not, or, without
`enable.auto.offset.store`, those that the member stores once it has processed the records
(librdkafka's CONFIGURATION.md).

A member processes a record by storing it in its mapped file; a copier produces a copy of it.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from ackbench.experiments.trial.clients.consumer.reads import ReadsFile
from ackbench.experiments.trial.clients.group.consumer import GroupConsumer
from ackbench.experiments.trial.clients.group.copier import CopyProducer, TransactionalCopyProducer
from ackbench.experiments.trial.clients.group.jobs import MemberJob
from ackbench.experiments.trial.clients.group.messages import (
    ASSIGNED,
    BATCH_FAILED,
    COMMIT_REFUSED,
    COPY_FAILED,
    HELD,
    HOLD,
    JOINED,
    LEFT,
    LOST,
    OUT_OF_RANGE,
    RELEASE,
    RELEASED,
    REVOKED,
    UNTHROTTLE,
    Breakpoint,
    MemberEventLog,
    PendingBatch,
)
from ackbench.experiments.trial.clients.librdkafka.library import NO_ERROR, error_text
from ackbench.experiments.trial.clients.process.client_process import (
    DONE,
    FINISH,
    READY,
    expect_line,
    read_line,
    write_line,
)
from ackbench.experiments.trial.clients.settings.group_members import AUTO_OFFSET_STORE
from ackbench.infra.errors import HarnessError

SLICE_S: Final = 0.1
"""Pending records are processed and committed at least this often, however few they are."""
COMMIT_REFUSALS: Final = frozenset({22, 25, 27, 82, 110, 113})
"""Errors after which the offsets are certainly not committed; after any other that is unknown.

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID,
FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH (https://kafka.apache.org/protocol#protocol_error_codes).
"""
COMMIT_TIMEOUT_S: Final = 60.0
NO_ASSIGNMENT_S: Final = 1.0
"""A member without an assignment for this long after the group accepted it is ready: the group has
more members than partitions."""
_RETRY_INTERVAL_S: Final = 0.1


@dataclass(kw_only=True)
class MemberLoop:
    """A member that processes a record by storing it in its mapped file."""

    job: MemberJob
    consumer: GroupConsumer
    processed: ReadsFile
    log: MemberEventLog
    hold_at: Breakpoint | None = None
    hold: str = ""
    """The number of the hold that was requested last."""
    """Where to wait, once the member is there with records pending."""
    reported_ready: bool = field(default=False, init=False)
    member_since_s: float | None = field(default=None, init=False)
    """When the group accepted the member, by the monotonic clock."""
    leaving: bool = field(default=False, init=False)
    unthrottled: bool = field(default=False, init=False)
    out_of_range: set[int] = field(default_factory=set, init=False)
    """Partitions that the member cannot read on, because the log lacks its next offset."""
    rebalancing: bool = field(default=False, init=False)
    """A rebalance is in progress: the member neither stops at a breakpoint nor seeks."""
    must_rewind: bool = field(default=False, init=False)
    """The last records were not processed and committed: read them again before going on."""
    batches: int = field(default=0, init=False)
    """Batches since the last failure and its retry; the batch that makes it `fail_every` fails."""
    read_until: dict[int, int] = field(default_factory=dict, init=False)
    """By partition: the position before the member sought back to a record that had failed."""
    works_until_s: float = field(default=0.0, init=False)
    """When a slow member is done with its batch, by the monotonic clock."""

    def run(self) -> None:
        """Read, process and commit until the parent asks to finish."""
        self.consumer.subscribe(self._on_assigned, self._on_revoking, self._on_refused)
        while not self.leaving or self._reads_again():
            self.consumer.read(SLICE_S)
            self._complete_pending()
            self._report_out_of_range()
            if not self.reported_ready:
                self._check_membership()
            self._handle_request(0)

    def process(self) -> bool:
        """Process the pending records; return false if that failed and they must not be committed.

        A record is processed once it is in the mapped file.
        """
        records = self.consumer.pending.size
        self._throttle(records - self.consumer.processed)
        self._store_up_to(records // 2)
        self._stop_at(Breakpoint.IN_BATCH, self.consumer.processed)
        if self._batch_fails():
            self._handle_failure()
        self.store()
        return True

    def store(self) -> None:
        """Store the pending records in the mapped file."""
        self._store_up_to(self.consumer.pending.size)

    def _store_up_to(self, records: int) -> None:
        """Store so many of the pending records, but those that are stored already."""
        rows = self.consumer.pending[self.consumer.processed : records]
        filled = self.processed.filled
        while filled + rows.size > self.processed.rows.size:
            self.processed.grow()
        self.processed.rows[filled : filled + rows.size] = rows
        self.processed.filled = filled + rows.size
        self.consumer.processed += rows.size

    def _batch_fails(self) -> bool:
        """Return whether the batch fails in its middle; the one after such a batch does not."""
        if self.rebalancing or not self.consumer.pending.size:
            return False
        self.batches = 0 if self.batches == self.job.load.fail_every else self.batches + 1
        return 0 < self.batches == self.job.load.fail_every

    def _reads_again(self) -> bool:
        """Return whether records that failed are still to be read again: the member stays so long.

        A partition that was revoked is read by its next owner.
        """
        positions = self.consumer.positions()
        return any(
            positions.get(number, until) < until for number, until in self.read_until.items()
        )

    def _handle_failure(self) -> None:
        """Drop the records that are not processed; seek back to them, or go on without them."""
        after, positions = self.job.load.after_failure, self.consumer.positions()
        dropped = self.consumer.drop_unprocessed(seek=after == "seek")
        self.read_until = positions if after == "seek" else {}
        for partition, offset in dropped.items():
            self.log.write(BATCH_FAILED, after, partition=partition, offset=offset)

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        """Commit these offsets; return the coordinator's error if it refused them.

        Raises:
            HarnessError: the coordinator did not answer within `COMMIT_TIMEOUT_S`.
        """
        until_s = time.monotonic() + COMMIT_TIMEOUT_S
        while (code := self.consumer.commit(offsets)) not in {NO_ERROR, *COMMIT_REFUSALS}:
            if time.monotonic() > until_s:
                raise HarnessError(
                    f"no answer to a commit within {COMMIT_TIMEOUT_S:g} s: {error_text(code)}"
                )
            select.select([], [], [], _RETRY_INTERVAL_S)
        return None if code == NO_ERROR else error_text(code)

    def _request_commit(self, offsets: Mapping[int, int]) -> str | None:
        """Request a commit without waiting for its answer; return the client's error, if any."""
        code = self.consumer.request_commit(offsets)
        return None if code == NO_ERROR else error_text(code)

    def _on_refused(self, code: int, offsets: Mapping[int, int]) -> None:
        """Note a requested commit that was certainly refused; it is made again, with later ones."""
        if code in COMMIT_REFUSALS:
            for partition, offset in offsets.items():
                self.log.write(COMMIT_REFUSED, error_text(code), partition=partition, offset=offset)

    def _throttle(self, records: int) -> None:
        """Wait as long as a slow member takes to process this many records.

        The parent's requests are handled meanwhile; a request to unthrottle or finish ends it. A
        revocation that comes meanwhile waits for the rest of that time.
        """
        if not self.job.records_per_s:
            return
        if not (self.rebalancing and time.monotonic() < self.works_until_s):
            self.works_until_s = time.monotonic() + records / self.job.records_per_s
        with self._partitions_paused():
            while (
                not (self.unthrottled or self.leaving)
                and (left_s := self.works_until_s - time.monotonic()) > 0
            ):
                self._handle_request(left_s)

    @contextmanager
    def _partitions_paused(self) -> Iterator[None]:
        """Pause the partitions while the member works, if its load has it so; then it polls."""
        if not self.job.load.pause_while_processing or self.rebalancing:
            yield
            return
        self.consumer.pause()
        yield
        self.consumer.resume()

    def _has_request(self, timeout_s: float) -> bool:
        """Return whether the parent has a request, within the timeout.

        With its partitions paused, the member polls meanwhile.
        """
        until_s = time.monotonic() + timeout_s
        while self.consumer.paused and not self.rebalancing:
            if select.select([sys.stdin], [], [], 0)[0]:
                return True
            if (left_s := until_s - time.monotonic()) <= 0:
                return False
            self.consumer.poll_events(min(left_s, SLICE_S))
        left_s = max(0.0, until_s - time.monotonic())
        return bool(select.select([sys.stdin], [], [], None if left_s == inf else left_s)[0])

    def _handle_request(self, timeout_s: float) -> None:
        """Handle the parent's next request, if there is one within the timeout."""
        if not self._has_request(timeout_s):
            return
        request = read_line()
        word, _, rest = request.partition(" ")
        if word == HOLD:
            number, _, point = rest.partition(" ")
            self.hold_at, self.hold = Breakpoint(point), number
        elif word == RELEASE:
            self.hold_at = None
        elif word == UNTHROTTLE:
            self.unthrottled = True
        elif word == FINISH:
            self.leaving = True
        else:
            raise HarnessError(
                f"unexpected request {request!r} from the parent"
                f" (allowed: {HOLD!r}, {RELEASE!r}, {UNTHROTTLE!r}, {FINISH!r})"
            )

    def _report_out_of_range(self) -> None:
        for partition, offset in self.consumer.out_of_range_offsets().items():
            if partition not in self.out_of_range:
                self.log.write(
                    OUT_OF_RANGE, "reported as an error", partition=partition, offset=offset
                )
        self.out_of_range.update(self.consumer.out_of_range_offsets())

    def _check_membership(self) -> None:
        """Report that the member is ready although no partition was assigned.

        With KIP-848 a member without partitions gets no assignment callback. So it is ready once
        the group has accepted it and nothing was assigned for a while.

        Raises:
            HarnessError: the cluster does not permit to join the group, or to read the topic.
        """
        if refusal := self.consumer.refused_with():
            raise HarnessError(f"the group refuses the member: {refusal}")
        if self.member_since_s is None and self.consumer.is_member():
            self.log.write(JOINED)
            self.member_since_s = time.monotonic()
        if (
            self.member_since_s is not None
            and time.monotonic() - self.member_since_s > NO_ASSIGNMENT_S
        ):
            write_line(READY)
            self.reported_ready = True

    def _on_assigned(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions or (None,):
            self.log.write(ASSIGNED, "" if partition is not None else "none", partition=partition)
        if not self.reported_ready:
            write_line(READY)
        self.reported_ready = True

    def _on_revoking(self, partitions: tuple[int, ...], lost: bool) -> None:
        """Complete the pending records before other members go on, as an application has to."""
        self.rebalancing = True
        if self.job.load.commit_on_revocation:
            self._commit_before_revocation()
        elif not self.must_rewind:
            self.process()
            self.consumer.drop_pending()
        self.rebalancing = False
        for partition in partitions:
            self.log.write(REVOKED, LOST if lost else RELEASED, partition=partition)

    def _commit_before_revocation(self) -> None:
        """Complete the pending records; commits whose answers are due are made again, and awaited.

        The example of `rd_kafka_conf_set_rebalance_cb` (rdkafka.h) waits here too.
        """
        if self.job.load.asynchronous_commits:
            self.consumer.forget_requested()
        self._complete_pending()

    def _complete_pending(self) -> None:
        """Process and commit the pending records, in the job's order."""
        if self.must_rewind:
            self._rewind()
        elif self.job.commit == "auto":
            self._process_and_store_offsets()
        elif self.job.commit == "before":
            self._commit_and_process()
        else:
            self._process_and_commit()

    def _process_and_store_offsets(self) -> None:
        """Process; the client commits by itself what it has handed out, or what is stored here."""
        self.process()
        if self.job.settings[AUTO_OFFSET_STORE] != "true":
            self.consumer.store_offsets(self.consumer.offsets_to_commit())
        self.consumer.drop_pending()

    def _commit_and_process(self) -> None:
        if self._commit():
            self.process()  # a record that fails now is never processed: its offset is committed
            self.consumer.drop_pending()
        else:
            self.consumer.drop_unprocessed(seek=True)  # they are read from the last commit on

    def _process_and_commit(self) -> None:
        """Process, then commit. If the commit is refused, only a transaction undoes the processing.

        Without a transaction, other members process the records again.
        """
        if self.consumer.pending.size or self.consumer.offsets_to_commit():
            self.must_rewind = not (
                self.process() and (self._commit() or self.job.commit == "after")
            )
            self.consumer.drop_pending()

    def _rewind(self) -> None:
        """Drop what was read since and read on from the last commit, once no rebalance is on."""
        self.consumer.drop_pending()
        if not self.rebalancing:
            self.consumer.rewind_to_committed(COMMIT_TIMEOUT_S)
            self.must_rewind = False

    def _commit(self) -> bool:
        """Commit what was read; return false if the coordinator refused.

        Raises:
            HarnessError: the coordinator did not answer within `COMMIT_TIMEOUT_S`.
        """
        if not self.consumer.offsets_to_commit():
            return True
        self._stop_at(Breakpoint.BEFORE_COMMIT, self._processed_records())
        offsets = self.consumer.offsets_to_commit()
        if not offsets:  # a revocation in this stop has committed them
            return True
        asynchronous = self.job.load.asynchronous_commits and not self.rebalancing
        error = self._request_commit(offsets) if asynchronous else self.commit(offsets)
        if error is not None:
            for partition, offset in offsets.items():
                self.log.write(COMMIT_REFUSED, error, partition=partition, offset=offset)
            return False
        self._stop_at(Breakpoint.AFTER_COMMIT, self._processed_records())
        return True

    def _processed_records(self) -> int:
        """Return how many of the pending records are processed when they are committed."""
        return 0 if self.job.commit == "before" else self.consumer.pending.size

    def _stop_at(self, point: Breakpoint, processed_records: int) -> None:
        """If the parent requested a hold here, report it and wait until released."""
        if self.rebalancing or point is not self.hold_at or not self.consumer.pending.size:
            return
        self.hold_at = None
        batch = PendingBatch(
            breakpoint=point,
            records=self.consumer.pending.size,
            processed_records=processed_records,
            commit_answered=not self.job.load.asynchronous_commits,
        )
        write_line(HELD, f"{self.hold} {batch.model_dump_json()}")
        with self._partitions_paused():
            self._has_request(inf)
        expect_line(RELEASE)


@dataclass(kw_only=True)
class CopierLoop(MemberLoop):
    """A copier without transactions; its mapped file has the records whose copies are stored."""

    copies: CopyProducer

    def process(self) -> bool:
        """Copy the pending records; store them in the mapped file once all copies are stored."""
        return self._copy() and super().process()

    def _copy(self) -> bool:
        error = self.copies.copy(self.consumer.pending)
        if error is not None:
            self.log.write(COPY_FAILED, error)
        return error is None


@dataclass(kw_only=True)
class TransactionalCopierLoop(CopierLoop):
    """A copier with transactions; its mapped file has the records whose copies are committed."""

    copies: TransactionalCopyProducer

    def process(self) -> bool:
        """Copy the pending records in the transaction that commits their offsets too."""
        copied = self._copy()
        if not copied:
            self.copies.abort()
        return copied

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        """Commit the copies and these offsets; return the error if neither is committed."""
        error = self.copies.commit(self.consumer, offsets)
        if error is None:
            self.store()
            return None
        self.copies.abort()
        return str(error)


def main(job_path: Path) -> None:
    """Run the member described by this job file.

    Raises:
        AckbenchError: the member failed.
    """
    job = MemberJob.model_validate_json(job_path.read_bytes())
    with ExitStack() as clients:
        _create_loop(job, clients).run()
    MemberEventLog(job.event_log, job.anchor_ns).write(LEFT)
    write_line(DONE)


def _create_loop(job: MemberJob, clients: ExitStack) -> MemberLoop:
    """Create the member's clients in this context; the consumer is closed first and leaves."""
    copies = _create_copy_producer(job, clients)
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
        job.load.commit_every_records,
        asynchronous=job.load.asynchronous_commits,
    )
    job.effective.write_text(json.dumps(clients.enter_context(consumer).effective_settings()))
    processed, log = ReadsFile(job.reads), MemberEventLog(job.event_log, job.anchor_ns)
    if isinstance(copies, TransactionalCopyProducer):
        return TransactionalCopierLoop(
            job=job, consumer=consumer, processed=processed, log=log, copies=copies
        )
    if copies is not None:
        return CopierLoop(job=job, consumer=consumer, processed=processed, log=log, copies=copies)
    return MemberLoop(job=job, consumer=consumer, processed=processed, log=log)


def _create_copy_producer(job: MemberJob, clients: ExitStack) -> CopyProducer | None:
    if job.output is None:
        return None
    settings = {**job.output.settings, "bootstrap.servers": job.bootstrap_servers}
    kind = TransactionalCopyProducer if job.commit == "within" else CopyProducer
    return clients.enter_context(kind(job, job.output, settings))
