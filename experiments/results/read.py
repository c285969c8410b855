"""Reads the results of a sweep: joins its plan, its trials and the tables of the Spark job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow.fs as pafs

from experiments.errors import LedgerError
from experiments.ledger.record import TrialRecord
from experiments.ledger.validation import InvalidLedger, sealed_folders, validate_trial
from experiments.results.cells import cell_results
from experiments.results.changed_settings import changed_settings
from experiments.results.judgements import (
    harness_check,
    named_records,
    trials_that_must_tear,
    with_judgements,
)
from experiments.results.models import SweepResults
from experiments.results.rows import ResultRows, read_table
from experiments.results.trials import complete_trial, failed_trial, refused_trial
from experiments.sweep.folder import SweepFolder

__all__ = ["SweepResults", "read_results"]

_REQUESTS: Final = 16
"""Trials of a published sweep that are validated at a time."""


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
    harness = harness_check(trials, trials_that_must_tear(plan))
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
        changed_settings=changed_settings(plan.trials),
    )


def _records(sweep: SweepFolder) -> dict[str, TrialRecord]:
    """Return the records of the complete trials by id, after validating their ledgers.

    Figures without their ledger would prove nothing. In a store, each footer is a request, and many
    are made at a time.
    """
    files, root = sweep.ledgers.files, sweep.ledgers.path
    # A published trial may have become complete since its sweep was fetched.
    names = [
        folder.rsplit("/", 1)[-1]
        for folder in sealed_folders(pafs.LocalFileSystem(), str(sweep.root))
    ]
    try:
        with ThreadPoolExecutor(_REQUESTS if sweep.origin else 1) as pool:
            validated = pool.map(
                lambda name: validate_trial(files, f"{root}/trials/{name}")[0], names
            )
            records = sorted(validated, key=lambda record: record.order)
    except InvalidLedger as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}") from error
    return {record.trial_id: record for record in records}
