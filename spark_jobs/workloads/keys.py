"""Key placement: the partitions of each key, compared with the clients' partitioning formulas.

    Java (`BuiltInPartitioner.partitionForKey`): (murmur2(key) & 0x7fffffff) % partitions
    librdkafka's `murmur2` and `murmur2_random`: the same
    librdkafka's `consistent` and `consistent_random`, its default: crc32(key) % partitions

    single_partition = |keys whose acknowledged records went to one partition|
    unmoved          = of the keys that were in a single partition before and after partitions were
                       added, those in the same one

A producer that has sent a record to an added partition uses the new partition count from then on.
Records sent before the request to add partitions used the old count. Records in between are left
out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.ledger.workload_tables import ERAS
from ackbench.spark_jobs.io.arrays import Attempts
from ackbench.spark_jobs.io.columns import ACKED_CODE, NO_NUMBER, NULL, BoolColumn, IntColumn

_M: Final = 0x5BD1_E995
_SEED: Final = 0x9747_B28C
_LOW_32: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_WORD: Final = 4


def key_rows(attempts: Attempts, manifest: TrialManifest) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `KEYS`, without trial_id.

    No row if no record has a key; none of the second era if no key was sent in it.

    Args:
        attempts: of the entire trial, with keys.
        manifest: the trial's; it requests the placement of its keys.
    """
    if attempts.key is None or manifest.keying is None:
        return
    counts = (manifest.partitions, max(manifest.partitions, len(manifest.end_offsets)))
    acked = (attempts.outcome == ACKED_CODE) & (attempts.partition != NO_NUMBER)
    after, before = _eras(attempts, acked, manifest)
    eras = [
        _Placement.of(attempts.key[chosen], attempts.partition[chosen], manifest.keying.text, count)
        for chosen, count in ((acked & before & ~after, counts[0]), (acked & after, counts[1]))
    ]
    for name, era in zip(ERAS, eras, strict=True):
        if len(era.key) or (name == ERAS[0] and len(eras[1].key)):
            yield {"era": name, **era.counts(), **(_moves(*eras) if name == ERAS[1] else {})}


def _eras(
    attempts: Attempts, acked: BoolColumn, manifest: TrialManifest
) -> tuple[BoolColumn, BoolColumn]:
    """Return which attempts certainly used the new, and which the old partition count."""
    after, before = np.zeros(len(attempts), bool), np.zeros(len(attempts), bool)
    changed_ns = manifest.phases.fault_begin_ns
    has_key = attempts.key != NULL
    for producer in np.unique(attempts.producer):
        mine = attempts.producer == producer
        new = attempts.seq[mine & acked & (attempts.partition >= manifest.partitions)]
        if not len(new):
            before |= mine
            continue
        after |= mine & (attempts.seq >= new.min())
        if changed_ns is not None:
            before |= mine & (attempts.sent_ns != NULL) & (attempts.sent_ns < changed_ns)
    return after & has_key, before & has_key


@dataclass(frozen=True)
class _Placement:
    """Where each key's records went, in one era."""

    key: IntColumn
    """Distinct, ascending."""
    partition: IntColumn
    """`NO_NUMBER`: several."""
    text: bool
    partitions: int

    @classmethod
    def of(cls, key: IntColumn, partition: IntColumn, text: bool, partitions: int) -> _Placement:
        order = np.lexsort([partition, key])
        keys, first = np.unique(key[order], return_index=True)
        lowest = partition[order][first]
        highest = partition[order][np.append(first[1:], len(key))[: len(first)] - 1]
        return cls(keys, np.where(lowest == highest, lowest, NO_NUMBER), text, partitions)

    def counts(self) -> Mapping[str, int]:
        single = self.partition != NO_NUMBER
        values = key_bytes(self.key[single], text=self.text)
        partition = self.partition[single]
        return {
            "partitions": self.partitions,
            "keys": len(self.key),
            "single_partition_keys": int(single.sum()),
            "murmur2_keys": int((murmur2(values) % self.partitions == partition).sum()),
            "crc32_keys": int((crc32(values) % self.partitions == partition).sum()),
        }


def _moves(before: _Placement, after: _Placement) -> Mapping[str, int]:
    """Return how many keys were in a single partition in both eras, and in the same one."""
    _, one, other = np.intersect1d(before.key, after.key, return_indices=True)
    old, new = before.partition[one], after.partition[other]
    known = (old != NO_NUMBER) & (new != NO_NUMBER)
    return {"known_keys": int(known.sum()), "unmoved_keys": int((known & (old == new)).sum())}


# The clients' formulas.


def key_bytes(keys: IntColumn, *, text: bool) -> list[bytes]:
    """Return the bytes of keys: decimal digits, or a big-endian long."""
    if text:
        return [str(key).encode() for key in keys.tolist()]
    return [key.to_bytes(8, "big") for key in keys.tolist()]


def crc32(values: list[bytes]) -> IntColumn:
    """Return the CRC-32 of each value."""
    return np.fromiter(map(zlib.crc32, values), np.int64, len(values))


def murmur2(values: list[bytes]) -> IntColumn:
    """Return Kafka's murmur2 of each value, as `Utils.toPositive` makes it.

    The values are hashed side by side, four bytes at a time, in 32-bit arithmetic.
    """
    sizes = np.fromiter(map(len, values), np.uint64, len(values))
    words = -(-int(sizes.max(initial=0)) // _WORD)
    padded = b"".join(value.ljust(words * _WORD, b"\0") for value in values)
    word = np.frombuffer(padded, "<u4").reshape(len(values), words).astype(np.uint64)
    state = sizes ^ np.uint64(_SEED)
    for place in range(words):
        begin = np.uint64(place * _WORD)
        full = sizes >= begin + np.uint64(_WORD)
        rest = (sizes > begin) & ~full
        mixed = _times_m(word[:, place])
        mixed = _times_m(mixed ^ (mixed >> np.uint64(24)))
        state = np.where(
            full, _times_m(state) ^ mixed, np.where(rest, _times_m(state ^ word[:, place]), state)
        )
    state = _times_m(state ^ (state >> np.uint64(13)))
    return ((state ^ (state >> np.uint64(15))) & np.uint64(_POSITIVE)).astype(np.int64)


def _times_m(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return (value * np.uint64(_M)) & np.uint64(_LOW_32)
