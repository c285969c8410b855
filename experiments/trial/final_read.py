"""The end of a trial: the final read of a topic, and replays of it.

The final read returns every record that the log holds, and whether consumers can see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.terms import ACKED
from ackbench.experiments.ledger.trial_manifest import Replay
from ackbench.experiments.messages.errors import CrcMismatch
from ackbench.experiments.sweep.retention import KEEP_ALL
from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.consumer.replay import first_offsets_after, replay
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.librdkafka.admin import alter_configs
from ackbench.experiments.trial.clients.record.layout import TextValueFormat
from ackbench.experiments.trial.jobs import ISOLATION_LEVEL
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

READ_TIMEOUT_S: Final = 120.0
READABLE_TIMEOUT_S: Final = 30.0
_LAG: Final = "replica.lag.time.max.ms"
_DEFAULT_LAG_MS: Final = "30000"
_LONGEST_LAGS: Final = 1.5
"""Multiple of `replica.lag.time.max.ms` after which a follower has caught up or has left the ISR:
the leader checks every half of that time (`ReplicaManager`, `isr-expiration`, Kafka 2.8 to 4.3)."""
TRANSACTION_END_MARGIN_S: Final = 10.0
"""Added to the transaction timeout and the coordinator's cleanup interval."""
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

_STABLE_POLLS: Final = 3
_STABLE_POLL_INTERVAL_S: Final = 0.3
"""Begin offsets must stay the same for several polls: a leader that gets the topic's new settings
may still be deleting by the old ones."""


@dataclass(frozen=True)
class FinalRead:
    """The result of a final read."""

    log: pa.Table
    """Schema `LOG`."""
    end_offsets: dict[int, int]
    """The high watermarks; the log was read up to them."""
    visible_end_offsets: dict[int, int]
    """Up to where the concurrent consumer can read; with `read_committed`, last stable offsets."""
    crc_failed_offsets: dict[int, int] = field(default_factory=dict)
    """Where the first batch with a wrong CRC begins, of each partition that has one."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions begin whose first records have expired; the others begin at 0."""

    def end_of_visible_records(self) -> dict[int, int]:
        """Return the offset after each partition's last visible record.

        Behind it are at most records that are not visible, and the markers that end transactions,
        which no consumer returns.
        """
        visible = self.log.filter(self.log["visible"])
        ends = dict.fromkeys(self.visible_end_offsets, 0)
        for partition, offset in zip(
            visible["partition"].to_pylist(), visible["offset"].to_pylist(), strict=True
        ):
            ends[partition] = max(ends[partition], offset + 1)
        return ends

    def with_expired(self, expired: pa.Table) -> FinalRead:
        """Return this read with records added that a consumer received before they expired."""
        log = pa.concat_tables([expired, self.log])
        return replace(self, log=log.sort_by([("partition", "ascending"), ("offset", "ascending")]))


@dataclass(frozen=True)
class Acknowledged:
    """The records of a topic that were acknowledged."""

    ends: Mapping[int, int]
    """By partition, the offset after the last one; with acks=0 no offset is known."""
    records: int

    def is_below(self, high_watermarks: Mapping[int, int]) -> bool:
        """Return `True` if consumers can read all of them, unless some are lost."""
        return self.records <= sum(high_watermarks.values()) and all(
            end <= high_watermarks.get(partition, 0) for partition, end in self.ends.items()
        )


def acknowledged_in(attempts: pa.Table) -> Acknowledged:
    """Return what the attempts of a trial's producers (schema `ATTEMPTS`) had acknowledged."""
    acked = attempts.filter(pc.equal(attempts["outcome"], ACKED))
    last = acked.filter(pc.is_valid(acked["offset"])).group_by("partition")
    rows = last.aggregate([("offset", "max")]).to_pylist()
    return Acknowledged({row["partition"]: row["offset_max"] + 1 for row in rows}, acked.num_rows)


@dataclass(frozen=True)
class FinalReader:
    """Reads a topic of a trial to its end."""

    cluster: Cluster
    topic: str
    token: int
    """Identifies the trial's records."""
    consumer: Mapping[str, str]
    """The concurrent consumer's settings."""
    text: TextValueFormat | None = None
    """The format of text values; `None`: values are binary (`clients.librdkafka.value`)."""
    identity: Identity = "value"
    """Where the records have their identity."""
    crc_failed_offsets: dict[int, int] = field(default_factory=dict)
    """Filled during the read; see `FinalRead`."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions begin whose first records have expired; the others begin at 0."""
    acknowledged: Callable[[], Acknowledged] | None = None
    """Returns what has to be readable where log ends are not known; `None`: nothing, as of records
    with acks=all, which are below the high watermark when they are acknowledged."""

    def without_retention(self) -> FinalReader:
        """Stop the topic's retention; return a reader that begins where the log begins then.

        Raises:
            HarnessError: Kafka rejected the change.
            WaitTimeout: the begin offsets kept changing.
        """
        servers, topic = self.cluster.admin_servers, self.topic
        alter_configs(servers, "topic", topic, KEEP_ALL)
        seen: list[dict[int, int]] = []

        def begins_are_stable() -> bool:
            seen.append(topics.begin_offsets(servers, topic))
            return len(seen) >= _STABLE_POLLS and all(
                begins == seen[-1] for begins in seen[-_STABLE_POLLS:]
            )

        wait_until(
            begins_are_stable,
            awaiting=f"the begin offsets of {topic} to stay the same",
            timeout_s=READABLE_TIMEOUT_S,
            every_s=_STABLE_POLL_INTERVAL_S,
            seen=lambda: seen[-1:],
        )
        return replace(
            self, begin_offsets={partition: begin for partition, begin in seen[-1].items() if begin}
        )

    def read(self) -> FinalRead:
        """Read a log without transactions: all of it is visible at any isolation level.

        Raises:
            HarnessError: a partition was not read to its end.
            WaitTimeout: high watermarks stay behind the leaders' logs.
        """
        ends = self.wait_until_readable()
        return FinalRead(
            self._read_to(ends, self.consumer),
            ends,
            ends,
            self.crc_failed_offsets,
            self.begin_offsets,
        )

    def read_transactional(self, transactions_end_s: float) -> FinalRead:
        """Read a log with transactions twice: `read_uncommitted`, then `read_committed`.

        Args:
            transactions_end_s: after how long the coordinator has aborted any open transaction.

        Raises:
            HarnessError: a partition was not read to its end.
            WaitTimeout: high watermarks stay behind the leaders' logs.
        """
        self._wait_until_no_open_transaction(transactions_end_s + TRANSACTION_END_MARGIN_S)
        ends = self.wait_until_readable()
        stable = topics.end_offsets(self.cluster.admin_servers, self.topic, read_committed=True)
        stable = {partition: min(stable[partition], end) for partition, end in ends.items()}
        stored = self._read_to(ends, {**self.consumer, ISOLATION_LEVEL: READ_UNCOMMITTED})
        visible = self._read_to(stable, {**self.consumer, ISOLATION_LEVEL: READ_COMMITTED})
        sees_all = self.consumer.get(ISOLATION_LEVEL) == READ_UNCOMMITTED
        return FinalRead(
            with_visibility(stored, visible),
            ends,
            ends if sees_all else stable,
            self.crc_failed_offsets,
            self.begin_offsets,
        )

    def _read_to(self, ends: Mapping[int, int], settings: Mapping[str, str]) -> pa.Table:
        """Read with CRC checks; if a CRC does not match, read all again without them.

        A consumer that checks CRCs skips the batch, so its records would count as lost. Without
        the check they are read as stored, and each record's own checksum shows whether it is
        intact.
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
            identity=self.identity,
            begin_offsets=self.begin_offsets,
        )
        try:
            return read()
        except CrcMismatch as mismatch:
            self.crc_failed_offsets.update(mismatch.offsets)
            return read(check_crcs=False)

    def _wait_until_no_open_transaction(self, timeout_s: float) -> None:
        """Wait until every transaction has ended.

        One that hangs is a result, not an error: records from its first one on stay invisible.
        """

        def all_ended() -> bool:
            stable = topics.end_offsets(self.cluster.admin_servers, self.topic, read_committed=True)
            return stable == topics.end_offsets(self.cluster.admin_servers, self.topic)

        try:
            wait_until(
                all_ended, awaiting="every transaction to end", timeout_s=timeout_s, every_s=0.2
            )
        except WaitTimeout:
            return

    def wait_until_readable(self) -> dict[int, int]:
        """Wait until consumers can read all that is stored; return the high watermarks then.

        Consumers can read what the entire ISR has, and a follower may be a fetch behind and still
        be in the ISR. If the end offsets were fixed before, the last records acknowledged with
        acks=1 would count as lost.

        Raises:
            WaitTimeout: a high watermark stays behind its log's end, as with fewer replicas than
                `min.insync.replicas` (KIP-966).
        """
        if self.cluster.log_ends_are_known:
            return self._wait_for_log_ends()
        return self._wait_for_acknowledged()

    def _wait_for_log_ends(self) -> dict[int, int]:
        """Wait until the high watermarks are at the leaders' log ends."""
        high_watermarks: dict[int, int] = {}

        def all_readable() -> bool:
            high_watermarks.update(self._high_watermarks())
            return self.cluster.log_end_offsets(self.topic) == high_watermarks

        wait_until(
            all_readable,
            awaiting="the high watermarks to reach the leaders' log ends",
            timeout_s=READABLE_TIMEOUT_S,
            seen=lambda: f"{high_watermarks} of {self.cluster.log_end_offsets(self.topic)}",
        )
        return high_watermarks

    def _wait_for_acknowledged(self) -> dict[int, int]:
        """Wait until all acknowledged records are below the high watermarks, or are lost.

        They are lost if they are not there once no follower in the ISR can lag any more.
        """
        if self.acknowledged is None:
            return self._high_watermarks()
        acknowledged, high_watermarks = self.acknowledged(), dict[int, int]()

        def all_readable() -> bool:
            high_watermarks.update(self._high_watermarks())
            return acknowledged.is_below(high_watermarks)

        lag_s = int(self.cluster.broker_settings.get(_LAG, _DEFAULT_LAG_MS)) / 1000
        with suppress(WaitTimeout):
            wait_until(
                all_readable,
                awaiting="the acknowledged records to be below the high watermarks",
                timeout_s=_LONGEST_LAGS * lag_s,
                every_s=_STABLE_POLL_INTERVAL_S,
            )
        return high_watermarks

    def _high_watermarks(self) -> dict[int, int]:
        return topics.end_offsets(self.cluster.admin_servers, self.topic)


def with_visibility(stored: pa.Table, visible: pa.Table) -> pa.Table:
    """Return the stored records, `visible` set where the second table has the same offset. Pure."""
    positions = [
        log["partition"].to_numpy().astype(np.int64) << 48 | log["offset"].to_numpy()
        for log in (stored, visible)
    ]
    at = stored.schema.names.index("visible")
    return stored.set_column(at, stored.schema.field(at), pa.array(np.isin(*positions)))


@dataclass(frozen=True)
class ReplayResult:
    """The result of a trial's replays."""

    replays: tuple[Replay, ...]
    table: pa.Table
    """All replays' records; schema `REPLAYS`."""


def replay_log(
    servers: str, topic: str, final: FinalRead, token: int, consumer: Mapping[str, str], at_ms: int
) -> ReplayResult:
    """Read a log three more times: twice from its begin, once from a timestamp.

    Args:
        servers: the brokers' addresses.
        topic: the topic's name.
        final: the final read, for where partitions begin and end.
        token: identifies the trial's records.
        consumer: the consumer settings.
        at_ms: the timestamp of the third replay.

    Raises:
        HarnessError: a partition was not read to its end.
    """
    begins = {partition: final.begin_offsets.get(partition, 0) for partition in final.end_offsets}
    after = first_offsets_after(servers, topic, tuple(begins), at_ms)
    replays = (
        Replay(number=1, begin_offsets=begins),
        Replay(number=2, begin_offsets=begins),
        Replay(number=3, begin_offsets=after, at_ms=at_ms),
    )
    tables = [
        replay(servers, topic, one.number, one.begin_offsets, final.end_offsets, token, consumer)
        for one in replays
    ]
    return ReplayResult(replays, pa.concat_tables(tables))
