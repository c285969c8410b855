"""`ackbench run --until "ci<0.1"`: add repeats to cells until their intervals are narrow enough.

Repeats are added for the width of an interval and never for its position, so that the rule of
stopping favours no result.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.planning.cells import cell_key
from ackbench.experiments.planning.new_sweep import check_machine
from ackbench.experiments.planning.planner import MAX_TRIALS, extend_plan
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.own_plans import mark_as_own
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import expected_minutes
from ackbench.experiments.verdicts.statistics import Share, is_precise_enough, trials_for_width
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.home import Home

MOST_REPEATS: Final = 100
"""Repeats of a cell, without `--max-repeats`."""
MOST_VOID_TRIALS: Final = 3
"""A cell with this many void or incomplete trials and no sealed one gets no further repeats."""
_UNKNOWN_SHARE: Final = 0.5
"""The share of a cell whose trials cannot tell: it needs the most trials."""
_GOAL: Final = re.compile(r"\s*ci\s*<\s*(?P<width>\d*\.?\d+)\s*(?P<percent>%?)\s*")
_BUDGET: Final = re.compile(r"\s*(?P<number>\d*\.?\d+)\s*(?P<unit>[smh])\s*")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MINUTE_S: Final = 60


class RepeatLimits(Frozen):
    """How narrow the intervals have to be, and how much that may cost."""

    width: float
    """The width that every interval must be below, as a share of the trials."""
    budget_s: float | None = None
    """From the start of the command. The first repeats are run whatever the budget is."""
    max_repeats: int = MOST_REPEATS

    @classmethod
    def of(
        cls, goal: str, budget: str | None = None, max_repeats: int | None = None
    ) -> RepeatLimits:
        """Return the limits of the command line's options.

        Raises:
            ExperimentError: a text has another form, or a number is out of bounds.
        """
        found = _GOAL.fullmatch(goal)
        width = float(found["width"]) if found else 0.0
        if found and found["percent"]:
            width /= 100
        if not 0 < width < 1:
            raise ExperimentError(
                f"--until is {goal!r}; allowed: ci<WIDTH with a width between 0 and 1 "
                '(or 0 % and 100 %), as in --until "ci<0.1"'
            )
        most = MOST_REPEATS if max_repeats is None else max_repeats
        if not 1 <= most <= 1024:  # noqa: PLR2004 - as `repeats` in an experiment
            raise ExperimentError(
                f"--max-repeats is {most}; allowed: a whole number from 1 to 1024"
            )
        return cls(
            width=width, budget_s=None if budget is None else _budget_s(budget), max_repeats=most
        )


class Round(Frozen):
    """Repeats that were added at one time."""

    trials: int
    cells: int
    """The cells that got at least one of them."""
    widest: float
    """The widest interval before they were added."""


class RepeatHistory(Frozen):
    """How repeats were added to a sweep: `until.json` in its folder."""

    limits: RepeatLimits
    rounds: tuple[Round, ...] = ()
    ended: str | None = None
    """Why no more were added; null: the command was killed before."""


def _budget_s(text: str) -> float:
    found = _BUDGET.fullmatch(text)
    seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
    if seconds <= 0:
        raise ExperimentError(
            f"--budget is {text!r}; allowed: a time with its unit, as in 90s, 30m or 2h"
        )
    return seconds


def shares_of(cell: CellResult) -> tuple[Share, ...]:
    """Return the shares whose intervals count: trials with loss and trials with duplicates."""
    return tuple(share for share in (cell.loss, cell.duplication) if share is not None)


def too_wide(cells: Sequence[CellResult], width: float) -> tuple[CellResult, ...]:
    """Return the cells with an interval that is too wide.

    Refused cells, added controls and cells whose trials are all void are left out.
    """
    return tuple(
        cell
        for cell in cells
        if _is_open(cell)
        and (
            not shares_of(cell)
            or not all(is_precise_enough(share, width) for share in shares_of(cell))
        )
    )


def widest(cells: Sequence[CellResult]) -> float:
    """Return the width of the widest interval; 1 for a cell without an interval."""
    return max(
        (max((share.interval.width for share in shares_of(cell)), default=1.0) for cell in cells),
        default=0.0,
    )


def repeats_needed(cells: Sequence[CellResult], limits: RepeatLimits) -> dict[str, int]:
    """Return how many more repeats each cell needs now, by `cell_key`, within `max_repeats`.

    First as many as the width takes at a share of 0 or 1, because no other share needs fewer. Then
    as many as the observed share needs, at most doubling the trials, because it is an estimate.
    """
    needed = {
        cell_key(cell.cell): min(
            _repeats_for(cell, limits.width), limits.max_repeats - cell.planned_trials
        )
        for cell in too_wide(cells, limits.width)
    }
    return {key: repeats for key, repeats in needed.items() if repeats > 0}


def _repeats_for(cell: CellResult, width: float) -> int:
    sealed, least = cell.sealed_trials, trials_for_width(0.0, width)
    if sealed < least:
        return max(least - sealed, 1) if sealed else 1
    needed = max(
        trials_for_width(share.seen / share.of if share.of else _UNKNOWN_SHARE, width)
        for share in shares_of(cell)
    )
    return max(min(needed - sealed, sealed), 1)


def limited(needed: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the repeats by cell, cut to `most` trials in all; one repeat of each cell in turn."""
    granted: dict[str, int] = {}
    for key in list(_round_robin(needed))[: max(most, 0)]:
        granted[key] = granted.get(key, 0) + 1
    return granted


def _round_robin(needed: Mapping[str, int]) -> Iterator[str]:
    for repeat in range(max(needed.values(), default=0)):
        yield from (key for key, repeats in needed.items() if repeat < repeats)


def _is_open(cell: CellResult) -> bool:
    void = cell.void_trials + cell.incomplete_trials
    given_up = cell.sealed_trials == 0 and void >= MOST_VOID_TRIALS
    return cell.refused is None and not cell.added and not given_up


def planned_repeats_text(plan: Plan, limits: RepeatLimits) -> str:
    """Return what `--until` may add to a plan, as far as it is known without results."""
    trials = Counter(cell_key(trial.cell) for trial in plan.trials if not trial.added)
    fewest, most = (
        min(trials_for_width(share, limits.width), limits.max_repeats)
        for share in (0.0, _UNKNOWN_SHARE)
    )
    needed = {cell: most - planned for cell, planned in trials.items()}
    granted = limited(needed, MAX_TRIALS - len(plan.trials))
    longer = expected_minutes(extend_plan(plan, granted)) - expected_minutes(plan)
    budget = f", within {_format_time(limits.budget_s)} (--budget)" if limits.budget_s else ""
    return (
        f"--until ci<{limits.width:g}: at most {format_count(sum(granted.values()), 'more trial')} "
        f"and {format_count(longer, 'more minute')}{budget}: up to {most} of each cell, {fewest} "
        "if they agree; void ones are replaced, "
        f"up to {format_count(limits.max_repeats, 'trial')} of each cell (--max-repeats)"
    )


class RepeatUntil:
    """Plans further repeats of one sweep after each run of the DAG, until its intervals are narrow.

    Args:
        home: the home of the sweep, for the check of memory and disk.
        sweep: the sweep.
        limits: how narrow, and at what cost. The budget counts from here.
        say: called with a line for the user.
    """

    def __init__(
        self, home: Home, sweep: SweepFolder, limits: RepeatLimits, say: Callable[[str], None]
    ) -> None:
        self._home, self._sweep, self._limits, self._say = home, sweep, limits, say
        self._began_s, self._pending_before = time.monotonic(), len(sweep.pending())
        self._history = RepeatHistory(limits=limits)
        self._save()

    def plan_more(self) -> bool:
        """Plan more repeats and return True; or record and print why not, and return False."""
        cells = read_results(self._sweep).cells
        wide = too_wide(cells, self._limits.width)
        needed = repeats_needed(cells, self._limits)
        most = min(self._affordable_trials(), MAX_TRIALS - len(self._sweep.plan().trials))
        granted = limited(needed, most)
        if not granted:
            self.end(self._why_not(wide, needed))
            return False
        return self._add(granted, widest(wide))

    def end(self, reason: str) -> None:
        """Record and print why no more repeats are added."""
        self._history = self._history.model_copy(update={"ended": reason})
        self._save()
        self._say(f"until: {reason}")

    def _add(self, granted: dict[str, int], before: float) -> bool:
        plan = extend_plan(self._sweep.plan(), granted)
        try:
            check_machine(plan, self._home)
        except MachineError as error:
            self.end(f"no more trials fit this machine: {error}")
            return False
        added = Round(trials=sum(granted.values()), cells=len(granted), widest=before)
        self._sweep.write_plan(plan)
        mark_as_own(self._home, self._sweep)
        self._history = self._history.model_copy(update={"rounds": (*self._history.rounds, added)})
        self._save()
        more = f"{added.trials} more trials in {format_count(added.cells, 'cell')}"
        goal = f"the goal is below {self._limits.width:g}"
        self._say(f"until: the widest interval is {before:.2f}, {goal}: {more}")
        return True

    def _affordable_trials(self) -> int:
        """Return how many more trials fit the budget, at the mean cost of this command's trials.

        Starts of clusters and the measuring are included in that cost.
        """
        if self._limits.budget_s is None:
            return MAX_TRIALS
        spent_s = time.monotonic() - self._began_s
        trials = self._pending_before + sum(round_.trials for round_ in self._history.rounds)
        return int((self._limits.budget_s - spent_s) // (spent_s / max(trials, 1)))

    def _why_not(self, wide: Sequence[CellResult], needed: Mapping[str, int]) -> str:
        width = self._limits.width
        if not wide:
            return f"every interval is narrower than {width:g}"
        worst = max(wide, key=lambda cell: widest([cell])).label
        cells = format_count(len(wide), "cell")
        left = f"{cells} still wider than {width:g} (the widest {widest(wide):.2f}: {worst})"
        if not needed:
            return (
                f"{self._limits.max_repeats} repeats per cell are the limit (--max-repeats); {left}"
            )
        if len(self._sweep.plan().trials) >= MAX_TRIALS:
            return f"a sweep has at most {MAX_TRIALS} trials; {left}"
        budget = _format_time(self._limits.budget_s or 0)
        return f"no more trials fit the budget of {budget} (--budget); {left}"

    def _save(self) -> None:
        self._sweep.write_record(self._sweep.repeat_history, self._history)


def _format_time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 2 * _MINUTE_S else f"{seconds / _MINUTE_S:g} min"
