"""Inversions: records that are behind a later one of the same key, partition or pair.

    inverted = { r : a record of the same producer and key (or partition) with a higher seq has an
                     earlier position }
    position = in the log: the offset of the first copy; for consumers: the time of first receipt

Consumers' lags are here too, because they are measured on the same reads: the time from a record's
intended time to its receipt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ackbench.experiments.ledger.trial_manifest import KeyOptions
from ackbench.experiments.ledger.workload_tables import OrderObserver, OrderScope
from ackbench.spark_jobs.io.arrays import LogRows, Reads, UnitArrays
from ackbench.spark_jobs.io.columns import NO_NUMBER, NULL, BoolColumn, IntColumn
from ackbench.spark_jobs.measures.availability import rows_by_number
from ackbench.spark_jobs.measures.order import stream_numbers


@dataclass(frozen=True)
class Positions:
    """The position of each record that an observer saw, one row per record."""

    observer: OrderObserver
    record: IntColumn
    producer: IntColumn
    seq: IntColumn
    partition: IntColumn
    place: IntColumn
    """The offset, or the time of receipt in nanoseconds."""


def log_positions(log: LogRows) -> Positions:
    """Return each record's first copy: that in the lowest partition, at the lowest offset."""
    known = np.flatnonzero(log.record != NO_NUMBER)
    rows = known[np.unique(log.record[known], return_index=True)[1]]
    return Positions(
        OrderObserver.LOG,
        log.record[rows],
        log.producer[rows],
        log.seq[rows],
        log.partition[rows],
        log.offset[rows],
    )


def receipt_positions(reads: Reads) -> Positions:
    """Return each record's first receipt by any consumer; at equal times, of the lowest partition.

    Args:
        reads: of those consumers that count.
    """
    known = np.flatnonzero(reads.record != NO_NUMBER)
    order = known[np.lexsort([reads.partition[known], reads.received_ns[known]])]
    rows = order[np.unique(reads.record[order], return_index=True)[1]]
    return Positions(
        OrderObserver.CONSUMERS,
        reads.record[rows],
        reads.producer[rows],
        reads.seq[rows],
        reads.partition[rows],
        reads.received_ns[rows],
    )


def order_rows(unit: UnitArrays, reads: Reads, keying: KeyOptions) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `ORDERS`, without trial_id; no row if nothing can be compared.

    Args:
        unit: an entire trial, with keys.
        reads: of a group's members, or else of the concurrent consumer.
        keying: the trial's.
    """
    for positions in (log_positions(unit.log), receipt_positions(reads)):
        yield from _key_orders(unit, positions)
        yield from _partition_orders(positions)
        if keying.pairs != "none":
            yield from _pair_orders(positions, keying.pair_apart_records)


def _key_orders(unit: UnitArrays, positions: Positions) -> Iterator[Mapping[str, Any]]:
    key = np.full(len(unit.ids), NULL)
    if unit.attempts.key is not None:
        key[unit.attempts.record] = unit.attempts.key
    keyed = key[positions.record] != NULL
    streams = [positions.producer[keyed], key[positions.record][keyed]]
    if positions.observer == OrderObserver.LOG:
        streams.append(positions.partition[keyed])  # a log has no order between its partitions
    inverted = _count_behind(positions.place[keyed], positions.seq[keyed], *streams)
    yield from _row(OrderScope.KEY, positions, int(keyed.sum()), inverted)


def _partition_orders(positions: Positions) -> Iterator[Mapping[str, Any]]:
    inverted = _count_behind(
        positions.place, positions.seq, positions.producer, positions.partition
    )
    yield from _row(OrderScope.PARTITION, positions, len(positions.seq), inverted)


def _count_behind(place: IntColumn, seq: IntColumn, *streams: IntColumn) -> int:
    """Count the records after one of their stream with a higher seq.

    Of two records at one place, the one with the lower seq counts as the first.
    """
    order = np.lexsort([seq, place])
    stream = stream_numbers(*(column[order] for column in streams))
    return int(is_behind(stream, seq[order]).sum())


def is_behind(stream: IntColumn, seq: IntColumn) -> BoolColumn:
    """Return which rows have an earlier row of their stream with a higher seq.

    Args:
        stream: of each row; rows of one stream are in order, other rows may be between them.
        seq: of each row.
    """
    if not len(seq):
        return np.zeros(0, bool)
    order = None if (stream[1:] >= stream[:-1]).all() else np.argsort(stream, kind="stable")
    if order is not None:
        stream, seq = stream[order], seq[order]
    # Each stream's values are above all those of the streams before it, so that one running
    # maximum over all rows is the running maximum of each stream.
    value = stream_numbers(stream, seq)
    behind = value < np.maximum.accumulate(value)
    if order is None:
        return behind
    unsorted = np.empty(len(behind), bool)
    unsorted[order] = behind
    return unsorted


def _pair_orders(positions: Positions, apart_records: int) -> Iterator[Mapping[str, Any]]:
    """Count the pairs whose second record is before the first; a pair needs both records.

    `experiments.trial.clients.record.keys.record_pairs` defines which records form a pair.
    """
    compared = inverted = apart = 0
    for producer in np.unique(positions.producer):
        rows = np.flatnonzero(positions.producer == producer)
        rows = rows[np.argsort(positions.seq[rows])]
        seq = positions.seq[rows]
        second = np.minimum(np.searchsorted(seq, seq + apart_records), len(seq) - 1)
        is_pair = (seq[second] == seq + apart_records) & (seq % (2 * apart_records) < apart_records)
        one, other = rows[is_pair], rows[second[is_pair]]
        is_apart = positions.partition[one] != positions.partition[other]
        has_order = ~is_apart | (positions.observer == OrderObserver.CONSUMERS)
        apart += int(is_apart.sum())
        compared += int(has_order.sum())
        inverted += int((has_order & (positions.place[other] < positions.place[one])).sum())
    if compared or apart:
        yield from _row(OrderScope.PAIR, positions, compared, inverted, apart)


def _row(
    within: OrderScope, positions: Positions, compared: int, inverted: int, apart: int = 0
) -> Iterator[Mapping[str, Any]]:
    if compared or within == OrderScope.PAIR:
        yield {
            "within": within.value,
            "observer": positions.observer.value,
            "compared": compared,
            "inverted": inverted,
            "apart": apart,
        }


def lag_rows(reads: Reads) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `LAGS`, without trial_id.

    The median of an even number of reads is the mean of the middle two.
    """
    of_trial = reads.where(reads.intended_ns != NULL)
    for consumer, rows in rows_by_number(of_trial.consumer):
        lag = np.sort(of_trial.received_ns[rows] - of_trial.intended_ns[rows])
        middle = (int(lag[(len(lag) - 1) // 2]) + int(lag[len(lag) // 2])) / 2
        yield {
            "consumer": consumer,
            "records": len(lag),
            "median_ns": int(middle),
            "max_ns": int(lag[-1]),
        }
