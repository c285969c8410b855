"""The reference for key partitioning and order, record by record in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from support.reference.hashing import crc32_partition, key_bytes, murmur2_partition

from ackbench.experiments.ledger.terms import ACKED
from ackbench.spark_jobs.planted import PlantedTrial

Counts = dict[str, int | None]
Inversions = dict[tuple[str, str], tuple[int, int, int]]
"""Records compared, inverted, and apart; by order scope and by where it was observed."""


def key_counts(trial: PlantedTrial) -> dict[str, Counts]:
    """Return the counts before and after partitions were added."""
    keying = trial.keying
    assert keying is not None
    before = trial.partitions or 0
    after = max(before, len({row.partition for row in trial.log}))
    placed: dict[str, dict[int, set[int]]] = {"before": defaultdict(set), "after": defaultdict(set)}
    for row in trial.attempts:
        if (
            row.outcome == ACKED
            and row.key is not None
            and row.partition is not None
            and (period := _period(trial, row.producer, row.seq, row.sent_ns))
        ):
            placed[period][row.key].add(row.partition)
    settled = {
        period: {key: min(partitions) for key, partitions in by_key.items() if len(partitions) == 1}
        for period, by_key in placed.items()
    }
    counts_by_period: dict[str, Counts] = {}
    for period, partitions in (("before", before), ("after", after)):
        matches = [
            (
                murmur2_partition(data, partitions) == partition,
                crc32_partition(data, partitions) == partition,
            )
            for key, partition in settled[period].items()
            for data in [key_bytes(key, text=keying.text)]
        ]
        known = None
        if period == "after":
            known = [key for key in settled[period] if key in settled["before"]]
        counts_by_period[period] = {
            "partitions": partitions,
            "keys": len(placed[period]),
            "single_partition_keys": len(settled[period]),
            "murmur2_keys": sum(murmur2 for murmur2, _ in matches),
            "crc32_keys": sum(crc32 for _, crc32 in matches),
            "known_keys": None if known is None else len(known),
            "unmoved_keys": None
            if known is None
            else sum(settled["before"][key] == settled["after"][key] for key in known),
        }
    return {
        period: counts
        for period, counts in counts_by_period.items()
        if period == "before" or counts["keys"]
    }


def _period(trial: PlantedTrial, producer: int, seq: int, sent_ns: int | None) -> str | None:
    new = [
        row.seq
        for row in trial.attempts
        if row.producer == producer
        and row.outcome == ACKED
        and (row.partition or 0) >= (trial.partitions or 0)
    ]
    if new and seq >= min(new):
        return "after"
    changed_ns = trial.phases.fault_begin_ns
    return (
        "before"
        if not new or (sent_ns is not None and changed_ns is not None and sent_ns < changed_ns)
        else None
    )


@dataclass(frozen=True)
class _ObservedRecord:
    producer: int
    seq: int
    partition: int
    position: int
    """Its offset in the log, or when it was received."""


def inversions(trial: PlantedTrial) -> Inversions:
    """Return the out-of-order records, in the log and as consumers received them.

    Scopes without records are left out.
    """
    log = [
        _ObservedRecord(row.producer, row.seq, row.partition, row.offset)
        for row in trial.log
        if row.producer is not None and row.seq is not None and row.intact
    ]
    grouped = any(event.kind == "group" for event in trial.events)
    reads = [
        _ObservedRecord(row.producer, row.seq, row.partition, row.received_ns)
        for row in trial.reads
        if row.producer is not None and row.seq is not None and (row.consumer > 0 or not grouped)
    ]
    observed = {
        "log": _first_occurrences(log, by_partition=True),
        "consumers": _first_occurrences(reads, by_partition=False),
    }
    return {
        (scope, by): counts
        for by, rows in observed.items()
        for scope, counts in _scopes(trial, by, rows)
    }


def _first_occurrences(
    rows: Iterable[_ObservedRecord], *, by_partition: bool
) -> list[_ObservedRecord]:
    first: dict[tuple[int, int], _ObservedRecord] = {}
    for row in sorted(
        rows,
        key=lambda one: (
            (one.partition, one.position) if by_partition else (one.position, one.partition)
        ),
    ):
        first.setdefault((row.producer, row.seq), row)
    return list(first.values())


def _scopes(
    trial: PlantedTrial, by: str, rows: list[_ObservedRecord]
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    keys = {(row.producer, row.seq): row.key for row in trial.attempts}
    keyed = [row for row in rows if keys.get((row.producer, row.seq)) is not None]
    if keyed:
        yield (
            "key",
            _count_late(
                (
                    (
                        row.producer,
                        keys[row.producer, row.seq],
                        row.partition if by == "log" else 0,
                    ),
                    row,
                )
                for row in keyed
            ),
        )
    if rows:
        yield "partition", _count_late(((row.producer, row.partition), row) for row in rows)
    if (
        trial.keying
        and trial.keying.pairs != "none"
        and (pairs := list(_pairs(trial.keying.pair_apart_records, rows)))
    ):
        apart = [first.partition != second.partition for first, second in pairs]
        ordered = [
            pair for pair, is_apart in zip(pairs, apart, strict=True) if by != "log" or not is_apart
        ]
        yield (
            "pair",
            (
                len(ordered),
                sum(second.position < first.position for first, second in ordered),
                sum(apart),
            ),
        )


def _count_late(rows: Iterable[tuple[tuple[object, ...], _ObservedRecord]]) -> tuple[int, int, int]:
    streams: dict[tuple[object, ...], list[_ObservedRecord]] = defaultdict(list)
    for stream, row in rows:
        streams[stream].append(row)
    late = 0
    for stream_rows in streams.values():
        highest = -1
        for row in sorted(stream_rows, key=lambda one: (one.position, one.seq)):
            late += row.seq < highest
            highest = max(highest, row.seq)
    return sum(map(len, streams.values())), late, 0


def _pairs(
    apart: int, rows: list[_ObservedRecord]
) -> Iterator[tuple[_ObservedRecord, _ObservedRecord]]:
    by_id = {(row.producer, row.seq): row for row in rows}
    for row in rows:
        if row.seq % (2 * apart) < apart and (second := by_id.get((row.producer, row.seq + apart))):
            yield row, second
