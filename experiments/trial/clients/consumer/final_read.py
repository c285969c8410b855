"""The final read of a topic: all records of its log, up to end offsets that were fixed before.

It returns the complete log or raises an error, never a truncated table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.schema import LOG
from ackbench.experiments.messages.errors import CrcMismatch
from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.reads import ReadRow, to_log_table
from ackbench.experiments.trial.clients.librdkafka.library import (
    AUTHORIZATION_ERRORS,
    AUTO_OFFSET_RESET,
    LOG_TRUNCATION,
)
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.record.layout import TextValueFormat
from ackbench.experiments.trial.clients.settings.librdkafka import consumer_settings
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.events.clock import anchor_ns
from ackbench.infra.errors import HarnessError

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.consumer.assigned import AssignedConsumer

CHUNK_RECORDS: Final = 1 << 18
_SLICE_S: Final = 0.2
"""How long the compiled loop runs before Python handles a keyboard interrupt."""

_REQUIRED: Final[dict[str, str]] = {
    # A log that does not begin at the requested offset must be an error, not a jump.
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
}
_OFFSET_OUT_OF_RANGE: Final = 1
_OFFSET_GONE: Final = frozenset({AUTO_OFFSET_RESET, LOG_TRUNCATION, _OFFSET_OUT_OF_RANGE})
"""Errors after which the log does not contain the requested offset."""


def read_log(
    bootstrap_servers: str,
    topic: str,
    end_offsets: Mapping[int, int],
    token: int,
    settings: Mapping[str, str],
    timeout_s: float,
    log: Path | None = None,
    begin_offsets: Mapping[int, int] | None = None,
    text: TextValueFormat | None = None,
    identity: Identity = "value",
    *,
    check_crcs: bool = True,
) -> pa.Table:
    """Return the log of a topic, by partition and offset; schema `LOG`.

    Offsets without a record (transaction markers, aborted or compacted records) are skipped: a
    partition is at its end once the record just before the end offset was received, a later one
    was, or the broker reported that nothing is left below the end offset.

    Args:
        bootstrap_servers: the brokers' addresses.
        topic: the topic's name.
        end_offsets: the exclusive end of each partition; partitions without one are not read.
        token: identifies the trial's records.
        settings: the consumer's settings; those that the final read needs override them.
        timeout_s: limit for the entire read.
        log: the file for librdkafka's log; `None`: no log.
        begin_offsets: where to begin in each partition; default 0.
        text: the format of text values; `None`: values are binary (`librdkafka.value`).
        identity: where the records have their identity.
        check_crcs: whether a batch with a wrong CRC is an error. Without it the records are
            returned as they are stored.

    Raises:
        CrcMismatch: the CRC of a batch does not match its content.
        HarnessError: a partition was not read to its end in time, does not contain its begin
            offset, or changed during the read; or the cluster does not permit to read it.
    """
    from ackbench.experiments.trial.clients.consumer.assigned import AssignedConsumer

    begins = {number: (begin_offsets or {}).get(number, 0) for number in end_offsets}
    begins = {number: begin for number, begin in begins.items() if begin < end_offsets[number]}
    if not begins:
        return LOG.empty_table()
    merged = {
        **consumer_settings(settings),
        **_REQUIRED,
        "check.crcs": str(check_crcs).lower(),
        **connection_settings(bootstrap_servers),
    }
    with AssignedConsumer(merged, token, anchor_ns(), log, text, identity=identity) as consumer:
        consumer.assign(topic, begins)
        consumer.set_end_offsets({number: end_offsets[number] for number in begins})
        tables = [
            part for rows in _chunks(consumer, topic, timeout_s) for part in _by_partition(rows)
        ]
    return pa.concat_tables([table for _, table in sorted(tables, key=itemgetter(0))])


def _chunks(consumer: AssignedConsumer, topic: str, timeout_s: float) -> Iterator[Records]:
    """Read every partition to its end; yield the rows whenever the reused buffer is full."""
    rows, filled, until_s = np.zeros(CHUNK_RECORDS, ReadRow), 0, time.monotonic() + timeout_s
    while not consumer.all_read():
        before = filled
        filled = consumer.read(rows, filled, _SLICE_S)
        if offsets := consumer.crc_failed_offsets():
            raise CrcMismatch(topic, offsets)
        consumer.raise_on_errors(_OFFSET_GONE | AUTHORIZATION_ERRORS)
        if time.monotonic() > until_s and not consumer.all_read():
            raise HarnessError(
                f"the final read of {topic} did not reach the end within {timeout_s:g} s:"
                f" {consumer.describe_lag()}"
            )
        if filled == before or filled < rows.size // 2:
            continue
        yield rows[:filled]
        filled = 0
    if consumer.partitions["went_back"].any():
        repeated = np.flatnonzero(consumer.partitions["went_back"]).tolist()
        raise HarnessError(
            f"{topic} changed during the final read:"
            f" offsets were received twice in partitions {repeated}"
        )
    yield rows[:filled]


def _by_partition(rows: Records) -> Iterator[tuple[int, pa.Table]]:
    """Split a chunk by partition; librdkafka already delivers each partition in offset order."""
    rows = rows[np.argsort(rows["partition"], kind="stable")]
    numbers, begins = np.unique(rows["partition"], return_index=True)
    for number, begin, end in (
        zip(numbers, begins, [*begins[1:], rows.size], strict=True) if rows.size else ()
    ):
        yield int(number), to_log_table(rows[begin:end])
