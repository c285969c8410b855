"""`ackbench clean`: remove what ended runs left behind; delete sweeps that are named.

Sealed trials are deleted only with their sweep, and a sweep only by its id. Everything is deleted
under the lock of its sweep, or when no process locks it: docs/security.md has the whole table.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.terminal import echo
from ackbench.experiments.pages.live.files import LOCK, live_folder
from ackbench.experiments.results.history.kept import forget_summary
from ackbench.experiments.sweep.folder import PARTIAL, SweepFolder
from ackbench.experiments.sweep.lock import (
    RunRecord,
    SweepInUse,
    SweepLock,
    is_in_progress,
    record_path,
    runs,
)
from ackbench.experiments.sweep.lookup import list_sweeps, sweep_to_delete
from ackbench.infra.errors import HarnessError, InputError, WaitTimeout
from ackbench.infra.machine.files import is_locked
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.scratch import PREFIXES, remove_abandoned
from ackbench.infra.process.processes import kill_and_wait
from ackbench.infra.process.waiting import wait_until

_END_S: Final = 10.0
"""How long a command may take to end after the process of its run was killed."""
_DIGEST: Final = re.compile("[0-9a-f]{16}")
"""The name of a folder of copies: the digest of a URI."""
_STOPPED: Final = "ended by `ackbench clean --force`"


def clean(home: Home, named: Sequence[str], *, force: bool) -> int:
    """Clean up and print what was done. A second call finds nothing to do.

    Args:
        home: the home to clean.
        named: ids of this home's sweeps to delete, sealed trials included.
        force: also end runs of this machine that are in progress, and their clusters.

    Returns:
        The exit code.

    Raises:
        UnknownName: this home has no sweep of a named id.
        LedgerError: a named folder is not a valid sweep.
        InputError: a named sweep still runs, or the folder is not a home.
    """
    doomed = [sweep_to_delete(home, name) for name in named]
    cleaning = _Cleaning(home, force)
    done = [*cleaning.end_runs(), *cleaning.remove_clusters(), *cleaning.end_external_uses()]
    done += [*cleaning.remove_partial_trials(), *_remove_sweeps(home, doomed)]
    done += [*_remove_scratch_folders(home), *_remove_copies(home), *_remove_live_page(home)]
    for line in done or ["nothing to clean"]:
        echo(line)
    return 0


@dataclass
class _Cleaning:
    """One call of `clean`: which runs it found in progress, and which have ended."""

    home: Home
    force: bool
    running: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def end_runs(self) -> Iterator[str]:
        """Kill what is left of each run that is not in progress, and remove its record."""
        for sweep_id in runs(self.home):
            sweep, record = SweepFolder(self.home.sweeps / sweep_id), None
            try:
                if sweep.root.is_dir():
                    yield from self._end_left(sweep)
            except SweepInUse as error:
                record = error.record
                if not (self.force and record and record.machine.is_own):
                    self.running.add(sweep_id)
                    yield f"kept: the run of {sweep_id} ({error.runner}) is in progress"
                    continue
                _end_run(sweep, record)
                yield f"killed the run of {sweep_id} ({error.runner})"
            self.ended.add(sweep_id)
            record_path(self.home, sweep_id).unlink(missing_ok=True)

    def _end_left(self, sweep: SweepFolder) -> Iterator[str]:
        """Kill the child of a command that was killed; the kernel may not have done so yet."""
        with SweepLock(self.home, sweep) as lock:
            left = lock.previous
            if left and left.machine.is_own and left.runner and kill_and_wait(left.runner):
                yield f"killed the run of {sweep.sweep_id} (process {left.runner.pid})"

    def remove_clusters(self) -> Iterator[str]:
        """Remove the clusters that no run uses."""
        from ackbench.infra.cluster import cleaning

        report = cleaning.clean(
            self.home.clusters, running=self.running, ended=self.ended, include_held=self.force
        )
        if report.killed:
            pids = ", ".join(str(process.pid) for process in report.killed)
            yield f"killed {len(report.killed)} processes of clusters: {pids}"
        yield from (f"removed cluster {name}" for name in report.removed)
        yield from (f"kept: cluster {name}: {why}" for name, why in report.kept.items())

    def end_external_uses(self) -> Iterator[str]:
        """Delete what sweeps that nobody runs left in external clusters."""
        from ackbench.experiments.orchestration import external_use

        for sweep_id in external_use.noted_uses(self.home):
            if sweep_id not in self.running:
                try:
                    if line := external_use.end_use(self.home, sweep_id):
                        yield line
                except HarnessError as error:
                    yield f"kept: {error}"

    def remove_partial_trials(self) -> Iterator[str]:
        """Remove the partial trials of sweeps that nobody runs."""
        for sweep in list_sweeps(self.home):
            folders = sorted((sweep.root / "trials").glob(f"*{PARTIAL}"))
            if folders and sweep.sweep_id not in self.running:
                with suppress(SweepInUse), SweepLock(self.home, sweep):  # started meanwhile: kept
                    yield from _remove_partials(sweep, folders)


def _end_run(sweep: SweepFolder, record: RunRecord) -> None:
    """Kill a run, and wait until its command, which finds it ended, has released the lock."""
    if record.dag_run is not None:
        sweep.stop_reason.write_text(_STOPPED)  # the scheduler starts the next task all the same
    if record.runner:
        kill_and_wait(record.runner)
        with suppress(WaitTimeout):
            wait_until(
                lambda: not is_in_progress(sweep, None),
                awaiting=f"the end of process {record.watcher.pid}",
                timeout_s=_END_S,
            )
    kill_and_wait(record.watcher)


def _remove_partials(sweep: SweepFolder, folders: Collection[Path]) -> Iterator[str]:
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
            trial_id = folder.name.removesuffix(PARTIAL)
            yield f"removed unfinished trial {trial_id} of {sweep.sweep_id}"


def _remove_sweeps(home: Home, doomed: Sequence[SweepFolder]) -> Iterator[str]:
    for sweep in doomed:
        try:
            with SweepLock(home, sweep):
                shutil.rmtree(sweep.root)
                forget_summary(home, sweep.sweep_id)
        except SweepInUse as error:
            remedy = "stop it first, or use --force"
            raise InputError(f"{error}: {remedy}") from error
        yield f"deleted sweep {sweep.sweep_id}"


def _remove_scratch_folders(home: Home) -> Iterator[str]:
    """Remove the folders in the cache whose owners were killed, with the clusters in them."""
    from ackbench.infra.cluster import cleaning

    for prefix in PREFIXES:
        for name in remove_abandoned(home.cache, prefix, cleaning.clean):
            yield f"removed {name} from the cache"


def _remove_live_page(home: Home) -> Iterator[str]:
    """Remove the live page unless a process writes it; the next sweep writes it again."""
    folder = live_folder(home)
    if folder.is_dir() and not folder.is_symlink() and not is_locked(folder / LOCK):
        shutil.rmtree(folder)
        yield "removed the live page"


def _remove_copies(home: Home) -> Iterator[str]:
    """Remove the copies of published sweeps; the next command that reads one fetches it again."""
    for folder in sorted(home.published.glob("*")):
        if _DIGEST.fullmatch(folder.name) and not folder.is_symlink():
            copies = sorted(plan.parent.name for plan in folder.glob("*/plan.json"))
            shutil.rmtree(folder)
            yield from (f"removed the copy of published sweep {name}" for name in copies)
