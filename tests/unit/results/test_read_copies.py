"""Results of copy workloads: by trial, summed by cell, and judged."""

from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import write_results

from ackbench.experiments.ledger.quantities import CopyCounts
from ackbench.experiments.ledger.trial_manifest import Cell, Keys
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan, Workload
from ackbench.experiments.sweep.workload import Copiers, Delivery
from ackbench.experiments.verdicts.guarantees.missed_records import NO_MISSED_RECORDS
from ackbench.experiments.verdicts.guarantees.reprocessing import NO_REPROCESSING
from ackbench.experiments.verdicts.judge import Verdict
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

CELL: Cell = {"acks": "all", "fault": "none"}
ROW = {
    "copied_records": 90,
    "missed_records": 7,
    "output_lost_records": 3,
    "repeated_copies": 5,
    "hidden_copies": 2,
}
COPIES = CopyCounts(copied=90, missed=7, output_lost=3, repeated=5, hidden=2)


def measured(folder: Path, delivery: Delivery) -> SweepFolder:
    """Return a measured sweep of two trials with a copy workload.

    The columns of the consumer group count what the application missed and repeated.
    """
    sweep = SweepFolder(folder / "sweep")
    load = Workload(
        rate_records_per_s=10,
        record_size_bytes=100,
        duration_s=10,
        keys=Keys(count=0),
        producers=1,
        copies=Copiers(copiers=2, delivery=delivery),
    )
    names = ("000-planned", "001-planned")
    trials = tuple(
        a_spec(trial_id=name, cell=CELL, repeat=repeat, workload=load)
        for repeat, name in enumerate(names)
    )
    sweep.write_plan(
        Plan(
            sweep_id="sweep",
            experiment="planted",
            question="?",
            seed=7,
            repeats=2,
            trials=trials,
            refused=(),
        )
    )
    for name in names:
        PlantedTrial(name, [PlantedAttempt(0, 0)], cell=CELL, output=[]).plant(sweep.root)
    counts = {
        "attempted_records": 100,
        "acked_records": 100,
        "group_missed_records": 10,
        "group_redelivered_reads": 5,
    }
    write_results(
        sweep,
        dict.fromkeys(names, counts),
        {"copies": [{"trial_id": name, **ROW} for name in names]},
    )
    return sweep


def test_trials_have_copy_counts_and_cells_have_their_sums(tmp_path: Path) -> None:
    """The copy counts distinguish missed from lost output; the count of the group does not."""
    results = read_results(measured(tmp_path, "at-least-once"))
    assert [(trial.copies, trial.group_missed) for trial in results.trials] == [
        (COPIES, 10),
        (COPIES, 10),
    ]
    assert [(cell.copies, cell.group_missed) for cell in results.cells] == [(COPIES + COPIES, 20)]


@pytest.mark.parametrize(
    ("delivery", "missed", "repeated"),
    [
        ("at-most-once", Verdict.NOT_GUARANTEED, Verdict.NOT_GUARANTEED),
        ("at-least-once", Verdict.VIOLATED, Verdict.NOT_GUARANTEED),
        ("exactly-once", Verdict.VIOLATED, Verdict.VIOLATED),
    ],
)
def test_missed_and_repeated_records_are_judged_by_delivery(
    tmp_path: Path, delivery: Delivery, missed: Verdict, repeated: Verdict
) -> None:
    """Exactly-once guarantees both.

    At-most-once guarantees no repeated copy only with an idempotent producer, which this is not.
    """
    (cell,) = read_results(measured(tmp_path, delivery)).cells
    verdicts = {judgement.guarantee: judgement.verdict for judgement in cell.judgements}
    assert (verdicts[NO_MISSED_RECORDS], verdicts[NO_REPROCESSING]) == (missed, repeated)


def test_results_without_the_table_of_copies_are_read(tmp_path: Path) -> None:
    """Older versions measured without this table."""
    sweep = measured(tmp_path, "at-least-once")
    (sweep.results / "copies.parquet").unlink()
    assert [trial.copies for trial in read_results(sweep).trials] == [None, None]
