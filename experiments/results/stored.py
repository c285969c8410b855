"""Everything that a sweep has stored, read once: its plan, its trials, and the job's tables.

Figures without their ledger would prove nothing, so each file is verified while it is read. What
follows from it (`experiments.results.read`) reads no file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow.fs as pafs

from ackbench.experiments.ledger.digests import InvalidLedger, digest_file, digest_of
from ackbench.experiments.ledger.location import LocationError
from ackbench.experiments.ledger.planned import PlannedTrials
from ackbench.experiments.ledger.results_manifest import ResultsManifest
from ackbench.experiments.ledger.trial_manifest import (
    TRIAL_MANIFEST,
    TrialManifest,
    parse_trial_manifest,
)
from ackbench.experiments.ledger.validation import (
    require_sizes,
    sealed_files,
    sealed_folders,
    validate_trial,
    verify_files,
)
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.rows import ResultRows, read_results_manifest
from ackbench.experiments.sweep.documents import read_trial_manifest_file
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan

_REQUESTS: Final = 16
"""Trials of a published sweep that are validated at a time."""
_THREADS: Final = 2
"""The same of a sweep of this machine; most of the work is done by OpenSSL, without Python."""


@dataclass(frozen=True)
class StoredContents:
    """The content of a sweep's folder, as far as results are made of it."""

    plan: Plan
    manifest: ResultsManifest | None
    """Of `results/`; `None`: not measured, or by ledger version 4."""
    rows: ResultRows
    manifests: Mapping[str, TrialManifest]
    """The records of the complete trials, by id, in the order in which they ran."""
    foreign: Mapping[str, str]
    """The complete trials that are not the plan's, with the reasons."""
    failures: Mapping[str, str | None]
    """The trials that failed because of the harness, with the reasons; `None`: nothing says so."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """The trials whose ledgers are damaged or not the plan's, with the reasons."""
        return {**(self.manifest.left_out if self.manifest else {}), **self.foreign}


def read_stored(sweep: SweepFolder, *, in_full: bool) -> StoredContents:
    """Return what a sweep has stored; it may still be running, or not be measured yet.

    Args:
        sweep: the sweep.
        in_full: as for `experiments.results.read.read_results`.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a file is incomplete, truncated, altered, of another version, or of another
            trial or measurement.
    """
    plan, planned = sweep.plan(), sweep.planned()
    manifest = read_results_manifest(sweep)
    left_out: Collection[str] = manifest.left_out if manifest else ()
    rows = ResultRows.read(sweep, manifest, with_anomalies=in_full)
    # A published trial may have become complete since its sweep was fetched.
    folders = sealed_folders(pafs.LocalFileSystem(), str(sweep.root))
    names = [name for folder in folders if (name := folder.rsplit("/", 1)[-1]) not in left_out]
    # A copy has the small files alone: what is in the store is looked at there.
    verified = in_full or sweep.origin is not None
    trials = _complete_trials(sweep, names, manifest, planned, verified=verified)
    foreign = {name: reason for name, reason in trials.items() if isinstance(reason, str)}
    for name in foreign.keys() & rows.trials.keys():
        raise LedgerError(
            f"{sweep.sweep_id}: {foreign[name]}; results/ was computed with it: "
            f"ackbench measure {sweep.argument} --skip-unfit"
        )
    manifests = [trial for trial in trials.values() if isinstance(trial, TrialManifest)]
    manifests.sort(key=lambda trial: trial.order)
    return StoredContents(
        plan=plan,
        manifest=manifest,
        rows=rows,
        manifests={trial.trial_id: trial for trial in manifests},
        foreign=foreign,
        failures={
            spec.trial_id: sweep.failure_reason(spec.trial_id)
            for spec in plan.trials
            if spec.trial_id not in {*trials, *left_out} and sweep.failed(spec.trial_id).exists()
        },
    )


def _complete_trials(
    sweep: SweepFolder,
    names: Sequence[str],
    manifest: ResultsManifest | None,
    planned: PlannedTrials,
    *,
    verified: bool,
) -> Mapping[str, TrialManifest | str]:
    """Return the manifests of complete trials by id; of foreign ones, the reasons.

    In a store, each footer is a request, and many are made at a time; the ledgers' content stays
    there unread.
    """
    try:
        with ThreadPoolExecutor(_REQUESTS if sweep.origin else _THREADS) as pool:
            read = (pool.map if verified else map)(
                lambda name: _complete_trial(sweep, name, manifest, planned, verified=verified),
                names,
            )
            return dict(zip(names, read, strict=True))
    except LocationError as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}") from error
    except InvalidLedger as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}; {sweep.unfit_remedy}") from error


def _complete_trial(
    sweep: SweepFolder,
    trial_id: str,
    manifest: ResultsManifest | None,
    planned: PlannedTrials,
    *,
    verified: bool,
) -> TrialManifest | str:
    """Return a trial's manifest; of a trial that is not the plan's, the reason.

    Args:
        sweep: the sweep.
        trial_id: the trial.
        manifest: of the sweep's results.
        planned: its plan.
        verified: compare all of the trial's files that are on this machine with their digests.
            Otherwise they are there with their sizes.
    """
    local, folder = pafs.LocalFileSystem(), sweep.trial(trial_id)
    if verified:
        ledgers = sweep.ledgers
        trial, _ = validate_trial(ledgers.files, f"{ledgers.path}/trials/{trial_id}")
    else:
        content = read_trial_manifest_file(folder)
        trial = parse_trial_manifest(content, trial_id)
    if reason := planned.why_foreign(trial):
        return reason
    if verified:
        names = sealed_files(trial, published=sweep.origin is not None)
        here = [name for name in names if not sweep.origin or (folder / name).exists()]
        verify_files(local, str(folder), trial, here)
        found = digest_file(local, str(folder / TRIAL_MANIFEST))
    else:
        require_sizes(str(folder), trial)
        found = digest_of(content)
    if manifest and manifest.trials.get(trial_id, found.sha256) != found.sha256:
        raise InvalidLedger(
            f"trial {trial_id}: {TRIAL_MANIFEST} is not the one that results/ was computed from: "
            "compute it again"
        )
    return trial
