"""Reads the results of a sweep: joins its plan, its trials and the tables of the Spark job."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow.fs as pafs

from ackbench.experiments.ledger.digests import FileDigest, InvalidLedger, digest_file, digest_of
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
from ackbench.experiments.results.cells import cell_results
from ackbench.experiments.results.changed_settings import changed_settings
from ackbench.experiments.results.client_versions import mixed_client_versions
from ackbench.experiments.results.expectations import expectation_results
from ackbench.experiments.results.hosts import compare_hosts
from ackbench.experiments.results.judgements import (
    NAMED_COLUMNS,
    harness_check,
    named_records,
    trials_that_must_tear,
    with_judgements,
)
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.rows import (
    ResultRows,
    read_results_manifest,
    read_table,
    require_table,
)
from ackbench.experiments.results.trials import (
    complete_trial,
    failed_trial,
    refused_trial,
    unfit_trial,
)
from ackbench.experiments.sweep.documents import read_trial_manifest_file
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan

__all__ = ["SweepResults", "read_results"]

_REQUESTS: Final = 16
"""Trials of a published sweep that are validated at a time."""
_THREADS: Final = 2
"""The same of a sweep of this machine; most of the work is done by OpenSSL, without Python."""


def read_results(sweep: SweepFolder, *, in_full: bool = True) -> SweepResults:
    """Return the results of a sweep, which may still be running or not measured yet.

    Args:
        sweep: the sweep.
        in_full: compare all files of the trials with their digests, name the records that violate
            a guarantee, and the settings that were changed. Otherwise the files are there with
            their sizes, and only figures and verdicts are complete, in a quarter of the time.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's ledger is incomplete, truncated, altered, of another version or of
            another trial, or a table of `results/` is unreadable or altered.
    """
    plan, manifest = sweep.plan(), read_results_manifest(sweep)
    if not in_full:
        require_table(sweep, "anomalies", manifest)
    rows = ResultRows.read(sweep, manifest)
    manifests, foreign = _trial_manifests(sweep, manifest, rows.trials, verified=in_full)
    left_out = {**(manifest.left_out if manifest else {}), **foreign}
    added = {spec.trial_id for spec in plan.trials if spec.added}
    trials = [refused_trial(cell) for cell in plan.refused]
    trials += [
        complete_trial(trial_manifest, rows, added=trial_manifest.trial_id in added)
        for trial_manifest in manifests.values()
    ]
    trials += [
        failed_trial(spec, sweep)
        for spec in plan.trials
        if spec.trial_id not in {*manifests, *left_out} and sweep.failed(spec.trial_id).exists()
    ]
    planned = {spec.trial_id: spec for spec in plan.trials}
    trials += [
        unfit_trial(trial_id, planned.get(trial_id), reason)
        for trial_id, reason in left_out.items()
    ]
    trials.sort(key=lambda trial: trial.trial_id)
    harness = harness_check(trials, trials_that_must_tear(plan))
    known = {trial.trial_id for trial in trials}
    cells = tuple(cell_results(plan, trials, rows))
    return SweepResults(
        sweep_id=plan.sweep_id,
        experiment=plan.experiment,
        question=plan.question,
        seed=plan.seed,
        trials=tuple(trials),
        cells=with_judgements(
            cells,
            trials,
            plan,
            named_records(read_table(sweep, "anomalies", manifest, NAMED_COLUMNS))
            if in_full
            else {},
            harness,
        ),
        pending=tuple(spec.trial_id for spec in plan.trials if spec.trial_id not in known),
        unmeasured=tuple(sorted(manifests.keys() - rows.trials.keys())),
        expectations=tuple(expectation_results(plan.expectations, cells, trials)),
        harness=harness,
        changed_settings=changed_settings(plan.trials) if in_full else (),
        hosts=compare_hosts(trials),
        client_versions=mixed_client_versions(trials),
        relayed=_relayed_faults(plan),
        without_digests=tuple(
            sorted(
                trial_id
                for trial_id, trial_manifest in manifests.items()
                if trial_manifest.files is None
            )
        ),
        foreign=foreign,
        manifest=manifest,
        manifests=manifests,
    )


def _relayed_faults(plan: Plan) -> tuple[str, ...]:
    faults = (
        str(spec.cell.get("fault", spec.fault.kind))
        for spec in plan.trials
        if spec.cluster.has_relays
    )
    return tuple(dict.fromkeys(faults))


def _trial_manifests(
    sweep: SweepFolder,
    manifest: ResultsManifest | None,
    measured: Collection[str],
    *,
    verified: bool,
) -> tuple[dict[str, TrialManifest], dict[str, str]]:
    """Return the manifests of the complete trials by id, and the reasons why others are foreign.

    Figures without their ledger would prove nothing, so each ledger is validated. Trials that the
    results leave out are not read. In a store, each footer is a request, and many are made at a
    time; the ledgers' content stays there unread.
    """
    left_out: Collection[str] = manifest.left_out if manifest else ()
    # A published trial may have become complete since its sweep was fetched.
    folders = sealed_folders(pafs.LocalFileSystem(), str(sweep.root))
    names = [name for folder in folders if (name := folder.rsplit("/", 1)[-1]) not in left_out]
    planned = sweep.planned()
    try:
        if not verified:
            read = [_complete(sweep, name, manifest, planned) for name in names]
        else:
            with ThreadPoolExecutor(_REQUESTS if sweep.origin else _THREADS) as pool:
                read = list(
                    pool.map(lambda name: _validated(sweep, name, manifest, planned), names)
                )
        found = dict(zip(names, read, strict=True))
    except LocationError as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}") from error
    except InvalidLedger as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}; {sweep.unfit_remedy}") from error
    foreign = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    for name in foreign.keys() & measured:
        raise LedgerError(
            f"{sweep.sweep_id}: {foreign[name]}; results/ was computed with it: "
            f"ackbench measure {sweep.argument} --skip-unfit"
        )
    manifests = [manifest for manifest in found.values() if isinstance(manifest, TrialManifest)]
    manifests.sort(key=lambda manifest: manifest.order)
    return {manifest.trial_id: manifest for manifest in manifests}, foreign


def _complete(
    sweep: SweepFolder, trial_id: str, manifest: ResultsManifest | None, planned: PlannedTrials
) -> TrialManifest | str:
    """Return a trial's manifest, if all of its files are here and have their sizes.

    Of a trial that is not the plan's, return the reason.
    """
    folder = sweep.trial(trial_id)
    content = read_trial_manifest_file(folder)
    trial_manifest = parse_trial_manifest(content, trial_id)
    if reason := planned.why_foreign(trial_manifest):
        return reason
    require_sizes(str(folder), trial_manifest)
    _require_measured(trial_id, digest_of(content), manifest)
    return trial_manifest


def _require_measured(trial_id: str, found: FileDigest, manifest: ResultsManifest | None) -> None:
    measured = manifest.trials.get(trial_id) if manifest else None
    if measured not in {None, found.sha256}:
        raise InvalidLedger(
            f"trial {trial_id}: {TRIAL_MANIFEST} is not the one that results/ was computed from: "
            "compute it again"
        )


def _validated(
    sweep: SweepFolder, trial_id: str, manifest: ResultsManifest | None, planned: PlannedTrials
) -> TrialManifest | str:
    """Return a trial's manifest, after verifying all of its files that are on this machine.

    Of a trial that is not the plan's, return the reason.
    """
    local, folder = pafs.LocalFileSystem(), sweep.trial(trial_id)
    trial_manifest, _ = validate_trial(
        sweep.ledgers.files, f"{sweep.ledgers.path}/trials/{trial_id}"
    )
    if reason := planned.why_foreign(trial_manifest):
        return reason
    names = sealed_files(trial_manifest, published=sweep.origin is not None)
    here = [name for name in names if not sweep.origin or (folder / name).exists()]
    verify_files(local, str(folder), trial_manifest, here)
    _require_measured(trial_id, digest_file(local, str(folder / TRIAL_MANIFEST)), manifest)
    return trial_manifest
