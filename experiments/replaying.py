"""The replays of a trial: its log, read again when all is over, twice from its first offsets and once from a timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from experiments.clients.replay import first_offsets_after, replay
from experiments.ledger.record import Replay
from experiments.reading_back import ReadBack


@dataclass(frozen=True)
class Replays:
    """What was read."""

    told: tuple[Replay, ...]
    table: pa.Table
    """Schema `REPLAYS`."""


def replays_of(servers: str, topic: str, back: ReadBack, token: int, consumer: Mapping[str, str], at_ms: int) -> Replays:  # noqa: PLR0913, PLR0917 - as told
    """Replay a log.

    Args:
        servers: the addresses.
        topic: its name.
        back: the final read: where its partitions begin and end.
        token: whose records are ours.
        consumer: what was asked for of consumers.
        at_ms: the timestamp of the third replay.

    Raises:
        HarnessError: a partition could not be read to its end.
    """
    begins = {partition: back.begin_offsets.get(partition, 0) for partition in back.end_offsets}
    after = first_offsets_after(servers, topic, tuple(begins), at_ms)
    told = (Replay(number=1, begin_offsets=begins), Replay(number=2, begin_offsets=begins), Replay(number=3, begin_offsets=after, at_ms=at_ms))
    return Replays(told, pa.concat_tables([replay(servers, topic, one.number, one.begin_offsets, back.end_offsets, token, consumer) for one in told]))
