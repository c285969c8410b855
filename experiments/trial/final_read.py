"""The end of a trial: what the log holds, and what of it consumers are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from experiments.clients.consumer.expiry import HELD
from experiments.clients.consumer.process import read_log
from experiments.clients.consumer.replay import first_offsets_after, replay
from experiments.clients.librdkafka import topics
from experiments.clients.librdkafka.changes import change_settings
from experiments.clients.record.layout import TextValueFormat
from experiments.errors import CrcMismatch
from experiments.ledger.record import Replay
from infra.cluster.interface import Cluster
from infra.errors import WaitTimeout
from infra.process.waiting import wait_until

READ_TIMEOUT_S: Final = 120.0
READABLE_TIMEOUT_S: Final = 30.0
_LOOKS: Final = 3
_LOOK_EVERY_S: Final = 0.3
"""A leader that hears of the topic's new settings may be in the middle of deleting by the old ones."""
UNDECIDED_MARGIN_S: Final = 10.0
"""Beyond a transaction's timeout and the coordinator's interval of looking for those that are past it."""
ISOLATION: Final = "isolation.level"
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"


@dataclass(frozen=True)
class FinalRead:
    """What was read."""

    log: pa.Table
    """Schema `LOG`."""
    end_offsets: dict[int, int]
    """The high watermarks, up to which the log was read."""
    shown_offsets: dict[int, int]
    """Up to where the reader along is shown it: with `read_committed`, the last stable offsets."""
    refused_offsets: dict[int, int] = field(default_factory=dict)
    """Of each partition that has one, where the first batch begins that a reader who checks CRCs is refused."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions began of which the first records had expired."""

    def with_expired(self, expired: pa.Table) -> FinalRead:
        """Return it with what a reader along had been given before it expired in front, by partition and offset."""
        together = pa.concat_tables([expired, self.log])
        return replace(
            self, log=together.sort_by([("partition", "ascending"), ("offset", "ascending")])
        )


@dataclass(frozen=True)
class FinalReader:
    """A trial's topic, to be read to its end."""

    cluster: Cluster
    topic: str
    token: int
    consumer: Mapping[str, str]
    """The settings of the reader along."""
    text: TextValueFormat | None = None
    """How values look that are text; `None`: values are those of `clients.value`."""
    refused_offsets: dict[int, int] = field(default_factory=dict)
    """Filled as it is read; see `ReadBack`."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions begin, if not at 0: records have expired."""

    def held(self) -> FinalReader:
        """Return the reading of a topic whose records expire: from now on none does, and it is read from where it begins now.

        Raises:
            HarnessError: Kafka refused.
            WaitTimeout: it did not stand still.
        """
        servers, topic = self.cluster.admin_servers, self.topic
        change_settings(servers, "topic", topic, HELD)
        seen: list[dict[int, int]] = []

        def stands() -> bool:
            seen.append(topics.begin_offsets(servers, topic))
            return len(seen) >= _LOOKS and all(begins == seen[-1] for begins in seen[-_LOOKS:])

        wait_until(
            stands,
            awaiting=f"the first offsets of {topic} to stand still",
            timeout_s=READABLE_TIMEOUT_S,
            every_s=_LOOK_EVERY_S,
            seen=lambda: seen[-1:],
        )
        return replace(
            self, begin_offsets={partition: begin for partition, begin in seen[-1].items() if begin}
        )

    def plain(self) -> FinalRead:
        """Read a log without transactions: consumers of any isolation are shown all of it.

        Raises:
            HarnessError: a partition could not be read to its end.
            WaitTimeout: consumers are not shown all that the leaders have.
        """
        ends = self.wait_until_readable()
        return FinalRead(
            self._read(ends, self.consumer), ends, ends, self.refused_offsets, self.begin_offsets
        )

    def of_transactions(self, decided_within_s: float) -> FinalRead:
        """Read a log twice: all that it holds, and what a `read_committed` consumer is shown of it.

        Args:
            decided_within_s: after how long the coordinator has aborted what its producer left open.

        Raises:
            HarnessError: a partition could not be read to its end.
            WaitTimeout: consumers are not shown all that the leaders have.
        """
        self._wait_until_decided(decided_within_s + UNDECIDED_MARGIN_S)
        ends = self.wait_until_readable()
        stable = topics.end_offsets(self.cluster.admin_servers, self.topic, read_committed=True)
        stable = {partition: min(stable[partition], end) for partition, end in ends.items()}
        held = self._read(ends, {**self.consumer, ISOLATION: READ_UNCOMMITTED})
        shown = self._read(stable, {**self.consumer, ISOLATION: READ_COMMITTED})
        along = ends if self.consumer.get(ISOLATION) == READ_UNCOMMITTED else stable
        return FinalRead(
            with_visibility(held, shown), ends, along, self.refused_offsets, self.begin_offsets
        )

    def _read(self, ends: Mapping[int, int], settings: Mapping[str, str]) -> pa.Table:
        """Read with every batch's CRC checked. Where one does not hold, the end is reached all the same: all is read once more as it lies there.

        A reader that checks would pass over the batch, and its records would be taken for lost. What of them is whole, and what is corrupt, our own
        checksum tells of each.
        """
        read = partial(
            read_log,
            self.cluster.bootstrap_servers,
            self.topic,
            ends,
            self.token,
            settings,
            READ_TIMEOUT_S,
            text=self.text,
            begin_offsets=self.begin_offsets,
        )
        try:
            return read()
        except CrcMismatch as mismatch:
            self.refused_offsets.update(mismatch.offsets)
            return read(check_crcs=False)

    def _wait_until_decided(self, timeout_s: float) -> None:
        """Wait until no transaction is open; one that hangs on stays a finding: nothing from its first record on is shown."""

        def decided() -> bool:
            stable = topics.end_offsets(self.cluster.admin_servers, self.topic, read_committed=True)
            return stable == topics.end_offsets(self.cluster.admin_servers, self.topic)

        try:
            wait_until(
                decided,
                awaiting="every transaction to be decided",
                timeout_s=timeout_s,
                every_s=0.2,
            )
        except WaitTimeout:
            return

    def wait_until_readable(self) -> dict[int, int]:
        """Return the end offsets once consumers may read all that the leaders have.

        Consumers are shown what the whole ISR has, and a follower may be a fetch behind and still be in the ISR. With acks=1 the
        last acknowledged records would be taken for lost if the end were fixed before.

        Raises:
            WaitTimeout: a high watermark stays behind its log's end, as with fewer replicas than `min.insync.replicas` (KIP-966).
        """
        readable: dict[int, int] = {}

        def look() -> bool:
            readable.update(topics.end_offsets(self.cluster.admin_servers, self.topic))
            return self.cluster.log_end_offsets(self.topic) == readable

        awaiting = "consumers to be shown all that the leaders' logs hold"
        wait_until(
            look,
            awaiting=awaiting,
            timeout_s=READABLE_TIMEOUT_S,
            seen=lambda: f"{readable} of {self.cluster.log_end_offsets(self.topic)}",
        )
        return readable


def with_visibility(held: pa.Table, shown: pa.Table) -> pa.Table:
    """Return all that the log holds, and of each record whether it was shown. Pure."""
    import numpy as np

    places = [
        log["partition"].to_numpy().astype(np.int64) << 48 | log["offset"].to_numpy()
        for log in (held, shown)
    ]
    at = held.schema.names.index("visible")
    return held.set_column(at, held.schema.field(at), pa.array(np.isin(*places)))


# ---------- The replays of a trial: its log, read again when all is over, twice from its first offsets and once from a timestamp.


@dataclass(frozen=True)
class ReplayResult:
    """What was read."""

    told: tuple[Replay, ...]
    table: pa.Table
    """Schema `REPLAYS`."""


def replays_of(
    servers: str, topic: str, back: FinalRead, token: int, consumer: Mapping[str, str], at_ms: int
) -> ReplayResult:
    """Replay a log.

    Args:
        servers: the addresses.
        topic: its name.
        back: the final read: where its partitions begin and end.
        token: whose records are ours.
        consumer: what was asked for of consumers.
        at_ms: the timestamp of the third replay.

    Raises:
        HarnessError: a partition could not be read to its end.
    """
    begins = {partition: back.begin_offsets.get(partition, 0) for partition in back.end_offsets}
    after = first_offsets_after(servers, topic, tuple(begins), at_ms)
    told = (
        Replay(number=1, begin_offsets=begins),
        Replay(number=2, begin_offsets=begins),
        Replay(number=3, begin_offsets=after, at_ms=at_ms),
    )
    return ReplayResult(
        told,
        pa.concat_tables(
            [
                replay(
                    servers, topic, one.number, one.begin_offsets, back.end_offsets, token, consumer
                )
                for one in told
            ]
        ),
    )
