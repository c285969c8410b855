"""How the concurrent consumer ended: whether it reached the end of every partition."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class ConsumerEnding:
    """How the concurrent consumer ended, as its `consumer_end` event reports."""

    at_ns: int
    at_end: bool
    """Whether it reached the end of every partition."""


def consumer_ending(events: pa.Table) -> ConsumerEnding | None:
    """Return how a trial's concurrent consumer ended; `None`: there is no such event.

    If there were several, the latest end, and whether all reached the end of the log.

    Args:
        events: kind, at_ns, detail; the detail of `consumer_end` is a JSON object with `at_end`.
    """
    ends = events.filter(pc.field("kind") == "consumer_end").to_pylist()
    if not ends:
        return None
    return ConsumerEnding(
        max(end["at_ns"] for end in ends),
        all(json.loads(end["detail"])["at_end"] for end in ends),
    )
