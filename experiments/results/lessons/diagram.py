"""A drawing of an experiment in plain text: who sends what to whom, and what breaks when.

It is drawn from the plan, so any experiment has one, and it shows what a sweep does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.messages.phrases import format_list, list_some, plural, wrap_line
from ackbench.experiments.sweep.cell_names import (
    FAULT_AXIS,
    axes_by_fault,
    axis_name,
    cell_sort_key,
    values_of,
    varying_axes,
)
from ackbench.experiments.sweep.plan import FaultRequest, Plan, TrialSpec
from ackbench.experiments.sweep.workload import Workload
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.composition.composite import parameters_of

COLUMNS: Final = 72
_MOST_FAULTS: Final = 8
_MOST_VALUES: Final = 6
_DRAWN: Final = frozenset(
    {
        FAULT_AXIS,
        "replication.factor",
        "partitions",
        "copy.delivery",
        "workload.rate_records_per_s",
        "workload.producers",
        "transactions.records",
        "transactions.abort_every",
    }
)
"""Axes whose values stand elsewhere in the drawing."""
_END: Final = (
    "once all replicas are in sync, the whole log is read: what was acknowledged and is missing, "
    "what is there twice or out of order, for how long nothing was accepted"
)
_FLOW: Final = "  │"
_ARROW: Final = "  ▼"


def draw_experiment(plan: Plan) -> tuple[str, ...]:
    """Return the lines of the drawing, each of at most 72 characters.

    A fault is drawn from its begin to its earliest heal: some wait for the cluster's reaction.

    Args:
        plan: the plan. Its added controls are not drawn; one without trials has no drawing.
    """
    own = [trial for trial in plan.trials if not trial.added] or plan.trials
    trials = sorted(own, key=lambda trial: cell_sort_key(trial.cell))
    if not trials:
        return ()
    return (*_path_of_records(trials), "", *_course(trials))


# The path of the records


def _path_of_records(trials: Sequence[TrialSpec]) -> Iterator[str]:
    loads = [trial.workload for trial in trials]
    rates = _spread(load.rate_records_per_s for load in loads)
    yield f"{_count((load.producers for load in loads), 'producer')}, {rates} records/s"
    for line in (*_transactions(loads), *_compared(trials)):
        yield from _beside_flow(line)
    yield _ARROW
    if any(trial.cluster.network == "relays" for trial in trials):
        yield from ("a relay, which can hold, drop or change what passes", _ARROW)
    yield _topic(trials)
    yield _ARROW
    yield from _readers(loads)


def _transactions(loads: Sequence[Workload]) -> Iterator[str]:
    used = [load.transactions for load in loads if load.transactions]
    if used:
        records = _spread(section.records for section in used)
        every = {section.abort_every for section in used} - {0}
        aborted = f", 1 in {_spread(every)} aborted" if every else ""
        without = "" if len(used) == len(loads) else ", or none"
        yield f"transactions of {records} records{aborted}{without}"


def _compared(trials: Sequence[TrialSpec]) -> Iterator[str]:
    """Yield each axis in which cells differ, with its values, unless it is drawn."""
    cells = [trial.cell for trial in trials]
    by_fault = axes_by_fault(cells)
    for axis in varying_axes(cells):
        if axis not in _DRAWN and axis not in by_fault:
            yield f"{axis_name(axis)}: {list_some(values_of(axis, cells), _MOST_VALUES)}"


def _topic(trials: Sequence[TrialSpec]) -> str:
    partitions = _count((trial.partitions for trial in trials), "partition")
    followers = _count((trial.replication_factor - 1 for trial in trials), "follower")
    brokers = _count((trial.cluster.nodes for trial in trials), "broker")
    return f"leader of {partitions} ───▶ {followers}    ({brokers})"


def _readers(loads: Sequence[Workload]) -> Iterator[str]:
    copies = [load.copies for load in loads if load.copies]
    groups = [load.group for load in loads if load.group]
    if copies:
        how = ", ".join(dict.fromkeys(copy.delivery for copy in copies))
        yield from (f"{_count((copy.copiers for copy in copies), 'copier')}, {how}", _ARROW)
        yield from ("another topic", _ARROW)
    yield "a consumer reads while the load runs"
    if groups:
        members = _count((group.consumers for group in groups), "member")
        number = _count((group.groups for group in groups), "group")
        yield f"{number} of {members} too, which commit"


# The course of a trial


@dataclass(frozen=True)
class _Bar:
    """A fault, or one of several joined; seconds after the load began."""

    name: str
    begins_s: float
    heals_s: float

    @property
    def span(self) -> str:
        if self.begins_s == self.heals_s:
            return f"from {self.begins_s:g} s"
        return f"{self.begins_s:g} to {self.heals_s:g} s"

    def drawn(self, columns_per_s: float) -> str:
        begins, heals = (round(at_s * columns_per_s) for at_s in (self.begins_s, self.heals_s))
        line = f"{'━' * (heals - begins - 1)}○" if heals > begins else ""
        return f"{' ' * begins}x{line}"


def _course(trials: Sequence[TrialSpec]) -> Iterator[str]:
    faults = {trial.fault.kind: trial.fault for trial in trials}
    bars = [bar for fault in faults.values() for bar in _bars(fault)]
    load = _Bar("load", 0, max(trial.workload.duration_s for trial in trials))
    shown = bars[:_MOST_FAULTS]
    names = max(len(bar.name) for bar in (load, *shown))
    spans = max(len(bar.span) for bar in (load, *shown))
    ends_s = max(bar.heals_s for bar in (load, *shown))
    columns = COLUMNS - names - spans - 5
    for bar in (load, *shown):
        drawn = bar.drawn((columns - 1) / ends_s)
        drawn = "█" * len(drawn) if bar is load else drawn
        yield f"{bar.name:{names}}  {bar.span:>{spans}}  {drawn}"
    if len(bars) > len(shown):
        yield f"and {len(bars) - len(shown)} more"
    yield ""
    for kind in dict.fromkeys(bar.name for bar in shown):
        yield from wrap_line(f"x {kind}: {FAULTS[kind].summary}", COLUMNS, "  ")
    yield from wrap_line(f"then, {'after the heal and ' if bars else ''}{_END}", COLUMNS, "  ")


def _bars(fault: FaultRequest, begins_s: float = 0) -> Iterator[_Bar]:
    """Yield the faults that are joined in one; in turn, each begins after the heal before it.

    A fault of a stored plan that this version does not have is left out.
    """
    for part in fault.parts:
        bars = tuple(_bars(part, begins_s))
        yield from bars
        if fault.joined == ">>":
            begins_s = max((bar.heals_s for bar in bars), default=begins_s)
    if not fault.parts and fault.kind in FAULTS and fault.kind != "none":
        parameters = parameters_of(fault)
        yield _Bar(fault.kind, begins_s + parameters.at_s, begins_s + parameters.heals_at_s())


# Words


def _count(numbers: Iterable[int], noun: str) -> str:
    """Return the numbers that trials have, with their noun: `1 or 6 partitions`, `no follower`."""
    values = sorted(set(numbers))
    if values == [0]:
        return f"no {noun}"
    return f"{format_list([f'{value:,}' for value in values], 'or')} {plural(values[-1], noun)}"


def _spread(numbers: Iterable[float]) -> str:
    """Return the least and the greatest number: `1,000`, `100 to 10,000`."""
    values = sorted(set(numbers))
    return " to ".join(f"{value:,g}" for value in dict.fromkeys((values[0], values[-1])))


def _beside_flow(line: str) -> Iterator[str]:
    for part in wrap_line(line, COLUMNS - len(_FLOW) - 2, "  "):
        yield f"{_FLOW}  {part}"
