"""The index of all sweeps of a home: summaries with their states, newest first, and filters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from experiments.errors import UnknownName
from experiments.history.pins import pinned_sweeps
from experiments.history.summary import (
    CellSummary,
    SweepSummary,
    kept_summary,
    summary_of,
)
from experiments.ledger.record import Frozen
from experiments.messages.phrases import format_value
from experiments.sweep.claim import is_in_progress, runs
from experiments.sweep.folder import SweepFolder
from experiments.sweep.lookup import experiment_of_sweep, pruned_folder
from infra.machine.home import Home


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
    """Only its summary is left."""


class IndexedSweep(Frozen):
    """A sweep in the index."""

    summary: SweepSummary
    state: SweepState
    pinned: bool = False
    """Whether `ackbench prune` keeps it."""


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


def index(
    home: Home, wanted: IndexFilter | None = None, on_new: Callable[[str], None] | None = None
) -> tuple[IndexedSweep, ...]:
    """Return the sweeps of a home, also pruned ones, the newest first.

    Args:
        home: the home.
        wanted: which of them; `None`: all.
        on_new: as in `summary_of`.
    """
    wanted, in_use, pinned = wanted or IndexFilter(), runs(home), pinned_sweeps(home)
    folders = {plan.parent.name: plan.parent for plan in home.sweeps.glob("*/plan.json")}
    found = []
    for name, folder in folders.items():
        if wanted.experiment and experiment_of_sweep(name) not in {wanted.experiment, None}:
            continue
        sweep = SweepFolder(folder)
        running = name in in_use and is_in_progress(sweep, in_use[name])
        found.append(
            _indexed(summary_of(sweep, home, on_new), running=running, pinned=name in pinned)
        )
    found += [
        IndexedSweep(summary=summary, state=SweepState.PRUNED)
        for summary in _pruned(home, folders.keys())
    ]
    found.sort(key=lambda one: (one.summary.planned_s, one.summary.sweep_id), reverse=True)
    return tuple(one for one in found if wanted.accepts(one))


def experiment_names(home: Home) -> frozenset[str]:
    """Return the experiments of a home's sweeps, by the sweeps' ids alone: no sweep is read."""
    ids = [plan.parent.name for plan in home.sweeps.glob("*/plan.json")]
    ids += [path.stem for path in pruned_folder(home).glob("[!.]*.json")]
    return frozenset(filter(None, map(experiment_of_sweep, ids)))


def _pruned(home: Home, present: Collection[str]) -> Iterator[SweepSummary]:
    """Yield the summaries that are left of pruned sweeps."""
    for path in pruned_folder(home).glob("[!.]*.json"):
        summary = kept_summary(path) if path.stem not in present else None
        if summary is not None:
            yield summary


def _indexed(summary: SweepSummary, *, running: bool, pinned: bool) -> IndexedSweep:
    return IndexedSweep(summary=summary, state=_state(summary, running=running), pinned=pinned)


def _state(summary: SweepSummary, *, running: bool) -> SweepState:
    if running:
        return SweepState.RUNNING
    if summary.problem:
        return SweepState.UNREADABLE
    if summary.pending_trials:
        return SweepState.INCOMPLETE
    return SweepState.COMPLETE if summary.measured else SweepState.UNMEASURED
