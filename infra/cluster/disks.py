"""The disks of a cluster's nodes: their faults and their contents, for any user of the cluster."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.cluster.supervisor_protocol import (
    DiskAction,
    DiskRequest,
    SupervisorReply,
    SupervisorRequest,
)
from ackbench.infra.disk import damage
from ackbench.infra.disk.damage import FlippedBit, fill_disk, flip_bit, free_disk
from ackbench.infra.kafka.kraft import LOG_DIR
from ackbench.infra.kafka.replica_files import (
    RecordBatch,
    ReplicaLog,
    read_batches_of_file,
    read_replica_log,
    segment_files,
    truncate_to_recovery_points,
)
from ackbench.infra.kafka.storage import META_PROPERTIES

SYNCED_BYTES: Final = 16_384
_PROBE: Final = "probe"
"""A file in Kafka's log folder; Kafka takes only folders for partitions."""


@dataclass(frozen=True)
class Disks:
    """The disks of all nodes of a cluster."""

    node_folder: Callable[[int], Path]
    """Returns the folder of a node."""
    send: Callable[[SupervisorRequest], SupervisorReply]
    """Sends a request to the cluster's supervisor."""

    def lose_power(self, node_ids: Sequence[int]) -> frozenset[int]:
        """Cut the power of nodes and their disks at once.

        The nodes are left stopped. Their disks are mounted again, with what was synced to them.

        Returns:
            The nodes whose disks lost data that was not synced: a file that was written to each
            disk a moment before is gone.

        Raises:
            SupervisorError: a disk cannot lose power.
            HarnessError: a disk could not be mounted again.
        """
        canaries = {node_id: damage.write_canary(self.log_dir(node_id)) for node_id in node_ids}
        self._act("lose_power", node_ids)
        return frozenset(
            node_id
            for node_id, canary in canaries.items()
            if damage.canary_lost(self.log_dir(node_id), canary)
        )

    def shut_down(self, node_id: int) -> None:
        """Shut a disk down under a running node: its file system refuses reads and writes.

        Raises:
            SupervisorError: this kind of disk cannot be shut down.
        """
        self._act("shut_down", [node_id])

    def bring_back(self, node_id: int) -> None:
        """Mount the disk of a stopped node again.

        Raises:
            SupervisorError: this kind of disk cannot be shut down.
            HarnessError: the disk could not be mounted.
        """
        self._act("bring_back", [node_id])

    def replace(self, node_id: int) -> None:
        """Replace the disk of a stopped node by an empty one, formatted as at the first start.

        Raises:
            SupervisorError: the node runs.
        """
        self._act("replace", [node_id])

    def directory_id(self, node_id: int) -> str | None:
        """Return the id that Kafka gave to the node's log folder when it formatted it (KIP-858).

        `None`: this version of Kafka gives none.
        """
        text = self.log_dir(node_id).joinpath(META_PROPERTIES).read_text()
        line = re.search(r"(?m)^directory\.id=(.*)$", text)
        return line.group(1) if line else None

    def limit(self, node_id: int, write_bytes_per_s: int | None) -> None:
        """Limit the write rate of a disk; `None` removes the limit.

        Raises:
            SupervisorError: this kind of disk cannot be limited.
        """
        self._act("limit", [node_id], write_bytes_per_s)

    def fill(self, node_id: int) -> int:
        """Allocate every free block of a disk; return how many bytes are still available."""
        return fill_disk(self.log_dir(node_id))

    def free(self, node_id: int) -> None:
        """Release the blocks that `fill` allocated; a second call has no effect."""
        free_disk(self.log_dir(node_id))

    def truncate_to_recovery_points(self, node_id: int) -> int:
        """Truncate a stopped node's logs to their recovery points; return the bytes removed.

        See `infra.kafka.replica_files`.
        """
        return truncate_to_recovery_points(self.log_dir(node_id))

    def synced_write_s(self, node_id: int) -> float:
        """Write `SYNCED_BYTES` to a disk and sync them; return how long that took, seconds."""
        return _synced_write_s(self.log_dir(node_id) / _PROBE)

    def flip_bit(
        self, node_id: int, topic: str, partition: int, below_offset: int
    ) -> FlippedBit | None:
        """Flip one bit of a record below an offset in one replica; see `infra.disk.damage`."""
        return flip_bit(self.log_dir(node_id) / f"{topic}-{partition}", below_offset)

    def replica_log(self, node_id: int, topic: str, partition: int) -> ReplicaLog:
        """Return the current state of a node's replica of a partition."""
        return read_replica_log(self.log_dir(node_id), node_id, topic, partition)

    def record_batches(self, node_id: int, topic: str, partition: int) -> Iterator[RecordBatch]:
        """Yield the record batches in a node's replica of a partition, as its files hold them."""
        for segment in segment_files(self.log_dir(node_id) / f"{topic}-{partition}"):
            yield from read_batches_of_file(segment)

    def log_dir(self, node_id: int) -> Path:
        """Return the node's log folder (Kafka's `log.dirs`)."""
        return self.node_folder(node_id) / LOG_DIR

    def _act(
        self, action: DiskAction, node_ids: Sequence[int], write_bytes_per_s: int | None = None
    ) -> None:
        self.send(DiskRequest(action, tuple(node_ids), write_bytes_per_s))


def _synced_write_s(probe: Path) -> float:
    began_s = time.monotonic()
    with probe.open("wb") as file:
        file.write(os.urandom(SYNCED_BYTES))
        file.flush()
        os.fsync(file.fileno())
    took_s = time.monotonic() - began_s
    probe.unlink()
    return took_s
