"""Copiers with transactions on a real broker: one is killed, one becomes a zombie.

Each record is visible in the output once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec

from ackbench.experiments.ledger.trial_manifest import Keys, Status
from ackbench.experiments.planning.faults import fault_parameters
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.sweep.workload import Copiers
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.faults.composition.notation import parse_fault
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.cluster
RECORDS = 5_000
LOAD = Workload(
    rate_records_per_s=200,
    record_size_bytes=100,
    duration_s=25,
    keys=Keys(count=8),
    producers=1,
    copies=Copiers(copiers=2, delivery="exactly-once"),
)
SHORT_SESSION = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "300",
    "max.poll.interval.ms": "6000",
}
FAULT = "copier-crash(at_s=1, restart_after_s=0.5) >> copier-pause(at_s=10, pause_s=10)"
"""The session of the killed copier ends at 7 s, another owns the partition at 11.5 s, and its own
session ends at 17.5 s: four seconds each for a busy machine.
"""


@pytest.mark.further
def test_pending_records_of_a_killed_and_a_removed_copier_are_visible_once(
    cache: Path, tmp_path: Path
) -> None:
    """Their uncommitted copies are in the output and not visible; the group committed all."""
    cluster = provision(tmp_path / "clusters", cache, "copies", ClusterSpec(nodes=1))
    try:
        spec = a_spec(
            partitions=1,
            replication_factor=1,
            producer=producer_settings({"enable.idempotence": "true"}),
            consumer=consumer_settings(SHORT_SESSION),
            topic={"min.insync.replicas": "1"},
            workload=LOAD,
            fault=parse_fault(FAULT).with_leaves(
                lambda leaf: leaf.model_copy(
                    update={"parameters": fault_parameters(leaf.kind, leaf.parameters)}
                )
            ),
        )
        record = run_trial(SweepFolder(tmp_path / "sweep"), spec, cluster, Home(tmp_path / "home"))
    finally:
        cluster.destroy()
    assert record.status is Status.SEALED, record.reason
    assert " ".join(record.fault.evidence).count("copied and not committed") == 2
    assert "the group had removed the member" in " ".join(record.fault.evidence)
    ledger = tmp_path / "sweep" / "trials" / record.trial_id
    log, output, reads = (
        pq.read_table(ledger / f"{name}.parquet").to_pylist() for name in ("log", "output", "reads")
    )
    assert {row["seq"] for row in log} == set(range(RECORDS))
    assert Counter(row["seq"] for row in output if row["visible"]) == Counter(range(RECORDS))
    assert sum(not row["visible"] for row in output) > 0
    assert Counter(row["seq"] for row in reads if row["consumer"] == 0) == Counter(range(RECORDS))
    assert Counter(row["seq"] for row in reads if row["consumer"] > 0) == Counter(range(RECORDS))
