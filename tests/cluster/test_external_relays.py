"""Relays in front of an external cluster with SASL_SSL, which rewrite its answers.

Clients stay behind them; the faults of their connections work without access to a broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.client_connections import ClientConnections, counted_connections
from support.external_brokers import ExternalBrokers, external_brokers
from support.external_sweeps import acls, left_in, run_all

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.cluster
TRANSACTION_RECORDS = 1500
SHORT = {"socket.timeout.ms": 1000}
LOAD = {"rate_records_per_s": 500, "duration_s": 4, "producers": 1}


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """Three brokers, which permit nothing to the user yet."""
    with external_brokers(cache, tmp_path_factory.mktemp("external"), count=3) as running:
        yield running


def run_relayed(
    home: Home, brokers: ExternalBrokers, fault: str, **changes: Any
) -> tuple[SweepFolder, TrialManifest, ClientConnections]:
    """Run one trial; return its sweep, its record, and the connections of its clients."""
    settings: dict[str, Any] = {
        "axes": {"acks": ["all"], "fault": [fault], "replication.factor": [3]},
        "workload": LOAD,
        "producer": {"enable.idempotence": False, **SHORT},
        **changes,
    }
    with counted_connections(brokers.ports(), brokers.pids()) as connections:
        sweep = run_all(home, brokers, acls(), **settings)
    (trial,) = sweep.plan().trials
    return sweep, read_trial_manifest(sweep.trial(trial.trial_id)), connections


def log_rows(sweep: SweepFolder, manifest: TrialManifest) -> list[dict[str, Any]]:
    """Return the rows of the trial's log."""
    rows: list[dict[str, Any]] = pq.read_table(
        sweep.trial(manifest.trial_id) / "log.parquet"
    ).to_pylist()
    return rows


@pytest.mark.further
def test_clients_without_a_fault_connect_to_brokers(home: Home, brokers: ExternalBrokers) -> None:
    """So the count sees direct connections where there are some."""
    _, _, connections = run_relayed(home, brokers, "none", workload={**LOAD, "duration_s": 1})
    assert connections.direct


@pytest.mark.further
@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_dropped_responses_cause_duplicates_and_no_client_bypasses_the_relays(
    home: Home, brokers: ExternalBrokers, client: str
) -> None:
    """The positive control for duplicates, on a cluster that is not touched."""
    sweep, record, connections = run_relayed(
        home,
        brokers,
        "relay-dropped",
        client=client,
        producer={
            "enable.idempotence": False,
            **({"request.timeout.ms": 1000} if client == "java" else SHORT),
        },
        faults={"relay-dropped": {"at_s": 1.0, "lasts_s": 2.0}},
    )
    assert record.fault.took_effect, record.fault
    copies = Counter((row["producer"], row["seq"]) for row in log_rows(sweep, record))
    assert max(copies.values()) > 1
    assert connections.direct == set()
    assert connections.others
    assert left_in(brokers) == set()


@pytest.mark.further
def test_a_held_commit_tears_the_next_transaction(home: Home, brokers: ExternalBrokers) -> None:
    """Librdkafka sends an EndTxn that every cluster takes for the current transaction."""
    sweep, record, connections = run_relayed(
        home,
        brokers,
        "end-txn-delayed",
        transactions={"records": TRANSACTION_RECORDS},
        producer={
            "enable.idempotence": True,
            "transaction.timeout.ms": 10_000,
            "delivery.timeout.ms": 10_000,
            **SHORT,
        },
        consumer={"isolation.level": "read_committed"},
        faults={"end-txn-delayed": {"at_s": 1.0}},
    )
    assert record.fault.took_effect, record.fault
    assert "a relay held EndTxn" in " ".join(record.fault.evidence)
    visible = Counter(
        row["seq"] // TRANSACTION_RECORDS for row in log_rows(sweep, record) if row["visible"]
    )
    assert visible[0] == TRANSACTION_RECORDS
    assert 0 < visible[1] < TRANSACTION_RECORDS
    assert connections.direct == set()


@pytest.mark.further
def test_unacknowledged_requests_that_a_relay_drops_are_lost(
    home: Home, brokers: ExternalBrokers
) -> None:
    """The positive control of a sweep on an external cluster."""
    sweep, record, connections = run_relayed(
        home,
        brokers,
        "relay-dropped",
        axes={"acks": [0], "fault": ["relay-dropped"], "replication.factor": [3]},
        faults={"relay-dropped": {"at_s": 1.0, "lasts_s": 1.0, "direction": "requests"}},
    )
    assert record.fault.took_effect, record.fault
    assert len({row["seq"] for row in log_rows(sweep, record)}) < 500 * 4 - 100
    assert connections.direct == set()


@pytest.mark.further
def test_consumer_groups_and_copiers_stay_behind_the_relays(
    home: Home, brokers: ExternalBrokers
) -> None:
    """Their coordinators' addresses are rewritten as well."""
    _, record, connections = run_relayed(
        home,
        brokers,
        "relay-held",
        copy={"copiers": 2, "delivery": "exactly-once"},
        producer={"enable.idempotence": True, **SHORT},
        faults={"relay-held": {"at_s": 1.0, "lasts_s": 2.0}},
    )
    assert record.fault.took_effect, record.fault
    assert connections.direct == set()
    assert len(connections.others) > 3
