"""Topics whose records expire while a trial lasts: retention is held at its end, and what had expired is told by who read it while it was there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.ledger.schema import LOG

HELD: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""A topic with these keeps what it has (https://kafka.apache.org/documentation/#topicconfigs_retention.bytes)."""
_LASTS_MS: Final = 3_600_000
"""What is kept for an hour does not expire in a trial."""


def expires(topic: Mapping[str, str], broker: Mapping[str, str]) -> bool:
    """Tell whether a topic with these settings may delete records in the course of a trial."""
    kept_ms = _number(topic.get("retention.ms") or broker.get("log.retention.ms"))
    kept_bytes = _number(topic.get("retention.bytes") or broker.get("log.retention.bytes"))
    return kept_bytes >= 0 or 0 <= kept_ms < _LASTS_MS


def _number(text: str | None) -> int:
    """A broker that has no limit says -1, or nothing."""
    return int(text) if text is not None and text.isdigit() else -1


def read_before(reads: Path, begins: Mapping[int, int]) -> pa.Table:
    """Return what a reader was given of the log that had expired by its end; of an offset that it was given twice, what it was given last. Schema `LOG`.

    Args:
        reads: the reader's mapping.
        begins: where each partition's log began at the end.

    Raises:
        HarnessError: it left nothing.
    """
    import numpy as np

    from experiments.clients.consumer.reads import log_of, reads_in

    rows = reads_in(reads)
    starts = np.zeros(
        1 + max(max(begins, default=0), int(rows["partition"].max(initial=0))), np.int64
    )
    for partition, begin in begins.items():
        starts[partition] = begin
    rows = rows[rows["offset"] < starts[rows["partition"]]]
    rows = rows[np.lexsort((rows["received_ns"], rows["offset"], rows["partition"]))]
    last = np.ones(rows.size, np.bool_)
    last[:-1] = (rows["offset"][:-1] != rows["offset"][1:]) | (
        rows["partition"][:-1] != rows["partition"][1:]
    )
    return log_of(rows[last]) if rows.size else LOG.empty_table()
