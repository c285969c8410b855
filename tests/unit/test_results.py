"""What the rest of the project reads of a sweep: plan, trials and Spark's tables, joined."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.errors import LedgerError, UnknownName
from experiments.ledger.measured import CELLS, FATES, GAPS, LATENCY, RESULTS, TRIALS
from experiments.ledger.record import Cell, FaultEvidence, Phases, Status
from experiments.plan import ClusterNeed, FaultRequest, Plan, RefusedCell, TrialSpec, Workload
from experiments.results import SweepResults, read_results
from experiments.sweep_folder import SweepFolder
from spark_jobs.planted import Attempt, PlantedTrial

CELL: Cell = {"acks": "1", "fault": "leader-crash"}
REFUSED: Cell = {"acks": "0", "fault": "leader-crash"}
KEY = json.dumps(CELL, sort_keys=True)
PHASES = Phases(load_begin_ns=1_000_000_000, load_end_ns=2_000_000_000, settled_ns=2_000_000_000, whole_ns=2_000_000_000)
BIT = FaultEvidence(kind="leader-crash", targets=(2,), bit=True, evidence=("node 2 was gone",))


def _spec(trial_id: str, repeat: int = 0) -> TrialSpec:
    return TrialSpec(
        sweep_id="sweep",
        trial_id=trial_id,
        experiment="planted",
        cell=CELL,
        label="acks=1 leader-crash",
        repeat=repeat,
        order=0,
        seed=0,
        cluster=ClusterNeed(kafka_version="none"),
        replication_factor=1,
        partitions=1,
        producer={},
        consumer={},
        topic={},
        workload=Workload(rate_records_per_s=1, record_size_bytes=100, duration_s=1, keys=0, producers=1),
        fault=FaultRequest(kind="leader-crash"),
    )


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """A sweep of five planned trials and a refused cell, of which two ran, one void and one failed."""
    folder = SweepFolder(tmp_path / "sweep")
    specs = tuple(_spec(f"{number:03d}-planned", number) for number in range(4))
    refused = RefusedCell(trial_id="900-refused", cell=REFUSED, label="acks=0", reason="`acks` must be set to `all`")
    folder.write_plan(Plan(sweep_id="sweep", experiment="planted", question="?", seed=7, repeats=4, trials=specs, refused=(refused,)))
    PlantedTrial("000-planned", [Attempt(0, 0)], phases=PHASES, cell=CELL, fault=BIT).plant(folder.root)
    PlantedTrial("001-planned", [Attempt(0, 0)], phases=PHASES, cell=CELL, fault=BIT.model_copy(update={"bit": False}), status=Status.VOID).plant(folder.root)
    folder.failed("002-planned").mkdir()
    (folder.failed("002-planned") / "reason.txt").write_text("NodeFailed: it did not start\n")
    return folder


def _write_results(sweep: SweepFolder) -> None:
    """What Spark would write of the first trial: one lost for certain and one that may be."""
    counts = {"attempted": 9, "acked": 8, "rejected": 0, "unknown": 1, "lost_low": 1, "lost_high": 2, "duplicated": 1, "log": 10}
    shared = {f"{name}_records": value for name, value in counts.items()} | {"duplicate_copies": 3}
    quantiles = {"p50_us": 1500, "p90_us": 2000, "p99_us": 2500, "p99_9_us": 3000, "max_us": 3001}
    trial = {"trial_id": "000-planned", "cell": KEY, "status": "sealed", **shared, "unavailable_ns": 1_234_567, "attempted_per_s": 9.0, "acked_per_s": 8.0}
    cell = {name: None for name in CELLS.names if name.endswith(("_median", "_max"))} | {"ack_p99_us_median": 2500.0, "ack_p99_us_max": 2500.0}
    rows = {
        "trials": [trial],
        "fates": [{"trial_id": "000-planned", "outcome": "acked", "fate": "LOST", "records": 1, "duplicated_records": 0, "copies": 0}],
        "latency": [
            {"trial_id": "000-planned", "measure": "ack", "phase": phase, "records": 8, "negative_records": 0, **quantiles} for phase in ("all", "during")
        ],
        "gaps": [{"trial_id": "000-planned", "partition": 0, "acked_records": 8, "gap_ns": 1_234_567, "began_ns": 1_500_000_000}],
        "cells": [{"cell": KEY, "sealed_trials": 1, "void_trials": 1, "trials_with_loss": 1, "trials_with_duplicates": 1, **shared, **cell}],
    }
    sweep.results.mkdir()
    for name, schema in RESULTS.items():
        pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), sweep.results / f"{name}.parquet")


@pytest.fixture
def results(sweep: SweepFolder) -> SweepResults:
    """The sweep as read, once measured."""
    _write_results(sweep)
    return read_results(sweep)


def test_every_trial_has_its_status_and_reason(results: SweepResults) -> None:
    """Refused, failed, void and sealed ones; what has not run is pending."""
    assert [(trial.trial_id, trial.status.value, trial.reason) for trial in results.trials] == [
        ("000-planned", "sealed", None),
        ("001-planned", "void", None),
        ("002-planned", "failed", "NodeFailed: it did not start"),
        ("900-refused", "refused", "`acks` must be set to `all`"),
    ]
    assert (results.pending, results.unmeasured) == (("003-planned",), ("001-planned",))


def test_a_measured_trial_has_its_values_in_milliseconds(results: SweepResults) -> None:
    """From nanoseconds and microseconds, without a figure lost."""
    trial = results.trials[0]
    assert trial.latency_ms.ack is not None
    assert (trial.lost, trial.duplicates, trial.duplicated, trial.unavailable_ms, trial.throughput_rps) == ((1, 2), 3, 1, 1.234567, 8.0)
    assert (trial.latency_ms.ack.p50, trial.latency_ms.ack.max, trial.gaps[0].began_s) == (1.5, 3.001, 0.5)


def test_what_a_trial_does_not_have_is_null(results: SweepResults) -> None:
    """Never 0: nobody counted."""
    trials = {trial["trial_id"]: trial for trial in json.loads(results.to_json())["trials"]}
    valued = ("attempted", "acked", "rejected", "unknown", "lost", "duplicates", "unavailable_ms", "throughput_rps")
    assert {trials[name][value] for name in ("001-planned", "002-planned", "900-refused") for value in valued} == {None}
    assert trials["900-refused"]["latency_ms"] == {"ack": None, "end_to_end": None}
    assert trials["900-refused"]["fault"] == {"kind": "leader-crash", "parameters": {}, "targets": [], "bit": None, "evidence": []}


def test_a_trial_without_reads_has_no_end_to_end_latency(results: SweepResults) -> None:
    """And a phase that held no record has none either."""
    trial = results.trials[0]
    assert trial.latency_ms.end_to_end is None
    assert trial.latency_by_phase_ms.before.ack is None
    assert trial.latency_by_phase_ms.during.ack == trial.latency_ms.ack


def test_a_cell_tells_of_all_its_trials_and_judges_the_sealed(results: SweepResults) -> None:
    """Refused cells are listed with the client's reason."""
    cell, refused = results.cells
    assert (cell.planned_trials, cell.sealed_trials, cell.void_trials, cell.failed_trials, cell.lost) == (4, 1, 1, 1, (1, 2))
    assert cell.latency_ms.ack.p99 is not None
    assert (cell.latency_ms.ack.p99.median, cell.latency_ms.end_to_end.p99) == (2.5, None)
    assert (refused.refused, refused.planned_trials, refused.lost) == ("`acks` must be set to `all`", 0, None)


def test_the_object_has_the_keys_that_are_promised(results: SweepResults) -> None:
    """`docs/show-json.md` promises them to programs."""
    shown = json.loads(results.to_json())
    promised = {"trial_id", "cell", "status", "fault", "attempted", "acked", "rejected", "unknown", "lost", "duplicates"}
    promised |= {"latency_ms", "unavailable_ms", "throughput_rps", "reason"}
    assert {"sweep_id", "experiment", "trials", "cells"} <= shown.keys()
    assert promised <= shown["trials"][0].keys()
    assert {"p50", "p90", "p99", "p99_9", "max"} <= shown["trials"][0]["latency_ms"]["ack"].keys()
    assert shown["trials"][0]["fault"] == {"kind": "leader-crash", "parameters": {}, "targets": [2], "bit": True, "evidence": ["node 2 was gone"]}
    assert list(shown["trials"][0]["cell"]) == ["acks", "fault"]


def test_a_sweep_that_was_not_measured_can_be_read(sweep: SweepFolder) -> None:
    """Its whole trials are told, and have no values yet."""
    results = read_results(sweep)
    assert results.unmeasured == ("000-planned", "001-planned")
    assert results.trials[0].attempted is None


def test_no_sweep_is_told(tmp_path: Path) -> None:
    """By its folder."""
    with pytest.raises(UnknownName, match="no sweep at"):
        read_results(SweepFolder(tmp_path / "nowhere"))


@pytest.mark.parametrize("schema", [TRIALS, FATES, LATENCY, GAPS])
def test_a_table_that_cannot_be_read_is_told_with_what_mends_it(sweep: SweepFolder, schema: pa.Schema) -> None:
    """Results are made again from the ledgers."""
    _write_results(sweep)
    name = next(name for name, of in RESULTS.items() if of is schema)
    (sweep.results / f"{name}.parquet").write_bytes(b"PAR1")
    with pytest.raises(LedgerError, match=rf"{name}\.parquet cannot be read: `ackbench measure sweep` makes it anew"):
        read_results(sweep)


def test_a_table_of_another_version_is_told(sweep: SweepFolder) -> None:
    """Not read as if its columns meant the same."""
    _write_results(sweep)
    pq.write_table(pa.table({"trial_id": ["000-planned"]}), sweep.results / "trials.parquet")
    with pytest.raises(LedgerError, match="of another version"):
        read_results(sweep)
