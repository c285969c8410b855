"""A librdkafka consumer with manually assigned partitions, read by compiled code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.compiled import CompiledConsumer
from ackbench.experiments.trial.clients.consumer.loop import (
    BATCH_RECORDS,
    IDENTITIES,
    NO_END,
    PartitionProgress,
    all_read,
    read_records,
)
from ackbench.experiments.trial.clients.librdkafka.client import ConfigRejected, Interceptor
from ackbench.experiments.trial.clients.librdkafka.library import (
    NO_ERROR,
    error_text,
    has_function,
    library,
)
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.record.layout import TextValueFormat
from ackbench.infra.errors import HarnessError


class AssignedConsumer(CompiledConsumer):
    """A context manager: reads partitions from given offsets, each to an end offset or without one.

    Args:
        settings: the client's settings, `bootstrap.servers` included.
        token: identifies the trial's records.
        anchor_ns: time since the epoch = anchor + monotonic clock.
        log: the file for librdkafka's log; `None`: no log.
        text: the format of text values; `None`: values are binary (`librdkafka.value`).
        identity: where the records have their identity.
        interceptors: called for each record.

    Raises:
        ConfigRejected: librdkafka rejects the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        token: int,
        anchor_ns: int,
        log: Path | None,
        text: TextValueFormat | None = None,
        interceptors: Sequence[Interceptor] = (),
        identity: Identity = "value",
    ) -> None:
        super().__init__(settings, token, anchor_ns, log, BATCH_RECORDS, interceptors=interceptors)
        if text:
            self._state["tag"], self._state["warm_up_records"] = text.tag, text.warm_up_records
        self._state["identity"] = IDENTITIES.index(identity)
        self.partitions: Records = np.zeros(0, PartitionProgress)

    def assign(self, topic: str, begin_offsets: Mapping[int, int]) -> None:
        """Assign more partitions, each from an offset on, without an end until `set_end_offsets`.

        Raises:
            ConfigRejected: librdkafka rejects the assignment.
        """
        offsets, assign = begin_offsets, _assign_incrementally
        if not has_function("rd_kafka_incremental_assign"):  # before 1.6.0
            before = enumerate(map(int, self.partitions["next_offset"]))
            offsets, assign = {**dict(before), **begin_offsets}, library().rd_kafka_assign
        assigned = library().rd_kafka_topic_partition_list_new(len(offsets))
        self._make_room(max(begin_offsets) + 1)
        for number, offset in offsets.items():
            library().rd_kafka_topic_partition_list_add(assigned, topic.encode(), number)
            library().rd_kafka_topic_partition_list_set_offset(
                assigned, topic.encode(), number, offset
            )
        for number, offset in begin_offsets.items():
            self.partitions[number] = (NO_END, max(offset, 0), 0, 0, 0, 0, 0)
        code = assign(self._client.address, assigned)
        library().rd_kafka_topic_partition_list_destroy(assigned)
        if code != NO_ERROR:
            raise ConfigRejected(
                f"librdkafka rejected the assignment of {len(begin_offsets)} partitions of {topic}:"
                f" {error_text(code)}"
            )

    def assign_new_partitions(self, topic: str, offset: int, timeout_s: float) -> None:
        """Assign the partitions that were added to the topic, if a broker answers in time."""
        try:
            numbers = range(len(self._client.leaders(topic, timeout_s)))
        except HarnessError:  # no broker answered, or none knows the topic: no news
            return
        new = [number for number in numbers if number >= self.partitions.size]
        if new:
            self.assign(topic, dict.fromkeys(new, offset))

    def set_end_offsets(self, end_offsets: Mapping[int, int]) -> None:
        """Set where partitions end, exclusive."""
        for number, offset in end_offsets.items():
            self.partitions["end_offset"][number] = offset

    def read(self, rows: Records, filled: int, timeout_s: float) -> int:
        """Fill rows from index `filled` on, and return how many are filled then. Holds no GIL.

        Returns early when every partition is at its end, or when another batch may not fit.
        """
        self._state["filled"] = filled
        self._state["until_ns"] = time.monotonic_ns() + round(timeout_s * 1e9)
        read_records(self._state, self.partitions, rows, self._messages, self._scratch)
        return int(self._state["filled"][0])

    def all_read(self) -> bool:
        """Return whether every partition has been read to its end."""
        return bool(all_read(self.partitions))

    def all_seen(self) -> bool:
        """Return whether a broker has answered a fetch of each partition."""
        return bool(self.partitions["seen"].all())

    def describe_lag(self) -> str:
        """Return, for a message, the position and last error of each partition before its end."""
        return "; ".join(
            self._describe_partition(int(number))
            for number in np.flatnonzero(
                self.partitions["next_offset"] < self.partitions["end_offset"]
            )
        )

    def raise_on_errors(self, codes: frozenset[int]) -> None:
        """Check the partitions' last errors.

        Raises:
            HarnessError: the last error of a partition is one of these codes.
        """
        failed = [
            number
            for number in range(self.partitions.size)
            if self.partitions["error"][number] in codes
        ]
        if failed:
            raise HarnessError("; ".join(map(self._describe_partition, failed)))

    def crc_failed_offsets(self) -> dict[int, int]:
        """Return where the first batch with a wrong CRC begins, of each partition that has one."""
        return {
            int(number): int(self.partitions["first_crc_failure_offset"][number])
            for number in np.flatnonzero(self.partitions["crc_failures"])
        }

    def _make_room(self, partitions: int) -> None:
        grown = np.zeros(max(partitions, self.partitions.size), PartitionProgress)
        grown["seen"] = 1  # `all_seen` must not wait for partitions that are not assigned
        grown[: self.partitions.size] = self.partitions
        self.partitions = grown

    def _describe_partition(self, number: int) -> str:
        partition = self.partitions[number]
        end = "an unknown end" if partition["end_offset"] == NO_END else partition["end_offset"]
        error = int(partition["error"] or self._state["error"][0])
        return f"partition {number} is at offset {partition['next_offset']} of {end}" + (
            f", last error {error_text(error)}" if error else ""
        )


def _assign_incrementally(client: int, partitions: int) -> int:
    """Add to the client's assignment; return librdkafka's error code, or 0."""
    error = library().rd_kafka_incremental_assign(client, partitions)
    if not error:
        return NO_ERROR
    code: int = library().rd_kafka_error_code(error)
    library().rd_kafka_error_destroy(error)
    return code
