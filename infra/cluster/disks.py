"""What can be done to the disks of a cluster's nodes, and what can be read off them; by any process that may use the cluster."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.cluster.supervisor_protocol import SupervisorAction, SupervisorReply, SupervisorRequest
from infra.disk import damage
from infra.disk.damage import FlippedBit, fill_disk, flip_bit, free_disk
from infra.kafka.kraft import LOG_DIR
from infra.kafka.replica_files import (
    RecordBatch,
    ReplicaLog,
    read_batches,
    read_replica_log,
    segment_files,
    truncate_to_recovery_points,
)
from infra.kafka.storage import META_PROPERTIES

SYNCED_BYTES: Final = 16_384
_PROBE: Final = "probe"
"""A file among Kafka's own, which takes no file for a partition's."""


@dataclass(frozen=True)
class Disks:
    """All nodes' disks."""

    node_folder: Callable[[int], Path]
    ask: Callable[[SupervisorRequest], SupervisorReply]
    """Has the cluster's supervisor do something."""

    def lose_power(self, node_ids: Sequence[int]) -> frozenset[int]:
        """Take power from nodes and their disks at once; the nodes are left stopped, their disks are back, with what they had kept.

        Returns:
            Whose disks lost what was not synced, as a file shows that was written to each a moment before.

        Raises:
            SupervisorError, HarnessError: they cannot lose power, or a disk did not come back.
        """
        songs = {node_id: damage.write_canary(self.log_dir(node_id)) for node_id in node_ids}
        self._do("lose_power", node_ids)
        return frozenset(
            node_id
            for node_id, song in songs.items()
            if damage.canary_lost(self.log_dir(node_id), song)
        )

    def shut_down(self, node_id: int) -> None:
        """Take a disk away under a node that runs.

        Raises:
            SupervisorError: it cannot be.
        """
        self._do("take_away", [node_id])

    def bring_back(self, node_id: int) -> None:
        """Give a stopped node its disk back.

        Raises:
            SupervisorError, HarnessError: it cannot be.
        """
        self._do("bring_back", [node_id])

    def replace(self, node_id: int) -> None:
        """Give a stopped node an empty disk, formatted as at its first start.

        Raises:
            SupervisorError: it runs.
        """
        self._do("replace", [node_id])

    def directory_id(self, node_id: int) -> str | None:
        """Return the id that Kafka gave the node's log folder when it was formatted (KIP-858); `None`: it has none."""
        told = re.search(
            r"(?m)^directory\.id=(.*)$", self.log_dir(node_id).joinpath(META_PROPERTIES).read_text()
        )
        return told.group(1) if told else None

    def limit(self, node_id: int, write_bytes_per_s: int | None) -> None:
        """Let no more than so much be written, or all it can take again.

        Raises:
            SupervisorError: it cannot be.
        """
        self._do("limit", [node_id], write_bytes_per_s)

    def fill(self, node_id: int) -> int:
        """Take every free block; return how many bytes are left for others."""
        return fill_disk(self.log_dir(node_id))

    def free(self, node_id: int) -> None:
        """Give the blocks back; a second time finds nothing to do."""
        free_disk(self.log_dir(node_id))

    def truncate_to_recovery_points(self, node_id: int) -> int:
        """Cut a stopped node's logs to what it had noted down as synced; return how many bytes that took. See `infra.kafka.replica_files`."""
        return truncate_to_recovery_points(self.log_dir(node_id))

    def synced_write_s(self, node_id: int) -> float:
        """Write `SYNCED_BYTES` to a node's disk, and return how long it took until they were there, seconds."""
        return _synced_write_s(self.log_dir(node_id) / _PROBE)

    def flip_bit(
        self, node_id: int, topic: str, partition: int, below_offset: int
    ) -> FlippedBit | None:
        """Flip one bit of a record of the node's copy that lies below an offset; see `infra.disk.damage`."""
        return flip_bit(self.log_dir(node_id) / f"{topic}-{partition}", below_offset)

    def replica_log(self, node_id: int, topic: str, partition: int) -> ReplicaLog:
        """What the node has of a partition now."""
        return read_replica_log(self.log_dir(node_id), node_id, topic, partition)

    def record_batches(self, node_id: int, topic: str, partition: int) -> Iterator[RecordBatch]:
        """Give the batches of the node's copy of a partition, as they lie there now."""
        for segment in segment_files(self.log_dir(node_id) / f"{topic}-{partition}"):
            yield from read_batches(segment.read_bytes())

    def log_dir(self, node_id: int) -> Path:
        """The node's log folder."""
        return self.node_folder(node_id) / LOG_DIR

    def _do(
        self, deed: SupervisorAction, node_ids: Sequence[int], write_bytes_per_s: int | None = None
    ) -> None:
        self.ask(
            SupervisorRequest(
                "disk", deed=deed, node_ids=tuple(node_ids), write_bytes_per_s=write_bytes_per_s
            )
        )


def _synced_write_s(probe: Path) -> float:
    began_s = time.monotonic()
    with probe.open("wb") as file:
        file.write(os.urandom(SYNCED_BYTES))
        file.flush()
        os.fsync(file.fileno())
    took_s = time.monotonic() - began_s
    probe.unlink()
    return took_s
