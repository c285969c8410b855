"""`ackbench clean`: remove what killed runs left behind; delete sweeps that are named.

Sealed trials are deleted only with their sweep, and a sweep only by its id.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from experiments.commands.sweep_claim import run_records
from experiments.sweep.folder import PARTIAL, SweepFolder
from experiments.sweep.lookup import list_sweeps, sweep_to_delete
from infra.errors import InputError
from infra.machine.home import Home
from infra.process.processes import kill_and_wait


def clean(home: Home, named: Sequence[str], *, force: bool) -> int:
    """Clean up and print what was done. A second call finds nothing to do.

    Args:
        home: the home to clean.
        named: ids of this home's sweeps to delete, sealed trials included.
        force: also end runs whose command is alive, and the clusters that they hold.

    Returns:
        The exit code.

    Raises:
        UnknownName: this home has no sweep of a named id.
        LedgerError: a named folder is not a valid sweep.
        InputError: a named sweep still runs.
    """
    doomed = [sweep_to_delete(home, name) for name in named]
    done = [*_end_runs(home, force=force), *_remove_clusters(home, force=force)]
    done += [*_remove_partial_trials(home), *_remove_sweeps(home, doomed), *_remove_copies(home)]
    for line in done or ["nothing to clean"]:
        click.echo(line)
    return 0


def _end_runs(home: Home, *, force: bool) -> Iterator[str]:
    """Kill each run whose command is no longer alive; the run's children die with it."""
    for path, record in run_records(home):
        if record and record.is_watched() and not force:
            run = f"the run of {record.sweep_id} (process {record.watcher_pid})"
            yield f"kept: {run} is in progress"
            continue
        if record and record.runner and kill_and_wait(record.runner):
            yield f"killed the run of {record.sweep_id} (process {record.runner_pid})"
        path.unlink(missing_ok=True)


def _remove_clusters(home: Home, *, force: bool) -> Iterator[str]:
    from infra.cluster import cleaning

    report = cleaning.clean(home.clusters, include_held=force)
    if report.killed:
        pids = ", ".join(str(process.pid) for process in report.killed)
        yield f"killed {len(report.killed)} processes of clusters: {pids}"
    yield from (f"removed cluster {name}" for name in report.removed)
    yield from (f"kept: cluster {name} is in use" for name in report.kept)


def _remove_partial_trials(home: Home) -> Iterator[str]:
    """Remove partial trials, unless a run or a cluster exists that may still be writing one."""
    if _running(home) or _clusters(home):
        return
    for sweep in list_sweeps(home):
        for folder in sorted((sweep.root / "trials").glob(f"*{PARTIAL}")):
            shutil.rmtree(folder)
            trial_id = folder.name.removesuffix(PARTIAL)
            yield f"removed unfinished trial {trial_id} of {sweep.sweep_id}"


def _remove_sweeps(home: Home, doomed: Sequence[SweepFolder]) -> Iterator[str]:
    for sweep in doomed:
        if sweep.sweep_id in _running(home):
            raise InputError(f"sweep {sweep.sweep_id} is running: stop it first, or use --force")
        shutil.rmtree(sweep.root)
        yield f"deleted sweep {sweep.sweep_id}"


def _remove_copies(home: Home) -> Iterator[str]:
    """Remove the copies of published sweeps; the next command that reads one fetches it again."""
    copies = [path.parent for path in sorted(home.published.glob("*/*/plan.json"))]
    shutil.rmtree(home.published, ignore_errors=True)
    yield from (f"removed the copy of published sweep {copy.name}" for copy in copies)


def _running(home: Home) -> set[str]:
    return {record.sweep_id for _, record in run_records(home) if record}


def _clusters(home: Home) -> list[Path]:
    return [folder for folder in home.clusters.glob("*") if folder.is_dir()]
