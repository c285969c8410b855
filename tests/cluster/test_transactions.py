"""A producer crashes in a transaction on a real cluster.

Its records stay invisible, and those of the other producer wait behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec

from ackbench.experiments.ledger.trial_manifest import Keys, Status
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Workload
from ackbench.experiments.sweep.workload import Transactions
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.cluster
TIMEOUT_MS = 4000
SPEC = ClusterSpec(
    nodes=1, broker={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
)
LOAD = Workload(
    rate_records_per_s=1000,
    record_size_bytes=100,
    duration_s=6,
    keys=Keys(count=0),
    producers=2,
    # Longer than a commit takes on a busy machine: a producer that is behind by more than a
    # transaction sends each at once, and is never seen within one.
    transactions=Transactions(records=250, abort_every=4),
)
TIMES = dict.fromkeys(
    ("transaction.timeout.ms", "delivery.timeout.ms", "socket.timeout.ms"), str(TIMEOUT_MS)
)
PRODUCER = {"enable.idempotence": "true", "transactional.id": "ackbench", **TIMES}
Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def tables(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """Return the ledger of one trial: one of two producers crashes in a transaction."""
    folder = tmp_path_factory.mktemp("transactions")
    provisioned = provision(folder / "clusters", cache, "transactions", SPEC)
    try:
        spec = a_spec(
            producer=producer_settings(PRODUCER),
            consumer=consumer_settings({}),
            topic={"min.insync.replicas": "1"},
            replication_factor=1,
            workload=LOAD,
            fault=FaultRequest(kind="transaction-abandoned", parameters={"at_s": 1.0}),
        )
        sweep = SweepFolder(folder / "sweep")
        record = run_trial(sweep, spec, provisioned, Home(folder / "home"))
        assert record.status is Status.SEALED, record.reason
        yield {
            name: pq.read_table(sweep.trial(record.trial_id) / f"{name}.parquet")
            for name in ("attempts", "transactions", "log", "reads", "events")
        }
    finally:
        provisioned.destroy()


def test_the_crashed_producer_has_abandoned_its_last_transaction(tables: Tables) -> None:
    """Every fourth one of the other producer is aborted; the rest are committed."""
    ends = {
        producer: [
            row["outcome"]
            for row in tables["transactions"].to_pylist()
            if row["producer"] == producer
        ]
        for producer in (0, 1)
    }
    assert (ends[0][-1], ends[0].count("abandoned")) == ("abandoned", 1)
    asked = LOAD.transactions
    assert asked is not None
    assert ends[1] == [
        "committed" if number % asked.abort_every else "aborted"
        for number in range(1, LOAD.records // LOAD.producers // asked.records + 1)
    ]


def test_exactly_the_committed_records_are_visible(tables: Tables) -> None:
    """The log has the aborted and abandoned ones as well."""
    ends = {
        (row["producer"], row["transaction"]): row["outcome"]
        for row in tables["transactions"].to_pylist()
    }
    outcomes = {
        (row["producer"], row["seq"]): ends[row["producer"], row["transaction"]]
        for row in tables["attempts"].to_pylist()
    }
    visibility = {
        (row["producer"], row["seq"]): row["visible"] for row in tables["log"].to_pylist()
    }
    assert {record for record, visible in visibility.items() if visible} == {
        record for record, end in outcomes.items() if end == "committed"
    }
    assert {outcomes[record] for record, visible in visibility.items() if not visible} == {
        "aborted",
        "abandoned",
    }


def test_the_concurrent_consumer_received_the_visible_records(tables: Tables) -> None:
    """It is a read_committed consumer, and received each of them once."""
    visible = {(row["producer"], row["seq"]) for row in tables["log"].to_pylist() if row["visible"]}
    received = [(row["producer"], row["seq"]) for row in tables["reads"].to_pylist()]
    assert Counter(received) == Counter(visible)


def test_the_concurrent_consumer_waits_behind_the_open_transaction(tables: Tables) -> None:
    """It receives records beyond the last stable offset only after that was noted as stuck."""
    (stuck,), (advanced,) = (
        [row for row in tables["events"].to_pylist() if row["kind"] == kind]
        for kind in ("last_stable_offset_stuck", "last_stable_offset_advanced")
    )
    received = [
        row["received_ns"] for row in tables["reads"].to_pylist() if row["offset"] > stuck["offset"]
    ]
    assert min(received) >= stuck["at_ns"]
    assert advanced["offset"] > stuck["offset"]
