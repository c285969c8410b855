"""The final read: the whole log of a topic, from its partitions' starts to ends that were fixed before. Never a short table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from experiments.clients.consumer.reads import Read, log_of
from experiments.clients.librdkafka.library import AUTO_OFFSET_RESET, LOG_TRUNCATION
from experiments.clients.process.mapped_file import Records
from experiments.clients.record.layout import TextValueFormat
from experiments.clients.settings.librdkafka import consumer_settings
from experiments.errors import CrcMismatch
from experiments.events.clock import anchor_ns
from experiments.ledger.schema import LOG
from infra.errors import HarnessError

if TYPE_CHECKING:
    from experiments.clients.consumer.assigned import AssignedConsumer

CHUNK_RECORDS: Final = 1 << 18
_SLICE_S: Final = 0.2
"""How long the compiled loop runs before an interrupt from the keyboard is heard."""

_REQUIRED: Final[dict[str, str]] = {
    # A log that does not begin at the offset asked for is to be an error and not a jump.
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
}
_GONE: Final = frozenset({AUTO_OFFSET_RESET, LOG_TRUNCATION, 1})
"""The log does not hold the offset asked for (1 is OFFSET_OUT_OF_RANGE)."""


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
    *,
    check_crcs: bool = True,
) -> pa.Table:
    """Return the log, by partition and offset; schema `LOG`.

    Offsets that hold no record (transaction markers, aborted or compacted records) are passed over: a partition is read to
    its end when a record at or past the end's predecessor came, or the broker said that there is nothing below the end.

    Args:
        bootstrap_servers: the addresses.
        topic: its name.
        end_offsets: the exclusive end of each partition; those that are not named are not read.
        token: whose records are ours.
        settings: the consumer's; what the final read relies on is set on top.
        timeout_s: for the whole read.
        log: the file for librdkafka's log; without one there is none.
        begin_offsets: where to begin, 0 where not named.
        text: how values look that are text; `None`: values are those of `value`.
        check_crcs: whether each batch must be the one that its CRC was made of; without, records are taken as they lie there.

    Raises:
        CrcMismatch: a batch is not the one that its CRC was made of.
        HarnessError: a partition could not be read to its end, or does not hold its beginning, or changed meanwhile.
    """
    from experiments.clients.consumer.assigned import AssignedConsumer

    begins = {number: (begin_offsets or {}).get(number, 0) for number in end_offsets}
    begins = {number: begin for number, begin in begins.items() if begin < end_offsets[number]}
    if not begins:
        return LOG.empty_table()
    wanted = {
        **consumer_settings(settings),
        **_REQUIRED,
        "check.crcs": str(check_crcs).lower(),
        "bootstrap.servers": bootstrap_servers,
    }
    with AssignedConsumer(wanted, token, anchor_ns(), log, text) as consumer:
        consumer.assign(topic, begins)
        consumer.end_at({number: end_offsets[number] for number in begins})
        tables = [
            part for rows in _chunks(consumer, topic, timeout_s) for part in _by_partition(rows)
        ]
    return pa.concat_tables([table for _, table in sorted(tables, key=itemgetter(0))])


def _chunks(consumer: AssignedConsumer, topic: str, timeout_s: float) -> Iterator[Records]:
    """Read on until every partition is at its end; give what was read whenever the room is full: it is used again."""
    rows, filled, until_s = np.zeros(CHUNK_RECORDS, Read), 0, time.monotonic() + timeout_s
    while not consumer.all_read():
        before = filled
        filled = consumer.read(rows, filled, _SLICE_S)
        if refused := consumer.refused_offsets():
            raise CrcMismatch(topic, refused)
        consumer.raise_if_lost(_GONE)
        if time.monotonic() > until_s and not consumer.all_read():
            raise HarnessError(
                f"read {topic} for {timeout_s:g} s and did not come to its end: {consumer.where()}"
            )
        if filled == before or filled < rows.size // 2:
            continue
        yield rows[:filled]
        filled = 0
    if consumer.partitions["went_back"].any():
        raise HarnessError(
            f"{topic} changed while it was read: offsets came twice in partitions {np.flatnonzero(consumer.partitions['went_back']).tolist()}"
        )
    yield rows[:filled]


def _by_partition(rows: Records) -> Iterator[tuple[int, pa.Table]]:
    """Sort a chunk by partition; within one it is in order already, for librdkafka hands a partition's records on in order."""
    rows = rows[np.argsort(rows["partition"], kind="stable")]
    numbers, begins = np.unique(rows["partition"], return_index=True)
    for number, begin, end in (
        zip(numbers, begins, [*begins[1:], rows.size], strict=True) if rows.size else ()
    ):
        yield int(number), log_of(rows[begin:end])
