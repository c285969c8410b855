"""Where keys went, and what came behind a later one, once more in plain Python and a record at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from support.reference.hashing import bytes_of, crc32_partition, murmur2_partition

from experiments.ledger.schema import ACKED
from spark_jobs.planted import PlantedTrial

Counts = dict[str, int | None]
Inversions = dict[tuple[str, str], tuple[int, int, int]]
"""Compared, inverted and apart, by what there is an order within and who saw it."""


def key_counts(trial: PlantedTrial) -> dict[str, Counts]:
    """Return the counts of each era."""
    keying, before, after = (
        trial.keying,
        trial.partitions or 0,
        max(trial.partitions or 0, len({row.partition for row in trial.log})),
    )
    assert keying is not None
    placed: dict[str, dict[int, set[int]]] = {"before": defaultdict(set), "after": defaultdict(set)}
    for row in trial.attempts:
        if (
            row.outcome == ACKED
            and row.key is not None
            and row.partition is not None
            and (era := _era(trial, row.producer, row.seq, row.sent_ns))
        ):
            placed[era][row.key].add(row.partition)
    settled = {
        era: {key: min(where) for key, where in of.items() if len(where) == 1}
        for era, of in placed.items()
    }
    found: dict[str, Counts] = {}
    for era, partitions in (("before", before), ("after", after)):
        right = [
            (
                murmur2_partition(data, partitions) == where,
                crc32_partition(data, partitions) == where,
            )
            for key, where in settled[era].items()
            for data in [bytes_of(key, text=keying.text)]
        ]
        known = (
            [key for key in settled[era] if key in settled["before"]] if era == "after" else None
        )
        found[era] = {
            "partitions": partitions,
            "keys": len(placed[era]),
            "single_partition_keys": len(settled[era]),
            "murmur2_keys": sum(one for one, _ in right),
            "crc32_keys": sum(other for _, other in right),
            "known_keys": None if known is None else len(known),
            "unmoved_keys": None
            if known is None
            else sum(settled["before"][key] == settled["after"][key] for key in known),
        }
    return {era: counts for era, counts in found.items() if era == "before" or counts["keys"]}


def _era(trial: PlantedTrial, producer: int, seq: int, sent_ns: int | None) -> str | None:
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
class _Seen:
    producer: int
    seq: int
    partition: int
    place: int


def inversions(trial: PlantedTrial) -> Inversions:
    """Return what came behind a later one, in the log and as consumers received it; what there is none of is left out."""
    log = [
        _Seen(row.producer, row.seq, row.partition, row.offset)
        for row in trial.log
        if row.producer is not None and row.seq is not None and row.intact
    ]
    grouped = any(event.kind == "group" for event in trial.events)
    reads = [
        _Seen(row.producer, row.seq, row.partition, row.received_ns)
        for row in trial.reads
        if row.producer is not None and row.seq is not None and (row.consumer > 0 or not grouped)
    ]
    seen = {"log": _firsts(log, by_partition=True), "consumers": _firsts(reads, by_partition=False)}
    return {
        (within, by): counts for by, rows in seen.items() for within, counts in _of(trial, by, rows)
    }


def _firsts(rows: Iterable[_Seen], *, by_partition: bool) -> list[_Seen]:
    first: dict[tuple[int, int], _Seen] = {}
    for row in sorted(
        rows,
        key=lambda one: (one.partition, one.place) if by_partition else (one.place, one.partition),
    ):
        first.setdefault((row.producer, row.seq), row)
    return list(first.values())


def _of(
    trial: PlantedTrial, by: str, rows: list[_Seen]
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    keys = {(row.producer, row.seq): row.key for row in trial.attempts}
    keyed = [row for row in rows if keys.get((row.producer, row.seq)) is not None]
    if keyed:
        yield (
            "key",
            _late(
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
        yield "partition", _late(((row.producer, row.partition), row) for row in rows)
    if (
        trial.keying
        and trial.keying.pairs != "none"
        and (both := list(_both(trial.keying.pair_apart_records, rows)))
    ):
        apart = [first.partition != second.partition for first, second in both]
        ordered = [
            pair for pair, is_apart in zip(both, apart, strict=True) if by != "log" or not is_apart
        ]
        yield (
            "pair",
            (
                len(ordered),
                sum(second.place < first.place for first, second in ordered),
                sum(apart),
            ),
        )


def _late(rows: Iterable[tuple[tuple[object, ...], _Seen]]) -> tuple[int, int, int]:
    streams: dict[tuple[object, ...], list[_Seen]] = defaultdict(list)
    for stream, row in rows:
        streams[stream].append(row)
    late = 0
    for of in streams.values():
        highest = -1
        for row in sorted(of, key=lambda one: (one.place, one.seq)):
            late += row.seq < highest
            highest = max(highest, row.seq)
    return sum(map(len, streams.values())), late, 0


def _both(apart: int, rows: list[_Seen]) -> Iterator[tuple[_Seen, _Seen]]:
    by_id = {(row.producer, row.seq): row for row in rows}
    for row in rows:
        if row.seq % (2 * apart) < apart and (second := by_id.get((row.producer, row.seq + apart))):
            yield row, second
