"""Joins the plan, the trials and Spark's tables into what the rest of the project reads. No Spark is needed to read."""

from __future__ import annotations

import pyarrow.fs as pafs

from experiments.errors import LedgerError
from experiments.ledger.record import TrialRecord
from experiments.ledger.validation import UnfitLedger, checked, whole_folders
from experiments.results.cells import cell_results
from experiments.results.judgements import harness_check, named_records, with_judgements
from experiments.results.models import SweepResults
from experiments.results.rows import ResultRows, read_table
from experiments.results.trials import failed_trial, refused_trial, whole_trial
from experiments.sweep.folder import SweepFolder

__all__ = ["SweepResults", "read_results"]


def read_results(sweep: SweepFolder) -> SweepResults:
    """Return all that is known of a sweep, also of one that is still running or was never measured.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's ledger is incomplete, cut short, of another version or of another trial, or a table of `results/` cannot be
            read; names it.
    """
    plan, rows, records = sweep.plan(), ResultRows.read(sweep), _records(sweep)
    added = {spec.trial_id for spec in plan.trials if spec.added}
    trials = [refused_trial(cell) for cell in plan.refused]
    trials += [
        whole_trial(record, rows, added=record.trial_id in added) for record in records.values()
    ]
    trials += [
        failed_trial(spec, sweep)
        for spec in plan.trials
        if spec.trial_id not in records and sweep.failed(spec.trial_id).exists()
    ]
    trials.sort(key=lambda trial: trial.trial_id)
    harness = harness_check(trials)
    known = {trial.trial_id for trial in trials}
    return SweepResults(
        sweep_id=plan.sweep_id,
        experiment=plan.experiment,
        question=plan.question,
        seed=plan.seed,
        trials=tuple(trials),
        cells=with_judgements(
            tuple(cell_results(plan, trials, rows)),
            trials,
            plan,
            named_records(read_table(sweep, "anomalies")),
            harness,
        ),
        pending=tuple(spec.trial_id for spec in plan.trials if spec.trial_id not in known),
        unmeasured=tuple(sorted(records.keys() - rows.trials.keys())),
        harness=harness,
    )


def _records(sweep: SweepFolder) -> dict[str, TrialRecord]:
    """Return the whole trials by id, once their ledgers are found to be whole: figures of a ledger that is not there prove nothing."""
    files = pafs.LocalFileSystem()
    try:
        records = [checked(files, folder)[0] for folder in whole_folders(files, str(sweep.root))]
    except UnfitLedger as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}") from error
    return {record.trial_id: record for record in sorted(records, key=lambda record: record.order)}
