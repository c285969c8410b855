"""A user's program in the place of copiers: it crashes, and its output shows what it is worth."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_fault, a_spec

from ackbench.experiments.ledger.trial_manifest import Keys, Status, TrialManifest
from ackbench.experiments.messages.errors import TrialFailed
from ackbench.experiments.planning.workload import workload_of_application
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.sweep.workload import Copiers
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.io.units import Unit, read_unit
from ackbench.spark_jobs.pipeline import measure_unit, trial_tables

pytestmark = pytest.mark.cluster
PROGRAM = Path(__file__).parents[1] / "support" / "fakes" / "application.py"
RECORDS = 2_000
CRASH = "application-crash(at_s=3, restart_after_s=0.5)"
Trial = Callable[..., tuple[TrialManifest, Counter[int]]]


@pytest.fixture
def trial(cache: Path, tmp_path: Path) -> Trial:
    """Runs a trial of a program; returns its manifest, and how often the output has each record."""

    def run(
        program: str, delivery: str, fault: str, made: str = "as-it-is", **copies: str
    ) -> tuple[TrialManifest, Counter[int]]:
        cluster = provision(tmp_path / "clusters", cache, "application", ClusterSpec(nodes=1))
        try:
            load = Workload(
                rate_records_per_s=200,
                record_size_bytes=100,
                duration_s=10,
                keys=Keys(count=0 if copies.get("identity") == "key" else 8),
                copies=Copiers.model_validate(
                    {
                        "command": (sys.executable, str(PROGRAM), program, made),
                        "delivery": delivery,
                        **copies,
                    }
                ),
            )
            spec = a_spec(
                partitions=2,
                replication_factor=1,
                producer=producer_settings({"enable.idempotence": "true"}),
                consumer=consumer_settings({}),
                topic={"min.insync.replicas": "1"},
                workload=workload_of_application(load),
                fault=a_fault(fault),
            )
            sweep = SweepFolder(tmp_path / "sweep")
            record = run_trial(sweep, spec, cluster, Home(tmp_path / "home"))
        finally:
            cluster.destroy()
        assert record.status is Status.SEALED, record.reason
        output = pq.read_table(sweep.trial(record.trial_id) / "output.parquet").to_pylist()
        return record, Counter(row["seq"] for row in output if row["visible"])

    return run


@pytest.mark.further
def test_a_program_that_produces_first_misses_nothing_when_it_crashes(trial: Trial) -> None:
    """What it repeats is allowed; the evidence names the process that was killed."""
    record, copies = trial("at-least-once", "at-least-once", CRASH)
    assert set(copies) == set(range(RECORDS))
    assert "application 1.0 (process " in " ".join(record.fault.evidence)


@pytest.mark.further
def test_a_program_with_transactions_copies_each_record_once(trial: Trial) -> None:
    """Also those of the transaction that its crash aborted."""
    _, copies = trial("exactly-once", "exactly-once", CRASH)
    assert copies == Counter(range(RECORDS))


@pytest.mark.further
def test_a_program_that_commits_first_is_found_to_miss_records(
    trial: Trial, tmp_path: Path
) -> None:
    """Its first batch takes five seconds between the two steps, and the crash is in the third."""
    _, copies = trial("commits-first", "at-least-once", CRASH)
    missing = set(range(RECORDS)) - set(copies)
    assert missing
    ledgers = open_ledgers(str(tmp_path / "sweep"))
    unit = read_unit(ledgers.files, Unit(ledgers.trials[0]))
    (row,) = trial_tables(measure_unit(unit))["copies"].to_pylist()
    assert row["missed_records"] == len(missing)


@pytest.mark.further
@pytest.mark.parametrize(
    ("identity", "made", "value"),
    [
        ("header", "with its headers", {}),
        ("key", "with its key", {}),
        ("text", "its order", {"value": '{"order": "{id}", "amount": 5}'}),
    ],
)
def test_a_program_that_changes_the_values_is_judged_by_what_it_passes_on(
    trial: Trial, identity: str, made: str, value: dict[str, str]
) -> None:
    """It commits after it has produced: its crash repeats records, and misses none."""
    _, copies = trial("at-least-once", "at-least-once", CRASH, made, identity=identity, **value)
    assert set(copies) == set(range(RECORDS))


@pytest.mark.further
def test_a_program_that_swallows_the_identity_is_no_program_that_misses_records(
    trial: Trial,
) -> None:
    """The trial fails with the reason."""
    with pytest.raises(TrialFailed, match=f"{RECORDS} of {RECORDS} records .* have no identity"):
        trial("at-least-once", "at-least-once", "none", "nothing of it", identity="header")
