"""Received records become the ledger's tables; unknown values are null."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ackbench.experiments.trial.clients.consumer.reads import (
    ReadRow,
    ReadsFile,
    load_expired_records,
    to_log_table,
)
from ackbench.experiments.trial.clients.record.layout import Origin


def test_an_unknown_leader_epoch_is_null() -> None:
    """For a batch without one, librdkafka reports -1, which is no valid epoch."""
    rows = np.zeros(3, ReadRow)
    rows["leader_epoch"] = [-1, 0, 7]
    assert to_log_table(rows)["leader_epoch"].to_pylist() == [None, 0, 7]


def test_a_foreign_record_keeps_its_leader_epoch() -> None:
    """The broker wrote the epoch into the batch, whoever produced the record."""
    rows = np.zeros(1, ReadRow)
    rows["leader_epoch"], rows["origin"] = 4, Origin.OTHER
    assert to_log_table(rows)["leader_epoch"].to_pylist() == [4]


def test_expired_records_are_returned_in_order_and_once(tmp_path: Path) -> None:
    """Of an offset that was received twice the last record counts: the log may be truncated."""
    file = ReadsFile(tmp_path / "reads")
    received = [(1, 0, 10), (0, 1, 11), (0, 0, 12), (0, 5, 13), (0, 1, 99)]
    for at, (partition, offset, seq) in enumerate(received):
        row = file.rows[at : at + 1]
        row["partition"], row["offset"], row["seq"], row["received_ns"] = partition, offset, seq, at
    file.filled = len(received)
    expired = load_expired_records(tmp_path / "reads", {0: 5})
    assert list(
        zip(
            expired["partition"].to_pylist(),
            expired["offset"].to_pylist(),
            expired["seq"].to_pylist(),
            strict=True,
        )
    ) == [(0, 0, 12), (0, 1, 99)]
    assert load_expired_records(tmp_path / "reads", {}).num_rows == 0
    assert np.all(expired["visible"].to_numpy())
