"""A librdkafka consumer with its partitions assigned by hand, read by compiled code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.clients.consumer.compiled import CompiledConsumer
from experiments.clients.consumer.loop import BATCH_RECORDS, NO_END, Partition, all_read, read_some
from experiments.clients.librdkafka.client import ConfigRejected, Interceptor
from experiments.clients.librdkafka.library import NO_ERROR, error_text, library
from experiments.clients.process.mapped_file import Records
from experiments.clients.record.layout import TextValueFormat
from infra.errors import HarnessError


class AssignedConsumer(CompiledConsumer):
    """A context manager: partitions that are read from an offset on, each to its end or without one.

    Args:
        settings: all that is passed, the addresses too.
        token: whose records are ours.
        anchor_ns: epoch = anchor + monotonic clock.
        log: the file for librdkafka's log; without one there is none.
        interceptors: called for each record.
        text: how values look that are text; `None`: values are those of `value`.

    Raises:
        HarnessError: librdkafka refuses the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        token: int,
        anchor_ns: int,
        log: Path | None,
        text: TextValueFormat | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        super().__init__(settings, token, anchor_ns, log, BATCH_RECORDS, interceptors=interceptors)
        if text:
            self._reading["tag"], self._reading["run_in_records"] = text.tag, text.run_in_records
        self.partitions: Records = np.zeros(0, Partition)

    def assign(self, topic: str, begin_offsets: Mapping[int, int]) -> None:
        """Begin to fetch partitions, each from an offset on, beside those that are fetched already; without an end, until `end_at` gives one.

        Raises:
            Refused: librdkafka's own reason.
        """
        assigned = library().rd_kafka_topic_partition_list_new(len(begin_offsets))
        self._make_room(max(begin_offsets) + 1)
        for number, offset in begin_offsets.items():
            library().rd_kafka_topic_partition_list_add(assigned, topic.encode(), number)
            library().rd_kafka_topic_partition_list_set_offset(
                assigned, topic.encode(), number, offset
            )
            self.partitions[number] = (NO_END, max(offset, 0), 0, 0, 0, 0, 0)
        code = _assign_also(self._client.address, assigned)
        library().rd_kafka_topic_partition_list_destroy(assigned)
        if code != NO_ERROR:
            raise ConfigRejected(
                f"assigning {len(begin_offsets)} partitions of {topic}: {error_text(code)}"
            )

    def assign_new(self, topic: str, offset: int, timeout_s: float) -> None:
        """Begin to fetch the partitions that the topic has and that are not fetched yet, where a broker tells of any in time."""
        try:
            there = range(len(self._client.leaders(topic, timeout_s)))
        except (
            HarnessError
        ):  # no broker answered, or none knows the topic: what there is is fetched already
            return
        new = [number for number in there if number >= self.partitions.size]
        if new:
            self.assign(topic, dict.fromkeys(new, offset))

    def end_at(self, end_offsets: Mapping[int, int]) -> None:
        """Say where partitions end."""
        for number, offset in end_offsets.items():
            self.partitions["end_offset"][number] = offset

    def read(self, rows: Records, filled: int, timeout_s: float) -> int:
        """Fill rows from `filled` on, for a while; return how many are filled then. Holds no GIL.

        It ends early when every partition is read to its end, or when a further batch may not fit.
        """
        self._reading["filled"], self._reading["until_ns"] = (
            filled,
            time.monotonic_ns() + round(timeout_s * 1e9),
        )
        read_some(self._reading, self.partitions, rows, self._messages, self._scratch)
        return int(self._reading["filled"][0])

    def all_read(self) -> bool:
        """Whether every partition is read to its end."""
        return bool(all_read(self.partitions))

    def all_seen(self) -> bool:
        """Whether a broker has answered a fetch of each partition."""
        return bool(self.partitions["seen"].all())

    def where(self) -> str:
        """Say, for a message, how far the partitions are that are not at their ends, and the last error of each."""
        return "; ".join(
            self._place(int(number))
            for number in np.flatnonzero(
                self.partitions["next_offset"] < self.partitions["end_offset"]
            )
        )

    def raise_if_lost(self, codes: frozenset[int]) -> None:
        """Check the partitions' errors.

        Raises:
            HarnessError: one of them is among the codes.
        """
        lost = [
            number
            for number in range(self.partitions.size)
            if self.partitions["error"][number] in codes
        ]
        if lost:
            raise HarnessError("; ".join(map(self._place, lost)))

    def refused_offsets(self) -> dict[int, int]:
        """Return, of each partition that has one, where the first batch begins that was not read because its CRC does not hold."""
        return {
            int(number): int(self.partitions["refused_offset"][number])
            for number in np.flatnonzero(self.partitions["refused"])
        }

    def _make_room(self, partitions: int) -> None:
        grown = np.zeros(max(partitions, self.partitions.size), Partition)
        grown["seen"] = 1  # of those that are not assigned nothing is awaited
        grown[: self.partitions.size] = self.partitions
        self.partitions = grown

    def _place(self, number: int) -> str:
        partition = self.partitions[number]
        end = (
            "an end not yet known" if partition["end_offset"] == NO_END else partition["end_offset"]
        )
        error = int(partition["error"] or self._reading["error"][0])
        return f"partition {number} is at offset {partition['next_offset']} of {end}" + (
            f", last error {error_text(error)}" if error else ""
        )


def _assign_also(client: int, assigned: int) -> int:
    """Return librdkafka's error code, or 0. What is assigned already stays so."""
    error = library().rd_kafka_incremental_assign(client, assigned)
    if not error:
        return NO_ERROR
    code: int = library().rd_kafka_error_code(error)
    library().rd_kafka_error_destroy(error)
    return code
