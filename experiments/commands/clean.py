"""`ackbench clean`: ends and removes what killed runs left behind. Sealed trials go only with a sweep that is named."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from experiments.commands.sweep_claim import run_records
from experiments.planning.new_sweep import own_sweep, sweeps
from experiments.sweep.folder import PARTIAL, SweepFolder
from infra.errors import InputError
from infra.machine.home import Home
from infra.process.processes import kill_and_wait


def clean(home: Home, named: Sequence[str], *, force: bool) -> int:
    """Clean up, and say what was done; the second time there is nothing to do.

    Args:
        home: where to look.
        named: ids of this home's sweeps to delete, sealed trials and all.
        force: end also runs whose command lives, and the clusters that they hold.

    Raises:
        UnknownName: this home has no sweep of a named id.
        LedgerError: a named folder is not a valid sweep.
        InputError: a named sweep still runs.
    """
    doomed = [own_sweep(home, name) for name in named]
    said = [*_end_runs(home, force=force), *_remove_clusters(home, force=force)]
    said += [*_remove_partial_trials(home), *_remove_sweeps(home, doomed)]
    for line in said or ["nothing to clean"]:
        click.echo(line)
    return 0


def _end_runs(home: Home, *, force: bool) -> Iterator[str]:
    """Kill each run whose command is gone; a run's own children die with it."""
    for path, record in run_records(home):
        if record and record.is_watched() and not force:
            yield f"left alone: the run of {record.sweep_id} (process {record.watcher_pid}) is under way"
            continue
        if record and record.runner and kill_and_wait(record.runner):
            yield f"killed the run of {record.sweep_id} (process {record.runner_pid})"
        path.unlink(missing_ok=True)


def _remove_clusters(home: Home, *, force: bool) -> Iterator[str]:
    from infra.cluster import cleaning

    report = cleaning.clean(home.clusters, held_too=force)
    if report.killed:
        yield f"killed {len(report.killed)} processes of clusters: {', '.join(str(process.pid) for process in report.killed)}"
    yield from (f"removed cluster {name}" for name in report.removed)
    yield from (f"left alone: cluster {name} is in use" for name in report.kept)


def _remove_partial_trials(home: Home) -> Iterator[str]:
    """Remove trials that nobody will end: while a cluster is in use, any of them may still be written, here or under a scheduler."""
    if _running(home) or _clusters(home):
        return
    for sweep in sweeps(home):
        for folder in sorted((sweep.root / "trials").glob(f"*{PARTIAL}")):
            shutil.rmtree(folder)
            yield f"removed unfinished trial {folder.name.removesuffix(PARTIAL)} of {sweep.sweep_id}"


def _remove_sweeps(home: Home, doomed: Sequence[SweepFolder]) -> Iterator[str]:
    for sweep in doomed:
        if sweep.sweep_id in _running(home):
            raise InputError(f"sweep {sweep.sweep_id} still runs: end it first, or use --force")
        shutil.rmtree(sweep.root)
        yield f"deleted sweep {sweep.sweep_id}"


def _running(home: Home) -> set[str]:
    return {record.sweep_id for _, record in run_records(home) if record}


def _clusters(home: Home) -> list[Path]:
    return [folder for folder in home.clusters.glob("*") if folder.is_dir()]
