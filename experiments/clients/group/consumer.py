"""A librdkafka consumer that reads as a member of a group: its partitions come and go with the group's rebalances."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from experiments.clients.consumer.compiled import CompiledConsumer
from experiments.clients.consumer.loop import NO_END, Partition, read_some
from experiments.clients.consumer.reads import Read
from experiments.clients.librdkafka.client import ConfigRejected
from experiments.clients.librdkafka.library import (
    ASSIGN_PARTITIONS,
    AUTO_OFFSET_RESET,
    NO_ERROR,
    PartitionList,
    error_text,
    library,
)
from experiments.clients.process.mapped_file import Records
from experiments.clients.producer.transactions import TransactionApi, TransactionError
from infra.errors import HarnessError

BATCH_RECORDS: Final = 64
"""Taken from librdkafka at once, at most: so many more than asked for can be in hand."""
MOST_PARTITIONS: Final = 1024
"""There is room for so many from the beginning: partitions may be added while a member reads."""
_SEEK_TIMEOUT_MS: Final = 5000
_SYNC: Final = 0
_REBALANCE: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
)


class GroupConsumer(CompiledConsumer):
    """A context manager around a member: what was read stays in hand until it is said to be done with.

    Args:
        settings: all that is passed, the addresses and `group.id` too.
        topic: what it subscribes to.
        partitions: how many that has to begin with.
        token: whose records are ours.
        anchor_ns: epoch = anchor + monotonic clock.
        log: the file for librdkafka's log.
        records: how many records are in hand at the most, but for one batch.

    Raises:
        Refused: librdkafka does not take the settings, or the subscription.
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
    ) -> None:
        self._topic = topic
        self._assigned: Callable[[tuple[int, ...]], None] = _ignore
        self._revoking: Callable[[tuple[int, ...], bool], None] = _ignore
        self._failed: BaseException | None = None
        self._callback = _REBALANCE(self._rebalanced)
        super().__init__(
            settings, token, anchor_ns, log, min(records, BATCH_RECORDS), prepare=self._prepare
        )
        self._rows: Records = np.zeros(records - 1 + self._messages.size, Read)
        self._partitions: Records = np.zeros(max(partitions, MOST_PARTITIONS), Partition)
        self._partitions["end_offset"] = NO_END
        self._committed: dict[int, int] = {}

    def subscribe(
        self,
        assigned: Callable[[tuple[int, ...]], None],
        revoking: Callable[[tuple[int, ...], bool], None],
    ) -> None:
        """Join the group.

        Args:
            assigned: called in the middle of a read with partitions that it has been given.
            revoking: called with partitions before they are taken from it, and whether they are lost: others may read them already.

        Raises:
            Refused: librdkafka's own reason.
        """
        self._assigned, self._revoking = assigned, revoking
        with self._listed({-1: 0}) as topics:
            code = library().rd_kafka_subscribe(self._client.address, topics)
        if code != NO_ERROR:
            raise ConfigRejected(f"subscribing to {self._topic}: {error_text(code)}")

    def read(self, timeout_s: float) -> None:
        """Read until so many records are in hand as was said, or the time is up; rebalances are served meanwhile. Holds no GIL.

        Raises:
            HarnessError: what was raised in a rebalance.
        """
        self._reading["until_ns"] = time.monotonic_ns() + round(timeout_s * 1e9)
        read_some(self._reading, self._partitions, self._rows, self._messages, self._scratch)
        if self._failed is not None:
            raise HarnessError(
                f"a rebalance could not be followed: {self._failed}"
            ) from self._failed

    @property
    def in_hand(self) -> Records:
        """What was read and is not done with."""
        return self._rows[: int(self._reading["filled"][0])]

    def belongs(self) -> bool:
        """Whether its group has let it in, with partitions or without: it knows the group's generation, or with KIP-848 its own epoch in it."""
        group = library().rd_kafka_consumer_group_metadata(self._client.address)
        try:
            return bool(library().rd_kafka_consumer_group_metadata_generation_id(group) > 0)
        finally:
            library().rd_kafka_consumer_group_metadata_destroy(group)

    def owned(self) -> tuple[int, ...]:
        """Return the partitions that it has been given."""
        return tuple(sorted(self._committed))

    def progress(self) -> dict[int, int]:
        """Return, of each of its partitions that it read on in since its last commit, the offset behind what it read."""
        reached = {
            number: int(self._partitions[number]["next_offset"]) for number in self._committed
        }
        return {
            number: offset for number, offset in reached.items() if offset > self._committed[number]
        }

    def auto_offset_reset(self) -> dict[int, int]:
        """Return its partitions whose log was said not to hold the offset any more at which it was to read on, and that offset."""
        numbers = (
            number
            for number in self._committed
            if self._partitions[number]["error"] == AUTO_OFFSET_RESET
        )
        return {number: int(self._partitions[number]["next_offset"]) for number in numbers}

    def commit(self, offsets: Mapping[int, int]) -> int:
        """Commit, and wait for the coordinator's answer; return its error, or 0."""
        with self._listed(offsets) as wanted:
            code: int = library().rd_kafka_commit(self._client.address, wanted, _SYNC)
        if code == NO_ERROR:
            self._committed.update(
                (number, offset) for number, offset in offsets.items() if number in self._committed
            )
        return code

    def commit_within(
        self, transactions: TransactionApi, offsets: Mapping[int, int], timeout_s: float
    ) -> TransactionError | None:
        """Have a producer's transaction commit offsets, in the name of this life of the group (KIP-447); return why it could not.

        They are committed with the transaction, and not before. Whoever aborts that goes `back_to_committed`.
        """
        group = library().rd_kafka_consumer_group_metadata(self._client.address)
        try:
            if (
                not library().rd_kafka_consumer_group_metadata_member_id(group)
                or library().rd_kafka_consumer_group_metadata_generation_id(group) <= 0
            ):
                return TransactionError.of_no_member()
            with self._listed(offsets) as wanted:
                error = transactions.send_offsets(wanted, group, timeout_s)
        finally:
            library().rd_kafka_consumer_group_metadata_destroy(group)
        if error is None:
            self._committed.update(
                (number, offset) for number, offset in offsets.items() if number in self._committed
            )
        return error

    def back_to_committed(self, timeout_s: float) -> None:
        """Lay down what is in hand, and read on from where the group has committed each of its partitions.

        Raises:
            HarnessError: no coordinator told, or librdkafka could not go back.
        """
        self.done()
        if not self._committed:
            return
        with self._listed(dict.fromkeys(self._committed, 0)) as asked:
            self._require_code(
                library().rd_kafka_committed(self._client.address, asked, round(timeout_s * 1000))
            )
            listed = PartitionList.from_address(asked)
            told = {
                listed.elems[index].partition: max(0, listed.elems[index].offset)
                for index in range(listed.cnt)
            }
        for number, offset in told.items():
            self._begin_at(number, offset)
            self._committed[number] = offset
        with self._listed(told) as wanted:
            self._require(
                library().rd_kafka_seek_partitions(self._client.address, wanted, _SEEK_TIMEOUT_MS)
            )

    def done(self) -> None:
        """Lay down what is in hand."""
        self._reading["filled"] = 0

    def give_back(self) -> None:
        """Lay down what is in hand, and read it again: nothing of it is done.

        Raises:
            HarnessError: librdkafka could not go back.
        """
        back: dict[int, int] = {}
        for row in self.in_hand:
            number = int(row["partition"])
            back[number] = min(back.get(number, NO_END), int(row["offset"]))
        back = {number: offset for number, offset in back.items() if number in self._committed}
        self.done()
        if not back:
            return
        for number, offset in back.items():
            self._begin_at(number, offset)
        with self._listed(back) as wanted:
            self._require(
                library().rd_kafka_seek_partitions(self._client.address, wanted, _SEEK_TIMEOUT_MS)
            )

    def _prepare(self, conf: int) -> None:
        library().rd_kafka_conf_set_rebalance_cb(conf, ctypes.cast(self._callback, ctypes.c_void_p))

    def _rebalanced(self, _client: int, code: int, partitions: int, _opaque: int) -> None:
        """Follow a rebalance; an error cannot pass through C, so it is kept for `read`."""
        try:
            self._assign(partitions) if code == ASSIGN_PARTITIONS else self._revoke(partitions)
        except BaseException as error:  # noqa: BLE001 - raised again by `read`
            self._failed = error

    def _assign(self, partitions: int) -> None:
        numbers = _numbers(partitions)
        for number in numbers:
            self._begin_at(number, 0)
            self._committed[number] = 0
        if self._cooperates():
            self._require(library().rd_kafka_incremental_assign(self._client.address, partitions))
        else:
            self._require_code(library().rd_kafka_assign(self._client.address, partitions))
        self._assigned(numbers)

    def _revoke(self, partitions: int) -> None:
        numbers, lost = (
            _numbers(partitions),
            bool(library().rd_kafka_assignment_lost(self._client.address)),
        )
        self._revoking(numbers, lost)
        for number in numbers:
            self._committed.pop(number, None)
        if self._cooperates():
            self._require(library().rd_kafka_incremental_unassign(self._client.address, partitions))
        else:
            self._require_code(library().rd_kafka_assign(self._client.address, None))

    def _begin_at(self, number: int, offset: int) -> None:
        self._partitions[number] = np.zeros((), Partition)
        self._partitions[number]["end_offset"], self._partitions[number]["next_offset"] = (
            NO_END,
            offset,
        )

    def _cooperates(self) -> bool:
        """Whether rebalances add and take single partitions: with `cooperative-sticky`, and with the protocol of KIP-848."""
        return bool(library().rd_kafka_rebalance_protocol(self._client.address) == b"COOPERATIVE")

    @contextmanager
    def _listed(self, offsets: Mapping[int, int]) -> Iterator[int]:
        """Yield librdkafka's own list of the topic's partitions with offsets."""
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


def _ignore(*_told: object) -> None:
    """Nobody has asked to be told yet."""


def _numbers(partitions: int) -> tuple[int, ...]:
    listed = PartitionList.from_address(partitions)
    return tuple(sorted(listed.elems[index].partition for index in range(listed.cnt)))
