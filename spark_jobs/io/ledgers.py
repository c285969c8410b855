"""The sealed trials of a sweep, in any file system that `pyarrow.fs` opens.

Every ledger file is checked against its schema before a JVM is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow.fs as pafs

from ackbench.experiments.ledger.digests import InvalidLedger, digest_file
from ackbench.experiments.ledger.location import LocationError, is_uri, open_location
from ackbench.experiments.ledger.planned import PlannedTrials, read_planned
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST, TrialManifest
from ackbench.experiments.ledger.validation import sealed_files, sealed_folders, validate_trial
from ackbench.spark_jobs.limits import DEFAULT_LIMIT, StepLimit, limited

__all__ = ["InvalidLedger", "Ledger", "Ledgers", "open_ledgers"]


@dataclass(frozen=True)
class Ledger:
    """One sealed trial: its manifest, and the row counts of its tables' footers."""

    manifest: TrialManifest
    folder: str
    """In the file system of its sweep."""
    attempts_rows: int
    log_rows: int
    reads_rows: int
    transactions_rows: int
    sha256: str = ""
    """Of `trial.json`."""
    sealed_files: tuple[str, ...] = ()
    """The files to compare with their digests; none: it has no digests."""

    @property
    def rows(self) -> int:
        """The rows of its longest table."""
        return max(self.attempts_rows, self.log_rows, self.reads_rows)


@dataclass(frozen=True)
class Ledgers:
    """The sealed trials of a sweep, by trial id."""

    location: str
    """The sweep's folder, as `open_location` takes it on any machine with the same storage."""
    files: pafs.FileSystem
    root: str
    """The sweep's folder in `files`."""
    trials: tuple[Ledger, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The trials that cannot be measured, and the reasons."""

    @property
    def records(self) -> int:
        """How many records the trials have, about: of each, the rows of its longest table."""
        return sum(trial.rows for trial in self.trials)


def open_ledgers(
    sweep: str, *, skip_unfit: bool = False, limit: StepLimit = DEFAULT_LIMIT
) -> Ledgers:
    """Find and check the sealed trials of a sweep.

    Args:
        sweep: the sweep's folder, as a path of this machine or as a URI that
            `pyarrow.fs.FileSystem.from_uri` accepts.
        skip_unfit: leave out the trials that cannot be measured, instead of raising.
        limit: how long finding the trials may take, and the check of each.

    Raises:
        InvalidLedger: the sweep does not exist, its plan was altered, or a trial's file is missing,
            truncated, of another version or of another trial, or the trial is not the plan's.
    """
    with limited(f"finding the trials of {sweep}", limit):
        location = open_location(sweep)
        files, root = location.files, location.path
        if files.get_file_info(f"{root}/trials").type != pafs.FileType.Directory:
            raise InvalidLedger(f"{sweep} is not a sweep: it has no folder trials")
        folders = list(sealed_folders(files, root, published=is_uri(sweep)))
        planned = read_planned(files, root)
    trials, left_out = [], {}
    for folder in folders:
        trial_id = folder.rsplit("/", 1)[-1]
        try:
            with limited(f"checking trial {trial_id}", limit):
                trials.append(_check_trial(files, folder, planned, published=is_uri(sweep)))
        except LocationError:
            raise
        except InvalidLedger as error:
            if not skip_unfit:
                raise
            left_out[trial_id] = str(error)
    return Ledgers(location.uri, files, root, tuple(trials), left_out)


def _check_trial(
    files: pafs.FileSystem, folder: str, planned: PlannedTrials, *, published: bool
) -> Ledger:
    """Return a trial's ledger, after checking its files against `trial.json`, and that one."""
    manifest, rows = validate_trial(files, folder)
    planned.require(manifest)
    return Ledger(
        manifest,
        folder,
        rows["attempts"],
        rows["log"],
        rows["reads"],
        rows["transactions"],
        sha256=digest_file(files, f"{folder}/{TRIAL_MANIFEST}").sha256,
        sealed_files=sealed_files(manifest, published=published),
    )
