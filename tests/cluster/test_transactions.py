"""A producer dies in a transaction on a real cluster: what it left is shown to nobody, and the other's records wait behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec

from experiments.clients.settings.librdkafka import consumer_settings, producer_settings
from experiments.ledger.record import Status
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import FaultRequest, Workload
from experiments.trial.run import run_trial
from infra.cluster.local import provision
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home

pytestmark = pytest.mark.cluster
TIMEOUT_MS = 4000
SPEC = ClusterSpec(
    nodes=1, broker={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
)
LOAD = Workload(
    rate_records_per_s=1000,
    record_size_bytes=100,
    duration_s=5,
    keys=0,
    producers=2,
    transaction_records=100,
    abort_every=4,
)
TIMES = dict.fromkeys(
    ("transaction.timeout.ms", "delivery.timeout.ms", "socket.timeout.ms"), str(TIMEOUT_MS)
)
PRODUCER = {"enable.idempotence": "true", "transactional.id": "ackbench", **TIMES}
Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def tables(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """The ledger of one trial: two producers, of which one dies in mid-transaction."""
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


def test_the_dead_producer_has_abandoned_its_last_transaction(tables: Tables) -> None:
    """The other one's were committed, but for each fourth."""
    ends = {
        producer: [
            row["outcome"]
            for row in tables["transactions"].to_pylist()
            if row["producer"] == producer
        ]
        for producer in (0, 1)
    }
    assert (ends[0][-1], ends[0].count("abandoned")) == ("abandoned", 1)
    assert ends[1] == ["aborted" if number % 4 == 0 else "committed" for number in range(1, 26)]


def test_only_what_was_committed_is_shown_and_all_of_it(tables: Tables) -> None:
    """The log holds what was aborted and abandoned as well."""
    ends = {
        (row["producer"], row["transaction"]): row["outcome"]
        for row in tables["transactions"].to_pylist()
    }
    told = {
        (row["producer"], row["seq"]): ends[row["producer"], row["transaction"]]
        for row in tables["attempts"].to_pylist()
    }
    shown = {(row["producer"], row["seq"]): row["visible"] for row in tables["log"].to_pylist()}
    assert {record for record, visible in shown.items() if visible} == {
        record for record, end in told.items() if end == "committed"
    }
    assert {told[record] for record, visible in shown.items() if not visible} == {
        "aborted",
        "abandoned",
    }


def test_the_reader_received_what_is_shown(tables: Tables) -> None:
    """Each record once; it is a read_committed consumer."""
    shown = {(row["producer"], row["seq"]) for row in tables["log"].to_pylist() if row["visible"]}
    received = [(row["producer"], row["seq"]) for row in tables["reads"].to_pylist()]
    assert Counter(received) == Counter(shown)


def test_the_reader_stood_still_behind_the_open_transaction(tables: Tables) -> None:
    """From where it began to where the coordinator aborted it; not before its timeout, less what it was open already."""
    (stuck,), (moved,) = (
        [row for row in tables["events"].to_pylist() if row["kind"] == kind]
        for kind in ("last_stable_offset_stuck", "last_stable_offset_advanced")
    )
    received = [
        row["received_ns"] for row in tables["reads"].to_pylist() if row["offset"] > stuck["offset"]
    ]
    assert min(received) >= stuck["at_ns"]
    assert moved["offset"] > stuck["offset"]
