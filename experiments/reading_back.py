"""The end of a trial: what the log holds, and what of it consumers are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from experiments.clients import admin
from experiments.clients.reader import read_log
from infra.cluster import Cluster
from infra.errors import WaitTimeout
from infra.waiting import wait_until

READ_TIMEOUT_S: Final = 120.0
READABLE_TIMEOUT_S: Final = 30.0
UNDECIDED_MARGIN_S: Final = 10.0
"""Beyond a transaction's timeout and the coordinator's interval of looking for those that are past it."""
ISOLATION: Final = "isolation.level"
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"


@dataclass(frozen=True)
class ReadBack:
    """What was read."""

    log: pa.Table
    """Schema `LOG`."""
    end_offsets: dict[int, int]
    """The high watermarks, up to which the log was read."""
    shown_offsets: dict[int, int]
    """Up to where the reader along is shown it: with `read_committed`, the last stable offsets."""


@dataclass(frozen=True)
class Reading:
    """A trial's topic, to be read to its end."""

    cluster: Cluster
    topic: str
    token: int
    consumer: Mapping[str, str]
    """The settings of the reader along."""
    tag: int = 0
    """Of values that are text, see `clients.java_value`; 0: values are `clients.value`'s."""

    def plain(self) -> ReadBack:
        """Read a log without transactions: consumers of any isolation are shown all of it.

        Raises:
            HarnessError: a partition could not be read to its end.
            WaitTimeout: consumers are not shown all that the leaders have.
        """
        ends = self.wait_until_readable()
        return ReadBack(self._read(ends, self.consumer), ends, ends)

    def of_transactions(self, decided_within_s: float) -> ReadBack:
        """Read a log twice: all that it holds, and what a `read_committed` consumer is shown of it.

        Args:
            decided_within_s: after how long the coordinator has aborted what its producer left open.

        Raises:
            HarnessError: a partition could not be read to its end.
            WaitTimeout: consumers are not shown all that the leaders have.
        """
        self._wait_until_decided(decided_within_s + UNDECIDED_MARGIN_S)
        ends = self.wait_until_readable()
        stable = admin.end_offsets(self.cluster.admin_servers, self.topic, read_committed=True)
        stable = {partition: min(stable[partition], end) for partition, end in ends.items()}
        held = self._read(ends, {**self.consumer, ISOLATION: READ_UNCOMMITTED})
        shown = self._read(stable, {**self.consumer, ISOLATION: READ_COMMITTED})
        along = ends if self.consumer.get(ISOLATION) == READ_UNCOMMITTED else stable
        return ReadBack(with_visibility(held, shown), ends, along)

    def _read(self, ends: Mapping[int, int], settings: Mapping[str, str]) -> pa.Table:
        return read_log(self.cluster.bootstrap_servers, self.topic, ends, self.token, settings, READ_TIMEOUT_S, tag=self.tag)

    def _wait_until_decided(self, timeout_s: float) -> None:
        """Wait until no transaction is open; one that hangs on stays a finding: nothing from its first record on is shown."""

        def decided() -> bool:
            stable = admin.end_offsets(self.cluster.admin_servers, self.topic, read_committed=True)
            return stable == admin.end_offsets(self.cluster.admin_servers, self.topic)

        try:
            wait_until(decided, awaiting="every transaction to be decided", timeout_s=timeout_s, every_s=0.2)
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
            readable.update(admin.end_offsets(self.cluster.admin_servers, self.topic))
            return self.cluster.log_end_offsets(self.topic) == readable

        awaiting = "consumers to be shown all that the leaders' logs hold"
        wait_until(look, awaiting=awaiting, timeout_s=READABLE_TIMEOUT_S, seen=lambda: f"{readable} of {self.cluster.log_end_offsets(self.topic)}")
        return readable


def with_visibility(held: pa.Table, shown: pa.Table) -> pa.Table:
    """Return all that the log holds, and of each record whether it was shown. Pure."""
    import numpy as np

    places = [log["partition"].to_numpy().astype(np.int64) << 48 | log["offset"].to_numpy() for log in (held, shown)]
    at = held.schema.names.index("visible")
    return held.set_column(at, held.schema.field(at), pa.array(np.isin(*places)))
