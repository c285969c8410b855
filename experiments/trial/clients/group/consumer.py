"""A librdkafka consumer in a consumer group, whose rebalances assign and revoke its partitions.

What it has read is *pending* until the caller has processed and committed it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from ackbench.experiments.trial.clients.consumer.compiled import CompiledConsumer
from ackbench.experiments.trial.clients.consumer.loop import (
    NO_END,
    PartitionProgress,
    poll_event,
    read_records,
)
from ackbench.experiments.trial.clients.consumer.reads import ReadRow
from ackbench.experiments.trial.clients.librdkafka.client import ConfigRejected
from ackbench.experiments.trial.clients.librdkafka.library import (
    ASSIGN_PARTITIONS,
    AUTHORIZATION_ERRORS,
    AUTO_OFFSET_RESET,
    GENERATION,
    NO_ERROR,
    PartitionList,
    error_text,
    has_function,
    library,
)
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.producer.transactions import (
    TransactionApi,
    TransactionError,
)
from ackbench.infra.errors import HarnessError

BATCH_RECORDS: Final = 64
"""How many records are taken from librdkafka at once, at most; so many more can be pending."""
PARTITION_CAPACITY: Final = 1024
"""There is room for so many partitions, because partitions may be added while a member reads."""
_SEEK_TIMEOUT_MS: Final = 5000
_SYNC: Final = 0
_ASYNC: Final = 1
_REBALANCE_CALLBACK: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
)
_OFFSET_COMMIT_CALLBACK: Final = _REBALANCE_CALLBACK
"""Both are given the client, an error, a list of partitions, and the opaque pointer."""


class GroupConsumer(CompiledConsumer):
    """A context manager around a group member.

    Args:
        settings: the client's settings, `bootstrap.servers` and `group.id` included.
        topic: the topic to subscribe to.
        partitions: how many partitions it has at first.
        token: identifies the trial's records.
        anchor_ns: time since the epoch = anchor + monotonic clock.
        log: the file for librdkafka's log.
        records: how many records are pending at most, plus one batch.
        asynchronous: whether commits may be requested without waiting for their answers.

    Raises:
        ConfigRejected: librdkafka rejects the settings or the subscription.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        partitions: int,
        token: int,
        anchor_ns: int,
        log: Path,
        records: int,
        *,
        asynchronous: bool = False,
    ) -> None:
        self._topic = topic
        self._asynchronous = asynchronous
        self._on_assigned: Callable[[tuple[int, ...]], None] = _ignore
        self._on_revoking: Callable[[tuple[int, ...], bool], None] = _ignore
        self._on_refused: Callable[[int, dict[int, int]], None] = _ignore
        self._rebalance_error: BaseException | None = None
        self._was_assigned = False
        self.paused = False
        """`True`: its partitions are paused, and so are those that are assigned meanwhile."""
        self.processed = 0
        """The number of pending records that are processed; the caller counts them."""
        self._callback = _REBALANCE_CALLBACK(self._on_rebalance)
        self._commit_callback = _OFFSET_COMMIT_CALLBACK(self._on_commit_answered)
        super().__init__(
            settings, token, anchor_ns, log, min(records, BATCH_RECORDS), prepare=self._prepare
        )
        self._rows: Records = np.zeros(records - 1 + self._messages.size, ReadRow)
        self._partitions: Records = np.zeros(max(partitions, PARTITION_CAPACITY), PartitionProgress)
        self._partitions["end_offset"] = NO_END
        self._committed: dict[int, int] = {}
        """By owned partition: the offset that was committed last, or requested to be."""
        self._acknowledged: dict[int, int] = {}
        """By owned partition: the offset whose commit the coordinator has acknowledged."""

    def subscribe(
        self,
        on_assigned: Callable[[tuple[int, ...]], None],
        on_revoking: Callable[[tuple[int, ...], bool], None],
        on_refused: Callable[[int, dict[int, int]], None] | None = None,
    ) -> None:
        """Subscribe to the topic, and so join the group.

        Args:
            on_assigned: called during a read with the partitions that were assigned.
            on_revoking: called with partitions before they are revoked, and with whether they are
                lost: then other members may read them already.
            on_refused: called during a read with the error and the offsets of a commit that was
                requested and failed.

        Raises:
            ConfigRejected: librdkafka rejects the subscription.
        """
        self._on_assigned, self._on_revoking = on_assigned, on_revoking
        self._on_refused = on_refused or _ignore
        with self._partition_list({-1: 0}) as topics:
            code = library().rd_kafka_subscribe(self._client.address, topics)
        if code != NO_ERROR:
            raise ConfigRejected(
                f"librdkafka rejected the subscription to {self._topic}: {error_text(code)}"
            )

    def read(self, timeout_s: float) -> None:
        """Read until enough records are pending or the time is up. Holds no GIL.

        Rebalances happen during this call.

        Raises:
            HarnessError: a rebalance failed.
        """
        self._state["until_ns"] = time.monotonic_ns() + round(timeout_s * 1e9)
        read_records(self._state, self._partitions, self._rows, self._messages, self._scratch)
        self._raise_rebalance_error()

    @property
    def pending(self) -> Records:
        """The records that were read and are not done yet; dtype `ReadRow`."""
        return self._rows[: int(self._state["filled"][0])]

    def refused_with(self) -> str | None:
        """Return the error for a permission that is missing; `None`: there was none."""
        code = int(self._state["error"][0])
        return error_text(code) if code in AUTHORIZATION_ERRORS else None

    def is_member(self) -> bool:
        """Return whether the group has accepted this consumer, with or without partitions.

        Then it knows the group's generation or, with KIP-848, its own member epoch. A release that
        does not tell these has been accepted when it was given partitions, or none.
        """
        if not has_function(GENERATION):  # before 2.8.0
            return self._was_assigned
        group = library().rd_kafka_consumer_group_metadata(self._client.address)
        try:
            return bool(library().rd_kafka_consumer_group_metadata_generation_id(group) > 0)
        finally:
            library().rd_kafka_consumer_group_metadata_destroy(group)

    def positions(self) -> dict[int, int]:
        """Return the next offset of each owned partition."""
        return {number: int(self._partitions[number]["next_offset"]) for number in self._committed}

    def offsets_to_commit(self) -> dict[int, int]:
        """Return the next offset of each owned partition that was read since its last commit."""
        return {
            number: offset
            for number, offset in self.positions().items()
            if offset > self._committed[number]
        }

    def out_of_range_offsets(self) -> dict[int, int]:
        """Return the next offset of each owned partition whose log no longer contains it."""
        return {
            number: offset
            for number, offset in self.positions().items()
            if self._partitions[number]["error"] == AUTO_OFFSET_RESET
        }

    def commit(self, offsets: Mapping[int, int]) -> int:
        """Commit offsets and wait for the coordinator's answer; return its error code, or 0."""
        with self._partition_list(offsets) as requested:
            code: int = library().rd_kafka_commit(self._client.address, requested, _SYNC)
        if code == NO_ERROR:
            self._remember_committed(offsets)
        return code

    def request_commit(self, offsets: Mapping[int, int]) -> int:
        """Request a commit and do not wait for the answer; return an error code, or 0.

        The answer arrives during a read. After an error the offsets are to be committed again.
        """
        with self._partition_list(offsets) as requested:
            code: int = library().rd_kafka_commit(self._client.address, requested, _ASYNC)
        if code == NO_ERROR:
            self._remember_requested(offsets)
        return code

    def forget_requested(self) -> None:
        """Have the offsets committed again whose commit was requested and is not acknowledged."""
        self._committed.update(self._acknowledged)

    def store_offsets(self, offsets: Mapping[int, int]) -> None:
        """Store offsets in the client, which commits them by itself.

        Raises:
            HarnessError: librdkafka refuses: a partition is not assigned any more.
        """
        if offsets:
            with self._partition_list(offsets) as listed:
                self._require_code(library().rd_kafka_offsets_store(self._client.address, listed))
            self._remember_committed(offsets)

    def commit_in_transaction(
        self, transactions: TransactionApi, offsets: Mapping[int, int], timeout_s: float
    ) -> TransactionError | None:
        """Add offsets to a producer's transaction, for this generation of the group (KIP-447).

        They are committed when the transaction is. After an abort, call `rewind_to_committed`.

        Returns:
            Why they were not added; `None`: they were.
        """
        group = library().rd_kafka_consumer_group_metadata(self._client.address)
        try:
            if (
                not library().rd_kafka_consumer_group_metadata_member_id(group)
                or library().rd_kafka_consumer_group_metadata_generation_id(group) <= 0
            ):
                return TransactionError.not_a_member()
            with self._partition_list(offsets) as requested:
                error = transactions.send_offsets_to_transaction(requested, group, timeout_s)
        finally:
            library().rd_kafka_consumer_group_metadata_destroy(group)
        if error is None:
            self._remember_committed(offsets)
        return error

    def rewind_to_committed(self, timeout_s: float) -> None:
        """Drop what is pending and seek each owned partition to the group's committed offset.

        Raises:
            HarnessError: no coordinator answered, or librdkafka could not seek.
        """
        self.drop_pending()
        if not self._committed:
            return
        with self._partition_list(dict.fromkeys(self._committed, 0)) as requested:
            self._require_code(
                library().rd_kafka_committed(
                    self._client.address, requested, round(timeout_s * 1000)
                )
            )
            listed = PartitionList.from_address(requested)
            committed = {
                listed.elems[index].partition: max(0, listed.elems[index].offset)
                for index in range(listed.cnt)
            }
        self._committed.update(committed)
        self._seek(committed)

    def drop_pending(self) -> None:
        """Drop what is pending: it is done, or must not be processed."""
        self._state["filled"] = 0
        self.processed = 0

    def drop_unprocessed(self, *, seek: bool) -> dict[int, int]:
        """Drop the pending records that are not processed.

        Args:
            seek: whether to seek back to them, so that they are read again.

        Returns:
            The first offset of them, by owned partition.

        Raises:
            HarnessError: librdkafka could not seek.
        """
        begins: dict[int, int] = {}
        for row in self.pending[self.processed :]:
            number = int(row["partition"])
            begins[number] = min(begins.get(number, NO_END), int(row["offset"]))
        self._state["filled"] = self.processed
        begins = {number: begin for number, begin in begins.items() if number in self._committed}
        if begins and seek:
            self._seek(begins)
        return begins

    def pause(self) -> None:
        """Pause the owned partitions: polls give no records of them, and keep the membership.

        Raises:
            HarnessError: librdkafka refuses.
        """
        self.paused = True
        self._pause_or_resume(library().rd_kafka_pause_partitions, self._committed)

    def resume(self) -> None:
        """Resume the owned partitions.

        Raises:
            HarnessError: librdkafka refuses.
        """
        self.paused = False
        self._pause_or_resume(library().rd_kafka_resume_partitions, self._committed)

    def poll_events(self, timeout_s: float) -> None:
        """Poll once, with all partitions paused; rebalances happen during this call.

        Raises:
            HarnessError: a rebalance failed, or librdkafka returned a record.
        """
        if not poll_event(self._state, self._partitions, round(timeout_s * 1000)):
            raise HarnessError("librdkafka returned a record of a paused partition")
        self._raise_rebalance_error()

    def _pause_or_resume(self, change: Callable[[int, int], int], numbers: Iterable[int]) -> None:
        with self._partition_list(dict.fromkeys(numbers, 0)) as listed:
            self._require_code(change(self._client.address, listed))

    def _raise_rebalance_error(self) -> None:
        if self._rebalance_error is not None:
            raise HarnessError(
                f"a rebalance failed: {self._rebalance_error}"
            ) from self._rebalance_error

    def _seek(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            self._begin_at(number, offset)
        with self._partition_list(offsets) as requested:
            self._require(
                library().rd_kafka_seek_partitions(
                    self._client.address, requested, _SEEK_TIMEOUT_MS
                )
            )

    def _remember_committed(self, offsets: Mapping[int, int]) -> None:
        self._remember_requested(offsets)
        self._acknowledged.update(
            (number, offset) for number, offset in offsets.items() if number in self._committed
        )

    def _remember_requested(self, offsets: Mapping[int, int]) -> None:
        self._committed.update(
            (number, offset) for number, offset in offsets.items() if number in self._committed
        )

    def _prepare(self, conf: int) -> None:
        library().rd_kafka_conf_set_rebalance_cb(conf, ctypes.cast(self._callback, ctypes.c_void_p))
        if self._asynchronous:
            library().rd_kafka_conf_set_offset_commit_cb(
                conf, ctypes.cast(self._commit_callback, ctypes.c_void_p)
            )

    def _on_commit_answered(self, _client: int, code: int, partitions: int, _opaque: int) -> None:
        """Remember what a commit's answer says; an exception is raised by `read`, as above."""
        try:
            listed = PartitionList.from_address(partitions)
            answered = {
                listed.elems[index].partition: listed.elems[index].offset
                for index in range(listed.cnt)
            }
            if code == NO_ERROR:
                self._acknowledge(answered)
            else:
                self.forget_requested()
                self._on_refused(code, answered)
        except BaseException as error:  # noqa: BLE001 - raised again by `read`
            self._rebalance_error = error

    def _acknowledge(self, answered: Mapping[int, int]) -> None:
        for number, offset in answered.items():
            if number in self._acknowledged:
                self._acknowledged[number] = max(self._acknowledged[number], offset)

    def _on_rebalance(self, _client: int, code: int, partitions: int, _opaque: int) -> None:
        """Handle a rebalance; an exception cannot pass through C, so `read` raises it."""
        try:
            if code == ASSIGN_PARTITIONS:
                self._assign(partitions)
            else:
                self._revoke(partitions)
        except BaseException as error:  # noqa: BLE001 - raised again by `read`
            self._rebalance_error = error

    def _assign(self, partitions: int) -> None:
        numbers = _partition_numbers(partitions)
        self._was_assigned = True
        for number in numbers:
            self._begin_at(number, 0)
            self._committed[number] = self._acknowledged[number] = 0
        if self._is_cooperative():
            self._require(library().rd_kafka_incremental_assign(self._client.address, partitions))
        else:
            self._require_code(library().rd_kafka_assign(self._client.address, partitions))
        if self.paused:
            self._pause_or_resume(library().rd_kafka_pause_partitions, numbers)
        self._on_assigned(numbers)

    def _revoke(self, partitions: int) -> None:
        numbers = _partition_numbers(partitions)
        lost = bool(library().rd_kafka_assignment_lost(self._client.address))
        self._on_revoking(numbers, lost)
        if self.paused:  # librdkafka keeps a partition paused until it is resumed (its issue 1849)
            self._pause_or_resume(library().rd_kafka_resume_partitions, numbers)
        for number in numbers:
            self._committed.pop(number, None)
            self._acknowledged.pop(number, None)
        if self._is_cooperative():
            self._require(library().rd_kafka_incremental_unassign(self._client.address, partitions))
        else:
            self._require_code(library().rd_kafka_assign(self._client.address, None))

    def _begin_at(self, number: int, offset: int) -> None:
        self._partitions[number] = np.zeros((), PartitionProgress)
        self._partitions[number]["end_offset"] = NO_END
        self._partitions[number]["next_offset"] = offset

    def _is_cooperative(self) -> bool:
        """Return whether rebalances assign and revoke single partitions.

        They do with `cooperative-sticky` and with the protocol of KIP-848.
        """
        return bool(library().rd_kafka_rebalance_protocol(self._client.address) == b"COOPERATIVE")

    @contextmanager
    def _partition_list(self, offsets: Mapping[int, int]) -> Iterator[int]:
        """Yield a list of the topic's partitions and offsets in librdkafka's own type."""
        listed = library().rd_kafka_topic_partition_list_new(len(offsets))
        try:
            for number, offset in offsets.items():
                library().rd_kafka_topic_partition_list_add(listed, self._topic.encode(), number)
                library().rd_kafka_topic_partition_list_set_offset(
                    listed, self._topic.encode(), number, offset
                )
            yield listed
        finally:
            library().rd_kafka_topic_partition_list_destroy(listed)

    @staticmethod
    def _require(error: int | None) -> None:
        if error:
            text = library().rd_kafka_error_string(error).decode()
            library().rd_kafka_error_destroy(error)
            raise HarnessError(text)

    @staticmethod
    def _require_code(code: int) -> None:
        if code != NO_ERROR:
            raise HarnessError(error_text(code))


def _ignore(*_args: object) -> None:
    """Do nothing: the callback before `subscribe`."""


def _partition_numbers(partitions: int) -> tuple[int, ...]:
    listed = PartitionList.from_address(partitions)
    return tuple(sorted(listed.elems[index].partition for index in range(listed.cnt)))
