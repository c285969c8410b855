"""A commit that arrives in the next transaction, on a real cluster with transaction.version=2.

librdkafka's transaction is torn. Java's client speaks the version, and the late commit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.set_up_home import SET_UP

from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Keys, Status
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Workload
from ackbench.experiments.sweep.workload import Transactions
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.kafka.spec import ClusterSpec

pytestmark = [pytest.mark.cluster, pytest.mark.further]
TRANSACTION_RECORDS = 1500
LOAD = Workload(
    rate_records_per_s=500,
    record_size_bytes=100,
    duration_s=6,
    keys=Keys(count=0),
    producers=1,
    transactions=Transactions(records=TRANSACTION_RECORDS),
)
PRODUCER = {
    "acks": "all",
    "enable.idempotence": "true",
    "transactional.id": "ackbench",
    "socket.timeout.ms": "1000",
    "transaction.timeout.ms": "10000",
    "delivery.timeout.ms": "10000",
}


@pytest.fixture(scope="module")
def relayed(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node behind a relay."""
    cluster = provision(
        tmp_path_factory.mktemp("clusters"),
        cache,
        "delayed",
        ClusterSpec(nodes=1, network="relays", features={"transaction.version": 2}),
    )
    yield cluster
    cluster.destroy()


def run_delayed(
    cluster: LocalCluster, folder: Path, client: ClientKind, kind: str
) -> tuple[FaultEvidence, dict[int, int]]:
    """Run a trial; return the fault's evidence, and the visible records of each transaction."""
    choice, consumer = ClientChoice(kind=client), {"isolation.level": "read_committed"}
    spec = a_spec(
        client=client,
        producer=choice.producer_settings(PRODUCER),
        consumer=choice.consumer_settings(consumer),
        topic={"min.insync.replicas": "1"},
        replication_factor=1,
        workload=LOAD,
        fault=FaultRequest(kind=kind, parameters={"at_s": 1.0}),
    )
    sweep = SweepFolder(folder / "sweep")
    record = run_trial(sweep, spec, cluster, SET_UP)
    assert record.status is Status.SEALED, record.reason
    log: list[dict[str, Any]] = pq.read_table(
        sweep.trial(record.trial_id) / "log.parquet"
    ).to_pylist()
    visible = [row["seq"] // TRANSACTION_RECORDS for row in log if row["visible"]]
    return record.fault, {number: visible.count(number) for number in (0, 1)}


def sent_version(evidence: FaultEvidence) -> int:
    """Return the version of the request that was held."""
    match = re.search(r"a relay held \w+ v(\d+) to node 1", " ".join(evidence.evidence))
    assert match, evidence
    return int(match[1])


def test_a_late_commit_tears_librdkafkas_next_transaction(
    relayed: LocalCluster, tmp_path: Path
) -> None:
    """It sends EndTxn 1, which every cluster takes for the current transaction (KAFKA-17754).

    If this fails, librdkafka may have learnt transaction.version=2: then change the contract.
    """
    evidence, visible = run_delayed(relayed, tmp_path, "librdkafka", "end-txn-delayed")
    assert evidence.took_effect, evidence
    assert sent_version(evidence) <= 4
    assert visible[0] == TRANSACTION_RECORDS
    assert 0 < visible[1] < TRANSACTION_RECORDS


@pytest.mark.further
def test_a_late_commit_of_javas_client_is_refused(relayed: LocalCluster, tmp_path: Path) -> None:
    """EndTxn 5 carries the epoch of its transaction (KIP-890), and the next one is committed."""
    evidence, visible = run_delayed(relayed, tmp_path, "java", "end-txn-delayed")
    assert evidence.took_effect, evidence
    assert sent_version(evidence) >= 5
    assert "answered with error 0" not in " ".join(evidence.evidence)
    assert visible == {0: TRANSACTION_RECORDS, 1: TRANSACTION_RECORDS}


def test_a_late_batch_is_not_appended_again(relayed: LocalCluster, tmp_path: Path) -> None:
    """The leader knows its sequence number."""
    evidence, visible = run_delayed(
        relayed, tmp_path, "librdkafka", "transactional-produce-delayed"
    )
    assert evidence.took_effect, evidence
    assert visible == {0: TRANSACTION_RECORDS, 1: TRANSACTION_RECORDS}
