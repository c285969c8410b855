"""Reads the results of a sweep: joins its plan, its trials and the tables of the Spark job."""

from __future__ import annotations

import pyarrow.fs as pafs

from experiments.errors import LedgerError
from experiments.ledger.record import TrialRecord
from experiments.ledger.validation import InvalidLedger, sealed_folders, validate_trial
from experiments.results.cells import cell_results
from experiments.results.judgements import harness_check, named_records, with_judgements
from experiments.results.models import SweepResults
from experiments.results.rows import ResultRows, read_table
from experiments.results.trials import complete_trial, failed_trial, refused_trial
from experiments.sweep.folder import SweepFolder

__all__ = ["SweepResults", "read_results"]


def read_results(sweep: SweepFolder) -> SweepResults:
    """Return the results of a sweep, which may still be running or not measured yet.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's ledger is incomplete, truncated, of another version or of another
            trial, or a table of `results/` is unreadable.
    """
    plan, rows, records = sweep.plan(), ResultRows.read(sweep), _records(sweep)
    added = {spec.trial_id for spec in plan.trials if spec.added}
    trials = [refused_trial(cell) for cell in plan.refused]
    trials += [
        complete_trial(record, rows, added=record.trial_id in added) for record in records.values()
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
    """Return the records of the complete trials by id, after validating their ledgers.

    Figures without their ledger would prove nothing.
    """
    files = pafs.LocalFileSystem()
    try:
        records = [
            validate_trial(files, folder)[0] for folder in sealed_folders(files, str(sweep.root))
        ]
    except InvalidLedger as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}") from error
    return {record.trial_id: record for record in sorted(records, key=lambda record: record.order)}
