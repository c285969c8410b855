"""Each replica's `leader-epoch-checkpoint`: at which offset each leader's epoch begins in the log that it has.

Kafka writes the file whole under another name and renames it (`CheckpointFile`): a version, how many entries follow, and an entry a line.
https://cwiki.apache.org/confluence/display/KAFKA/KIP-101+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infra.errors import HarnessError
from infra.kafka.spec import LeaderEpoch

CHECKPOINT: Final = "leader-epoch-checkpoint"
_VERSION: Final = 0


def leader_epochs_in(data: Path, node_id: int, topic: str) -> Iterator[LeaderEpoch]:
    """Give the epochs of the topic's replicas in a node's data folder, by partition and epoch; a replica without the file tells none.

    Raises:
        HarnessError: a file is not of the known form; the text names it.
    """
    for partition, folder in sorted(_replicas(data, topic)):
        path = folder / CHECKPOINT
        if path.is_file():
            yield from (
                LeaderEpoch(node_id, partition, epoch, offset)
                for epoch, offset in read_checkpoint(path.read_text(), path)
            )


def read_checkpoint(text: str, path: Path) -> tuple[tuple[int, int], ...]:
    """Return leader epochs and their first offsets; Kafka makes the file with nothing in it, and writes it whole with the first epoch.

    Raises:
        HarnessError: that is no such file, or it is cut short.
    """
    if not text:
        return ()
    try:
        version, count, *entries = text.splitlines()
        epochs = tuple(
            (int(epoch), int(offset)) for epoch, offset in (entry.split() for entry in entries)
        )
        known = int(version) == _VERSION and int(count) == len(epochs)
    except ValueError as error:
        raise HarnessError(f"{path} is no leader-epoch checkpoint: {error}") from error
    if not known:
        raise HarnessError(
            f"{path} is of version {version} with {count} entries and holds {len(epochs)}; known is version {_VERSION}, whole"
        )
    return epochs


def _replicas(data: Path, topic: str) -> Iterator[tuple[int, Path]]:
    """A replica's folder is `<topic>-<partition>`; what is being deleted has another ending."""
    for folder in data.glob(f"{topic}-*"):
        number = folder.name.removeprefix(f"{topic}-")
        if number.isdecimal():
            yield int(number), folder
