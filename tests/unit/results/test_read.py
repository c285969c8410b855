"""The results of a sweep, joined from its plan, its trials and the Spark job's tables."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_record, a_spec
from support.builders.result_tables import write_results
from support.golden_files import GoldenFiles, Says

from ackbench.experiments.ledger.digests import with_digest
from ackbench.experiments.ledger.quantities import CELL_FIELDS, TRIAL_FIELDS, QuantityField
from ackbench.experiments.ledger.result_tables import (
    ANOMALIES,
    FATES,
    GAPS,
    LATENCY,
    RESULTS,
    TRIALS,
)
from ackbench.experiments.ledger.terms import LEDGER_VERSION
from ackbench.experiments.ledger.trial_manifest import Cell, FaultEvidence, Phases, Status
from ackbench.experiments.messages.errors import LedgerError, UnknownName
from ackbench.experiments.results.judgements import named_records
from ackbench.experiments.results.read import SweepResults, read_results
from ackbench.experiments.results.trials import LATE_MS, lateness_p99_ms
from ackbench.experiments.results.wording import short_share_text
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Plan, RefusedCell, TrialSpec
from ackbench.experiments.verdicts.evidence import Evidence
from ackbench.experiments.verdicts.guarantees import GUARANTEES
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.judge import Verdict
from ackbench.infra.machine.home import REPOSITORY
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

CELL: Cell = {"acks": "1", "fault": "leader-crash"}
REFUSED: Cell = {"acks": "0", "fault": "leader-crash"}
PHASES = Phases(
    load_begin_ns=1_000_000_000,
    load_end_ns=2_000_000_000,
    fault_begin_ns=1_700_000_000,
    fault_end_ns=1_800_000_000,
    settled_ns=2_000_000_000,
    healthy_ns=2_000_000_000,
)
EVIDENCE = FaultEvidence(
    kind="leader-crash", targets=(2,), took_effect=True, evidence=("node 2 exited",)
)

UNCONDITIONAL = [guarantee for guarantee in GUARANTEES if guarantee.applies is None]


def _spec(trial_id: str, repeat: int = 0) -> TrialSpec:
    return a_spec(
        trial_id=trial_id,
        cell=CELL,
        label="acks=1 leader-crash",
        repeat=repeat,
        fault=FaultRequest(kind="leader-crash"),
    )


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return a sweep of four planned trials and a refused cell.

    One trial is sealed, one void, one failed and one has not run.
    """
    folder = SweepFolder(tmp_path / "sweep")
    specs = tuple(_spec(f"{number:03d}-planned", number) for number in range(4))
    refused = RefusedCell(
        trial_id="900-refused", cell=REFUSED, label="acks=0", reason="`acks` must be set to `all`"
    )
    folder.write_plan(
        Plan(
            sweep_id="sweep",
            experiment="planted",
            question="?",
            seed=7,
            repeats=4,
            trials=specs,
            refused=(refused,),
        )
    )
    PlantedTrial(
        "000-planned", [PlantedAttempt(0, 0)], phases=PHASES, cell=CELL, fault=EVIDENCE
    ).plant(folder.root)
    PlantedTrial(
        "001-planned",
        [PlantedAttempt(0, 0)],
        phases=PHASES,
        cell=CELL,
        fault=EVIDENCE.model_copy(update={"took_effect": False}),
        status=Status.VOID,
    ).plant(folder.root)
    folder.failed("002-planned").mkdir()
    (folder.failed("002-planned") / "reason.txt").write_text("NodeFailed: it did not start\n")
    return folder


def _write_results(sweep: SweepFolder, *, acked_per_slot: int = 9, **counts: int) -> None:
    """Write the tables of the first trial: one record is certainly lost and one possibly.

    Nine records are sent in the first tenth of a second of the load, and so many acknowledged.
    """
    names = {
        "attempted": 9,
        "acked": 8,
        "rejected": 0,
        "unknown": 1,
        "lost_low": 1,
        "lost_high": 2,
        "duplicated": 1,
        "log": 10,
        "reordered": 4,
    }
    shared = (
        {f"{name}_records": value for name, value in names.items()}
        | {"duplicates": 3, "redelivered_reads": 6}
        | counts
    )
    seen = {
        "000-planned": {
            **shared,
            "unavailable_ns": 1_234_567,
            "producer_stalled_ns": 400_000_000,
            "offered_records_per_s": 9,
            "throughput_records_per_s": 8,
        }
    }
    quantiles = {"p50_us": 1500, "p90_us": 2000, "p99_us": 2500, "p99_9_us": 3000, "max_us": 3001}
    gap = {"trial_id": "000-planned", "gap_ns": 1_234_567, "began_ns": 1_500_000_000}
    stall = {"trial_id": "000-planned", "process": "producer 0", "cause": "stopped"}
    others: dict[str, list[dict[str, Any]]] = {
        "fates": [{"trial_id": "000-planned", "outcome": "acked", "fate": "LOST", "records": 1}],
        "latency": [
            {"trial_id": "000-planned", "measure": "ack", "phase": phase, "records": 8, **quantiles}
            for phase in ("all", "during")
        ],
        "gaps": [
            {**gap, "side": "producer", "records": 8},
            {**gap, "side": "consumer", "gap_ns": 9},
        ],
        "stalls": [
            {**stall, "began_ns": 1_100_000_000, "ended_ns": 1_200_000_000},
            {**stall, "began_ns": 1_300_000_000, "ended_ns": 1_600_000_000},
            {**stall, "process": "trial", "ended_ns": 1_600_000_000},
        ],
        "timeline": [
            {
                "trial_id": "000-planned",
                "slot": 0,
                "sent_records": 9,
                "acked_records": acked_per_slot,
                "read_records": 0,
            }
        ],
    }
    write_results(sweep, seen, others, ack_p99_us_median=2500.0, ack_p99_us_max=2500.0)


@pytest.fixture
def results(sweep: SweepFolder) -> SweepResults:
    """Return the results of the measured sweep."""
    _write_results(sweep)
    return read_results(sweep)


def test_every_trial_has_its_status_and_reason(results: SweepResults) -> None:
    """Refused, failed, void and sealed trials are listed; a trial that has not run is pending."""
    assert [(trial.trial_id, trial.status.value, trial.reason) for trial in results.trials] == [
        ("000-planned", "sealed", None),
        ("001-planned", "void", None),
        ("002-planned", "failed", "NodeFailed: it did not start"),
        ("900-refused", "refused", "`acks` must be set to `all`"),
    ]
    assert (results.pending, results.unmeasured) == (("003-planned",), ("001-planned",))


def test_a_measured_trial_has_its_values_in_milliseconds(results: SweepResults) -> None:
    """Nanoseconds and microseconds are converted without rounding."""
    trial = results.trials[0]
    assert trial.latency_ms.ack is not None
    assert (trial.reordered, trial.missed, trial.redelivered) == (4, None, 6)
    assert [gap.gap_ms for gap in trial.gaps] == [1.234567]
    assert (
        trial.lost,
        trial.duplicates,
        trial.duplicated,
        trial.unavailable_ms,
        trial.throughput_records_per_s,
    ) == ((1, 2), 3, 1, 1.234567, 8.0)
    assert (trial.latency_ms.ack.p50, trial.latency_ms.ack.max, trial.gaps[0].began_s) == (
        1.5,
        3.001,
        0.5,
    )


def test_a_trial_names_its_stalls_the_longest_first(results: SweepResults, says: Says) -> None:
    """Without those of the process that runs the trial; a figure that is unknown is null."""
    trial = results.trials[0]
    says(trial.stalls)
    assert (trial.producer_stalled_ms, trial.consumer_stalled_ms) == (400.0, None)
    assert [cell.stalled_trials for cell in results.cells if cell.sealed_trials] == [1]


@pytest.mark.parametrize(("acked", "kept_up", "recovered"), [(9, True, True), (8, False, None)])
def test_availability_is_unknown_if_the_load_was_too_much_before_the_fault(
    sweep: SweepFolder, acked: int, *, kept_up: bool, recovered: bool | None
) -> None:
    """A partition that waits for its turn says nothing about the fault."""
    _write_results(sweep, acked_per_slot=acked)
    trial = read_results(sweep).trials[0]
    assert (trial.kept_up_before_fault, trial.recovered_before_heal) == (kept_up, recovered)


def test_values_that_were_not_measured_are_null(results: SweepResults) -> None:
    """A trial that was not counted does not show zeros."""
    trials = {trial["trial_id"]: trial for trial in json.loads(results.to_json())["trials"]}
    valued = (
        "attempted",
        "acked",
        "rejected",
        "unknown",
        "lost",
        "duplicates",
        "unavailable_ms",
        "throughput_records_per_s",
    )
    assert {
        trials[name][value]
        for name in ("001-planned", "002-planned", "900-refused")
        for value in valued
    } == {None}
    assert trials["900-refused"]["latency_ms"] == {"ack": None, "end_to_end": None}
    assert trials["900-refused"]["fault"] == {
        "kind": "leader-crash",
        "parameters": {},
        "targets": [],
        "took_effect": None,
        "carried_out_in_part": False,
        "evidence": [],
    }


def test_a_trial_without_reads_has_no_end_to_end_latency(results: SweepResults) -> None:
    """Nor does a phase without records have a latency."""
    trial = results.trials[0]
    assert trial.latency_ms.end_to_end is None
    assert trial.latency_by_phase_ms.before.ack is None
    assert trial.latency_by_phase_ms.during.ack == trial.latency_ms.ack


def test_a_cell_counts_all_its_trials_and_has_values_of_the_sealed(results: SweepResults) -> None:
    """Refused cells are listed with the client's reason."""
    cell, refused = results.cells
    assert (
        cell.planned_trials,
        cell.sealed_trials,
        cell.void_trials,
        cell.failed_trials,
        cell.lost,
    ) == (4, 1, 1, 1, (1, 2))
    assert cell.latency_ms.ack.p99 is not None
    assert (cell.latency_ms.ack.p99.median, cell.latency_ms.end_to_end.p99) == (2.5, None)
    assert (refused.refused, refused.planned_trials, refused.lost) == (
        "`acks` must be set to `all`",
        0,
        None,
    )


@pytest.mark.parametrize(("of", "fields"), [("trial", TRIAL_FIELDS), ("cell", CELL_FIELDS)])
def test_the_document_says_what_each_quantity_is(
    of: str, fields: tuple[QuantityField, ...], golden: GoldenFiles
) -> None:
    """As it is declared: of an interval both bounds, of a group all its counts."""
    document = REPOSITORY / "docs" / "show-json.md"

    golden.compare_rows(document, f"### What is measured of a {of}", map(row_of, fields))


def row_of(field: QuantityField) -> str:
    """Return a quantity's row in `docs/show-json.md`."""
    first = field.places[0].quantity
    texts = [
        f"`{place.field}`: {place.quantity.text}" if place.field != field.name else first.text
        for place in field.places
    ]
    bounds = "`[low, high]`: " if field.places[0].bound else ""
    null = f"; null: {first.null}" if first.null else ""
    return f"| `{field.name}` | {bounds}{'; '.join(dict.fromkeys(texts))}{null} |"


def documented_keys(section: str) -> set[str]:
    """Return the keys in the first column of a section's table in `docs/show-json.md`."""
    document = (Path(__file__).parents[3] / "docs" / "show-json.md").read_text()
    table = f"\n{document}".split(f"\n{section}\n", 1)[1].split("\n## ", 1)[0]
    first_columns = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    return {key for column in first_columns for key in re.findall(r"`([\w-]+)`", column)}


def test_the_document_has_every_key_of_the_json_and_no_other(results: SweepResults) -> None:
    """Of a sweep, a trial, a cell and a judgement."""
    shown = json.loads(results.to_json())
    assert documented_keys("# `ackbench show --json`") == shown.keys()
    assert documented_keys("## A trial") == shown["trials"][0].keys()
    assert documented_keys("## A cell") == shown["cells"][0].keys()
    judgement = next(cell["judgements"][0] for cell in shown["cells"] if cell["judgements"])
    assert documented_keys("## A judgement") == judgement.keys()
    assert documented_keys("## Evidence") == {
        kind.model_fields["code"].default for kind in get_args(get_args(Evidence)[0])
    }


def test_the_json_has_quantiles_and_the_evidence_of_the_fault(results: SweepResults) -> None:
    """By the names of `docs/show-json.md`."""
    shown = json.loads(results.to_json())
    assert {"p50", "p90", "p99", "p99_9", "max"} <= shown["trials"][0]["latency_ms"]["ack"].keys()
    assert shown["trials"][0]["fault"] == {
        "kind": "leader-crash",
        "parameters": {},
        "targets": [2],
        "took_effect": True,
        "carried_out_in_part": False,
        "evidence": ["node 2 exited"],
    }
    assert list(shown["trials"][0]["cell"]) == ["acks", "fault"]


def test_a_sweep_that_was_not_measured_can_be_read(sweep: SweepFolder) -> None:
    """Its sealed and void trials are listed without values."""
    results = read_results(sweep)
    assert results.unmeasured == ("000-planned", "001-planned")
    assert results.trials[0].attempted is None


def test_faults_whose_clients_are_behind_relays_are_named_once(sweep: SweepFolder) -> None:
    """A trial without relays names nothing."""
    plan = sweep.plan()
    behind = replace(plan.trials[0].cluster, network="relays")
    relayed = [
        spec.model_copy(update={"cluster": behind, "cell": {**spec.cell, "fault": "relay-held"}})
        for spec in plan.trials[2:]
    ]
    assert read_results(sweep).relayed == ()
    changed = plan.model_copy(update={"trials": (*plan.trials[:2], *relayed)})
    (sweep.root / "plan.json").unlink()
    sweep.write_plan(changed)
    assert read_results(sweep).relayed == ("relay-held",)


def test_a_missing_sweep_is_an_unknown_name(tmp_path: Path) -> None:
    """The message has its folder."""
    with pytest.raises(UnknownName, match="no sweep at"):
        read_results(SweepFolder(tmp_path / "nowhere"))


@pytest.mark.parametrize("schema", [TRIALS, FATES, LATENCY, GAPS])
def test_the_message_about_an_unreadable_table_has_the_remedy(
    sweep: SweepFolder, schema: pa.Schema
) -> None:
    """Results can be computed again from the ledgers."""
    _write_results(sweep)
    name = next(name for name, of in RESULTS.items() if of is schema)
    (sweep.results / f"{name}.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        LedgerError,
        match=rf"{name}\.parquet is unreadable; compute it again with: ackbench measure sweep$",
    ):
        read_results(sweep)


def _newer(trial: Path) -> None:
    record = json.loads((trial / "trial.json").read_text())
    (trial / "trial.json").write_text(json.dumps(record | {"ledger_version": LEDGER_VERSION + 1}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda trial: (trial / "log.parquet").unlink(), "log.parquet is missing"),
        (lambda trial: (trial / "log.parquet").write_bytes(b"PAR1"), "log.parquet cannot be read"),
        (
            lambda trial: (trial.with_name("001-planned") / "log.parquet").replace(
                trial / "log.parquet"
            ),
            "log.parquet has ackbench.trial_id=001-planned",
        ),
        (
            _newer,
            (
                f"trial.json has ledger version {LEDGER_VERSION + 1};"
                " this ackbench reads the versions 4 and 5"
            ),
        ),
        (lambda trial: (trial / "trial.json").unlink(), "trial.json is missing"),
        (
            lambda trial: (trial / "trial.json").write_text("{"),
            "trial.json is not a valid trial manifest",
        ),
    ],
)
def test_results_of_an_invalid_ledger_are_not_shown(
    sweep: SweepFolder, damage: Callable[[Path], object], words: str
) -> None:
    """Such results prove nothing; the message names sweep, trial and file."""
    _write_results(sweep)
    damage(sweep.trial("000-planned"))
    with pytest.raises(LedgerError, match=f"^sweep: trial 000-planned: {re.escape(words)}"):
        read_results(sweep)


def test_the_message_about_a_truncated_plan_has_its_path(sweep: SweepFolder) -> None:
    """It is one line."""
    (sweep.root / "plan.json").write_bytes((sweep.root / "plan.json").read_bytes()[:100])
    with pytest.raises(
        LedgerError, match=r"plan\.json is truncated or not a plan: Invalid JSON: EOF[^\n]*$"
    ):
        read_results(sweep)


def test_a_table_of_another_version_is_refused(sweep: SweepFolder) -> None:
    """Its columns may have other meanings."""
    _write_results(sweep)
    pq.write_table(pa.table({"trial_id": ["000-planned"]}), sweep.results / "trials.parquet")
    with pytest.raises(LedgerError, match="of another version"):
        read_results(sweep)


def test_cells_have_shares_of_trials_and_estimates_over_trials(results: SweepResults) -> None:
    """The unit is the trial: one of one lost, one duplicated and one reordered records."""
    cell = results.cells[0]
    assert [
        (share.seen, share.of) for share in (cell.loss, cell.duplication, cell.reordering) if share
    ] == [(1, 1)] * 3
    assert cell.ack_p99_ms is not None
    assert (cell.ack_p99_ms.median, cell.ack_p99_ms.interval, cell.late_trials) == (2.5, None, 0)


def test_a_trial_in_which_only_unknown_records_are_absent_cannot_tell_a_loss(
    sweep: SweepFolder, says: Says
) -> None:
    """It is no trial without loss: the share is 0 to 1 of 1, and its bound says nothing."""
    _write_results(sweep, lost_low_records=0, lost_high_records=2)
    share = read_results(sweep).cells[0].loss
    assert share is not None
    assert (share.seen, share.of, share.unknown) == (0, 0, 1)
    says(short_share_text(share, "-"))


def test_every_cell_that_runs_has_a_contract_and_a_verdict_per_guarantee(
    results: SweepResults,
) -> None:
    """Refused cells have neither, because the client does not accept their configuration."""
    cell, refused = results.cells
    assert (
        [commitment.guarantee for commitment in cell.clauses]
        == [judgement.guarantee for judgement in cell.judgements]
        == UNCONDITIONAL
    )
    assert (refused.clauses, refused.judgements) == ((), ())


def test_a_cell_that_was_not_measured_has_its_contract(sweep: SweepFolder) -> None:
    """The guarantees do not depend on the outcome, which is unknown."""
    cell = read_results(sweep).cells[0]
    assert [commitment.guarantee for commitment in cell.clauses] == UNCONDITIONAL
    assert {judgement.violation_seen for judgement in cell.judgements} == {None}
    assert cell.loss is None


def _change_record(sweep: SweepFolder, trial_id: str, **changes: object) -> None:
    """Write a `trial.json` again with these fields changed."""
    record = read_trial_manifest(sweep.trial(trial_id)).model_copy(update=changes)
    (sweep.trial(trial_id) / "trial.json").write_text(with_digest(record.model_dump_json(indent=1)))


def test_a_violation_names_its_trials(sweep: SweepFolder) -> None:
    """It also counts the records."""
    plan = sweep.plan()
    safe: dict[str, Any] = {
        "producer": {"acks": "all", "enable.idempotence": "true"},
        "fault": FaultRequest(kind="none"),
    }
    for trial_id in sweep.complete_ids():
        manifest = read_trial_manifest(sweep.trial(trial_id))
        _change_record(sweep, trial_id, fault=manifest.fault.model_copy(update={"kind": "none"}))
    sweep.write_plan(
        plan.model_copy(
            update={"trials": tuple(spec.model_copy(update=safe) for spec in plan.trials)}
        )
    )
    write_results(
        sweep,
        {"000-planned": {"attempted_records": 9, "lost_low_records": 2, "lost_high_records": 2}},
    )
    loss, duplicates, *_ = read_results(sweep).cells[0].judgements
    assert (loss.verdict, loss.trials, loss.records_total) == (
        Verdict.VIOLATED,
        ("000-planned",),
        2,
    )
    assert (duplicates.verdict, duplicates.trials) == (Verdict.HELD, ())


def test_the_first_violating_records_are_named_once_each() -> None:
    """They are ordered by producer and seq, whatever their order and number in the table."""
    lost: list[dict[str, Any]] = [
        {"trial_id": "000-a", "kind": "LOST", "producer": 0, "seq": seq}
        for seq in (9, 3, 7, 1, 5, 11)
    ]
    copies: list[dict[str, Any]] = [
        {"trial_id": "000-a", "kind": "DUPLICATED", "producer": 1, "seq": 5, "offset": offset}
        for offset in (8, 9)
    ]
    other: list[dict[str, Any]] = [
        {"trial_id": "001-b", "kind": "LOST", "producer": 2, "seq": 2},
        {"trial_id": "001-b", "kind": "MISSED", "producer": 2, "seq": 4},
    ]
    named = named_records(
        pa.Table.from_pylist(
            [{"cause": "", **row} for row in (*lost, *copies, *other)], schema=ANOMALIES
        )
    )
    assert {
        trial: {
            guarantee: [(r.producer, r.seq) for r in records] for guarantee, records in of.items()
        }
        for trial, of in named.items()
    } == {
        "000-a": {NO_ACKED_LOSS: [(0, 1), (0, 3), (0, 5), (0, 7), (0, 9)], NO_DUPLICATES: [(1, 5)]},
        "001-b": {NO_ACKED_LOSS: [(2, 2)]},
    }


def test_a_late_load_generator_marks_its_trial(sweep: SweepFolder) -> None:
    """The lateness is in trial.json, so it is known without measuring."""
    manifest = read_trial_manifest(sweep.trial("000-planned"))
    late = manifest.producers[0].model_copy(update={"lateness_us_p99": LATE_MS * 1000 + 1})
    _change_record(sweep, "000-planned", producers=(late,))
    trials = {trial.trial_id: trial for trial in read_results(sweep).trials}
    assert [
        trials[name].generator_late for name in ("000-planned", "001-planned", "002-planned")
    ] == [True, False, None]


@pytest.mark.parametrize(("without", "late_ms"), [(True, 60.0), (False, None)])
def test_the_lateness_of_a_transactional_producer_must_not_count_commits(
    *, without: bool, late_ms: float | None
) -> None:
    """Ledgers that count them have no lateness that is the generator's."""
    record = a_record(producer_settings={"acks": "all", "transactional.id": "mine"})
    producer = record.producers[0].model_copy(
        update={"lateness_us_p99": 60_000, "lateness_is_without_transactions": without}
    )
    assert lateness_p99_ms(record.model_copy(update={"producers": (producer,)})) == late_ms
