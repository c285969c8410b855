"""How a topic's records lie in the log: batches and their bytes, by partition and second, as the leaders' own files have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from experiments.ledger.record import Frozen
from experiments.plan import TrialSpec
from infra.cluster import Cluster
from infra.disk.batches import Batch

STORED: Final = "stored"
"""The kind of the event, one for each partition."""
_MS_PER_S: Final = 1000


class StoredBatches(Frozen):
    """What one partition's log holds, by whole seconds since the load's begin, of a batch that of its last record; what is older is left out."""

    batches: dict[int, int]
    bytes: dict[int, int]
    """With the batches' headers, and compressed where they are."""


def stored_batches(spec: TrialSpec, cluster: Cluster, topic: str, load_begin_ns: int) -> Iterator[tuple[int, StoredBatches]]:
    """Give what each partition's leader holds; nothing where nobody asks, or where the files are out of reach.

    Args:
        spec: the trial.
        cluster: whole; its logs do not grow any more.
        topic: the trial's.
        load_begin_ns: since the epoch.
    """
    if not spec.workload.placement or spec.cluster.external:
        return
    for state in cluster.describe([topic]).of(topic):
        if state.leader is not None:
            yield state.partition, by_second(cluster.disks.batches(state.leader, topic, state.partition), load_begin_ns // 1_000_000)


def by_second(batches: Iterable[Batch], begin_ms: int) -> StoredBatches:
    """Count batches and bytes by second. Pure."""
    counts, sizes = Counter[int](), Counter[int]()
    for batch in batches:
        second = (batch.max_timestamp_ms - begin_ms) // _MS_PER_S
        if second >= 0:
            counts[second] += 1
            sizes[second] += batch.size_bytes
    return StoredBatches(batches=dict(counts), bytes=dict(sizes))
