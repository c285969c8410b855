"""Which topics' records expire in a trial, and what is known of them when they are gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.clients.consumer.expiry import expires, read_before
from experiments.clients.consumer.reads import ReadsFile


@pytest.mark.parametrize(
    ("topic", "broker", "soon"),
    [
        ({}, {}, False),
        ({"retention.bytes": "4194304"}, {}, True),
        ({"retention.ms": "2000"}, {}, True),
        ({"retention.ms": "604800000"}, {"log.retention.ms": "1000"}, False),
        ({}, {"log.retention.bytes": "1000"}, True),
        ({}, {"log.retention.ms": "null", "log.retention.bytes": "-1"}, False),
    ],
)
def test_records_expire_where_little_is_kept(
    topic: dict[str, str], broker: dict[str, str], *, soon: bool
) -> None:
    """A topic's own setting counts before its brokers'."""
    assert expires(topic, broker) is soon


def test_what_was_given_below_the_begin_is_kept_in_order_and_once(tmp_path: Path) -> None:
    """Of an offset that was given twice, what came last: the log may have been cut in between."""
    file = ReadsFile(tmp_path / "reads")
    given = [(1, 0, 10), (0, 1, 11), (0, 0, 12), (0, 5, 13), (0, 1, 99)]
    for at, (partition, offset, seq) in enumerate(given):
        row = file.rows[at : at + 1]
        row["partition"], row["offset"], row["seq"], row["received_ns"] = partition, offset, seq, at
    file.filled = len(given)
    told = read_before(tmp_path / "reads", {0: 5})
    assert list(
        zip(
            told["partition"].to_pylist(),
            told["offset"].to_pylist(),
            told["seq"].to_pylist(),
            strict=True,
        )
    ) == [(0, 0, 12), (0, 1, 99)]
    assert read_before(tmp_path / "reads", {}).num_rows == 0
    assert np.all(told["visible"].to_numpy())
