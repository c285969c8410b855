"""Rows of memory become the ledger's tables: what nobody told is null."""

import numpy as np

from experiments.clients.consumer.reads import Read, log_of
from experiments.clients.record.layout import Origin


def test_an_epoch_that_the_client_was_not_told_is_null() -> None:
    """Of batches that carry none librdkafka says -1, which is no leader's epoch."""
    rows = np.zeros(3, Read)
    rows["leader_epoch"] = [-1, 0, 7]
    assert log_of(rows)["leader_epoch"].to_pylist() == [None, 0, 7]


def test_a_strangers_record_has_its_leaders_epoch_all_the_same() -> None:
    """The broker wrote it into the batch, whoever the record is of."""
    rows = np.zeros(1, Read)
    rows["leader_epoch"], rows["origin"] = 4, Origin.OTHER
    assert log_of(rows)["leader_epoch"].to_pylist() == [4]
