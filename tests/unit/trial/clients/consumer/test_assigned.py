"""A consumer with assigned partitions: also one of a release that assigns all of them together."""

from __future__ import annotations

import numpy as np
import pytest
from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.trial.clients.consumer import assigned
from ackbench.experiments.trial.clients.consumer.assigned import AssignedConsumer
from ackbench.experiments.trial.clients.consumer.loop import BATCH_RECORDS
from ackbench.experiments.trial.clients.consumer.reads import ReadRow
from ackbench.experiments.trial.clients.settings.librdkafka import consumer_settings

RECORDS, TOKEN = 2000, 77


@pytest.mark.parametrize("incremental", [True, False], ids=["incremental", "before 1.6.0"])
def test_each_record_is_read_once_although_a_partition_is_assigned_later(
    incremental: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition that is being read already goes on where it is."""
    monkeypatch.setattr(assigned, "has_function", lambda _name: incremental)
    with MockBrokers(1) as brokers:
        brokers.create_topic("assigned", 2)
        brokers.write("assigned", 2, RECORDS, TOKEN)
        settings = {**consumer_settings({}), "bootstrap.servers": brokers.bootstrap_servers}
        rows = np.zeros(RECORDS + 2 * BATCH_RECORDS, ReadRow)
        with AssignedConsumer(settings, TOKEN, 0, None) as consumer:
            consumer.assign("assigned", {0: 0})
            filled = 0
            while not filled:
                filled = consumer.read(rows[: 2 * BATCH_RECORDS], filled, 1)
            consumer.assign("assigned", {1: 0})
            while filled < RECORDS:
                filled = consumer.read(rows, filled, 1)
    assert sorted(rows["seq"][:filled].tolist()) == list(range(RECORDS))
