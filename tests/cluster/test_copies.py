"""Copiers on a real broker: one is killed, one becomes a zombie.

With transactions each record is visible in the output once, whichever client the copiers run on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_fault, a_spec

from ackbench.experiments.ledger.trial_manifest import Keys, Status, TrialManifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.sweep.workload import Copiers, Delivery
from ackbench.experiments.trial.clients.settings import java, librdkafka
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


@dataclass(frozen=True)
class Copied:
    """A trial of copiers, and the rows of its ledger."""

    trial: TrialManifest
    log: list[dict[str, Any]]
    output: list[dict[str, Any]]
    reads: list[dict[str, Any]]


@pytest.fixture
def copied(cache: Path, tmp_path: Path) -> Callable[..., Copied]:
    """Runs a trial in which a copier is killed, and another one removed from the group."""

    def run(settings: ModuleType, delivery: Delivery = "exactly-once", **more: Any) -> Copied:
        copies = Copiers(copiers=2, delivery=delivery)
        cluster = provision(tmp_path / "clusters", cache, "copies", ClusterSpec(nodes=1))
        try:
            spec = a_spec(
                partitions=1,
                replication_factor=1,
                producer=settings.producer_settings({"enable.idempotence": "true"}),
                consumer=settings.consumer_settings(SHORT_SESSION),
                topic={"min.insync.replicas": "1"},
                workload=LOAD.model_copy(update={"copies": copies}),
                fault=a_fault(FAULT),
                **more,
            )
            sweep = SweepFolder(tmp_path / "sweep")
            record = run_trial(sweep, spec, cluster, Home(tmp_path / "home"))
        finally:
            cluster.destroy()
        ledger = sweep.trial(record.trial_id)
        rows = (
            pq.read_table(ledger / f"{name}.parquet").to_pylist()
            for name in ("log", "output", "reads")
        )
        return Copied(record, *rows)

    return run


@pytest.mark.further
def test_pending_records_of_a_killed_and_a_removed_copier_are_visible_once(
    copied: Callable[..., Copied],
) -> None:
    """Their uncommitted copies are in the output and not visible; the group committed all."""
    found = copied(librdkafka)
    record, log, output, reads = found.trial, found.log, found.output, found.reads
    assert record.status is Status.SEALED, record.reason
    assert " ".join(record.fault.evidence).count("copied and not committed") == 2
    assert "the group had removed the member" in " ".join(record.fault.evidence)
    assert {row["seq"] for row in log} == set(range(RECORDS))
    assert Counter(row["seq"] for row in output if row["visible"]) == Counter(range(RECORDS))
    assert sum(not row["visible"] for row in output) > 0
    assert Counter(row["seq"] for row in reads if row["consumer"] == 0) == Counter(range(RECORDS))
    assert Counter(row["seq"] for row in reads if row["consumer"] > 0) == Counter(range(RECORDS))


@pytest.mark.further
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "at-most-once"])
def test_java_s_copiers_deliver_what_they_are_meant_to(
    copied: Callable[..., Copied], delivery: Delivery
) -> None:
    """They are killed and removed wherever they are, as no fault can hold their program."""
    found = copied(java, delivery, client="java")
    assert found.trial.status is Status.SEALED, found.trial.reason
    evidence = " ".join(found.trial.fault.evidence)
    assert evidence.count("wherever it was") == 2
    assert "the group had removed the member" in evidence
    copies = Counter(row["seq"] for row in found.output if row["visible"])
    reported = Counter(row["seq"] for row in found.reads if row["consumer"] > 0)
    assert {row["seq"] for row in found.log} == set(range(RECORDS))
    assert reported.keys() <= copies.keys()
    if delivery != "at-most-once":
        assert copies.keys() == set(range(RECORDS))
    if delivery != "at-least-once":
        assert copies.total() == len(copies)
