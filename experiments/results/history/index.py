"""The index of all sweeps of a home: summaries with their states, newest first, and filters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.results.history.kept import (
    completed,
    file_stamp,
    is_current,
    read_summary,
    rebuilt_summary,
)
from ackbench.experiments.results.history.pins import pinned_sweeps, pins_of_store
from ackbench.experiments.results.history.store import SummaryStore, without_details
from ackbench.experiments.results.history.summary import CellSummary, SweepSummary
from ackbench.experiments.sweep.folder import SEVERAL_HOSTS, SweepFolder
from ackbench.experiments.sweep.lock import RunRecord, is_in_progress, runs
from ackbench.experiments.sweep.lookup import experiment_of_sweep, pruned_folder, sweep_folders
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.ledger.location import Location


class SweepState(StrEnum):
    """What there is of a sweep."""

    RUNNING = "running"
    COMPLETE = "complete"
    """Every planned trial is sealed or void, and measured."""
    INCOMPLETE = "incomplete"
    """Planned trials are missing; `ackbench run --resume` runs them."""
    UNMEASURED = "not measured"
    """`ackbench measure` computes its results."""
    UNREADABLE = "unreadable"
    """`SweepSummary.problem` says why."""
    PRUNED = "pruned"
    """Only its summary is left, in the home or in the store."""
    PUBLISHED = "published"
    """There is no folder of it in the home, but in the store: another host ran it, or it was pruned
    here."""


class IndexedSweep(Frozen):
    """A sweep with its present state: of the home, pruned, or of another host in the store."""

    summary: SweepSummary
    state: SweepState
    pinned: bool = False
    """Whether `ackbench prune` keeps it."""

    @property
    def home_bytes(self) -> int:
        """Its size in this home: 0 if only its summary is here."""
        elsewhere = self.state in {SweepState.PRUNED, SweepState.PUBLISHED}
        return 0 if elsewhere else self.summary.size_bytes


@dataclass(frozen=True)
class IndexFilter:
    """Which sweeps to list; `None`: any."""

    experiment: str | None = None
    version: str | None = None
    """A version of Kafka, or its beginning: `4` is all of 4.x."""
    cell: tuple[str, ...] = ()
    """Words that are in the label of one of its cells."""
    states: frozenset[SweepState] = frozenset(SweepState)

    def accepts(self, sweep: IndexedSweep) -> bool:
        """Return whether a sweep is listed."""
        summary = sweep.summary
        return (
            sweep.state in self.states
            and self.experiment in {None, summary.experiment}
            and (
                self.version is None
                or any(is_version(self.version, one) for one in summary.kafka_versions)
            )
            and (not self.cell or any(has_words(self.cell, cell) for cell in summary.cells))
        )


def index_filter(
    experiment: str | None = None,
    *,
    version: str | None = None,
    cell: str | None = None,
    state: str | None = None,
) -> IndexFilter:
    """Return the filter of a command's options.

    Raises:
        UnknownName: there is no such state.
    """
    states = {one.value: one for one in SweepState}
    if state is not None and state not in states:
        raise UnknownName(
            f"unknown state {format_value(state)}; allowed: {', '.join(sorted(states))}"
        )
    return IndexFilter(
        experiment=experiment,
        version=version,
        cell=tuple((cell or "").split()),
        states=frozenset(states.values()) if state is None else frozenset({states[state]}),
    )


def is_version(wanted: str, version: str) -> bool:
    """Return whether a version is the wanted one, or begins with it: `4.3` is also 4.3.1."""
    return f"{version}.".startswith(f"{wanted.rstrip('.')}.")


def has_words(words: Sequence[str], cell: CellSummary) -> bool:
    """Return whether each word is one of the label's: `acks=all`, `leader-crash`.

    `leader-crash` is also a word of `leader-crash-behind & leader-pause`, but not of
    `leader-crash-behind`.
    """
    return set(words) <= set(cell.label.split())


OnNew = Callable[[str, int, int], None]
"""Is called before a summary is made, with the sweep's id, its number, and how many are made."""


def index(
    home: Home,
    wanted: IndexFilter | None = None,
    on_new: OnNew | None = None,
    *,
    store: Location | None = None,
    details: bool = True,
) -> tuple[IndexedSweep, ...]:
    """Return the sweeps of a home, also pruned ones, and those of a store, the newest first.

    Args:
        home: the home.
        wanted: which of them; `None`: all.
        on_new: gets the name and number of each sweep that is new, and how many there are.
        store: what other hosts published there belongs to the history; `None`: only the home.
        details: whether summaries have their cells and settings, which take most of the space.

    Raises:
        LocationError: the store cannot be read.
    """
    wanted = wanted or IndexFilter()
    folders = _wanted(wanted, {name: home.sweeps / name for name in sweep_folders(home)})
    pruned = _wanted(wanted, {path.stem: path for path in _pruned_files(home)})
    shared = _wanted(wanted, _shared(home, store)) if store else {}
    if not folders and not pruned and not shared:
        return ()
    in_use, pinned = runs(home), pinned_sweeps(home, folders)
    if store:
        pinned |= pins_of_store(store)
    # Of a sweep that several hosts have run, this home has its own trials alone.
    in_parts = {
        name
        for name in folders.keys() & shared.keys()
        if name not in in_use and (folders[name] / SEVERAL_HOSTS).is_file()
    }
    folders = {name: folder for name, folder in folders.items() if name not in in_parts}
    with SummaryStore(home) as summaries:
        kept = summaries.heads()
        found = [
            IndexedSweep(
                summary=summary,
                state=_state(summary, running=_is_running(folders[name], in_use)),
                pinned=name in pinned,
            )
            for name, summary in _current(summaries, kept, folders, on_new)
        ]
        found += [
            IndexedSweep(summary=summary, state=SweepState.PRUNED)
            for summary in _left(summaries, kept, pruned, folders.keys() | shared.keys())
        ]
        found += [
            IndexedSweep(
                summary=summary,
                state=_state_in_store(summary, is_here=summary.sweep_id in in_parts),
                pinned=summary.sweep_id in pinned,
            )
            for summary in _left(summaries, kept, shared, folders.keys())
        ]
        if wanted.experiment is None:
            summaries.forget(kept.keys() - folders.keys() - pruned.keys() - shared.keys())
        found.sort(key=lambda one: (one.summary.planned_s, one.summary.sweep_id), reverse=True)
        return tuple(_accepted(summaries, home, found, wanted, details=details))


def _shared(home: Home, store: Location) -> dict[str, Path]:
    from ackbench.experiments.results.history.shared import fetch_summaries  # loads Arrow

    return dict(fetch_summaries(home, store))


def _wanted(wanted: IndexFilter, paths: dict[str, Path]) -> dict[str, Path]:
    """Return the sweeps whose id may be one of the wanted experiment: only these are looked at."""
    experiments = {wanted.experiment, None}
    return {
        name: path
        for name, path in paths.items()
        if not wanted.experiment or experiment_of_sweep(name) in experiments
    }


def _current(
    store: SummaryStore,
    kept: Mapping[str, SweepSummary],
    folders: Mapping[str, Path],
    on_new: OnNew | None,
) -> Iterator[tuple[str, SweepSummary]]:
    """Yield the summary of each folder, made if there is none of what it holds now."""
    sweeps = {name: SweepFolder(folder) for name, folder in folders.items()}
    new = [name for name in sweeps if not is_current(kept.get(name), sweeps[name])]
    yield from ((name, kept[name]) for name in folders.keys() - set(new))
    for number, name in enumerate(new, 1):
        if on_new:
            on_new(name, number, len(new))
        yield name, without_details(rebuilt_summary(store, sweeps[name]))


def _left(
    store: SummaryStore,
    kept: Mapping[str, SweepSummary],
    files: Mapping[str, Path],
    present: Collection[str],
) -> Iterator[SweepSummary]:
    """Yield the summaries of sweeps without a folder here, from the files that they are kept in."""
    for name in files.keys() - set(present):
        stamp, known = file_stamp(files[name]), kept.get(name)
        if known is None or known.stamp != stamp:
            read = read_summary(files[name])
            if read is None or read.sweep_id != name:
                continue
            known = read.model_copy(update={"stamp": stamp})
            store.keep(known)
        yield known


def _accepted(
    store: SummaryStore,
    home: Home,
    found: Iterable[IndexedSweep],
    wanted: IndexFilter,
    *,
    details: bool,
) -> Iterator[IndexedSweep]:
    for one in found:
        full = one
        if details or wanted.cell:
            summary = completed(store, home, one.summary)
            full = one.model_copy(update={"summary": summary})
        if wanted.accepts(full):
            yield full if details else one


def _is_running(folder: Path, in_use: Mapping[str, RunRecord | None]) -> bool:
    return folder.name in in_use and is_in_progress(SweepFolder(folder), in_use[folder.name])


def experiment_names(home: Home, store: Location | None = None) -> frozenset[str]:
    """Return the experiments of a home's and a store's sweeps, by ids alone: no sweep is read."""
    shared = _shared(home, store) if store else {}
    ids = [*sweep_folders(home), *(path.stem for path in _pruned_files(home)), *shared]
    return frozenset(filter(None, map(experiment_of_sweep, ids)))


def _pruned_files(home: Home) -> Iterator[Path]:
    return pruned_folder(home).glob("[!.]*.json")


def _state_in_store(summary: SweepSummary, *, is_here: bool) -> SweepState:
    if summary.pruned_s is not None:
        return SweepState.PRUNED
    return _state(summary, running=False) if is_here else SweepState.PUBLISHED


def _state(summary: SweepSummary, *, running: bool) -> SweepState:
    if running:
        return SweepState.RUNNING
    if summary.problem:
        return SweepState.UNREADABLE
    if summary.pending_trials:
        return SweepState.INCOMPLETE
    return SweepState.COMPLETE if summary.measured else SweepState.UNMEASURED
