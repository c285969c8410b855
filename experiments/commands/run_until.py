"""`ackbench run --until "ci<0.1"`: which cells need more trials, and when it is enough. Pure.

Trials are added for the width of an interval and never for where it lies, so that stopping favours no answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from experiments.errors import ExperimentError
from experiments.ledger.record import Frozen
from experiments.planning.cells import cell_key
from experiments.planning.new_sweep import check_machine
from experiments.planning.planner import MOST_TRIALS, extended
from experiments.results.models import CellResult
from experiments.results.read import read_results
from experiments.sweep.folder import SweepFolder
from experiments.verdicts.statistics import Share, precise_enough, trials_for_width
from infra.errors import MachineError
from infra.machine.home import Home

MOST_REPEATS: Final = 100
"""Of a cell, where `--max-repeats` does not say otherwise."""
GIVEN_UP_AFTER: Final = 3
"""A cell of which so many trials were void and none could be judged is given no more."""
_GOAL: Final = re.compile(r"\s*ci\s*<\s*(?P<width>\d*\.?\d+)\s*(?P<percent>%?)\s*")
_BUDGET: Final = re.compile(r"\s*(?P<number>\d*\.?\d+)\s*(?P<unit>[smh])\s*")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class RepeatLimits(Frozen):
    """What is asked for, and at what cost."""

    width: float
    """Every interval is to be narrower, as a share of all trials."""
    budget_s: float | None = None
    """From the beginning of the command; the first repeats are run whatever it is."""
    max_repeats: int = MOST_REPEATS

    @classmethod
    def of(
        cls, goal: str, budget: str | None = None, max_repeats: int | None = None
    ) -> RepeatLimits:
        """Return the limits that the command line asks for.

        Raises:
            ExperimentError: a text is of another form, or a number out of bounds; one line.
        """
        found = _GOAL.fullmatch(goal)
        width = float(found["width"]) / (100 if found["percent"] else 1) if found else 0.0
        if not 0 < width < 1:
            raise ExperimentError(
                f'--until is {goal!r}; allowed: ci<WIDTH with a width between 0 and 1 (or 0 % and 100 %), as in --until "ci<0.1"'
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
    """Repeats that were added together."""

    trials: int
    cells: int
    """How many cells they went to."""
    widest: float
    """The widest interval before."""


class RepeatHistory(Frozen):
    """How a sweep was gone on with: `until.json` in its folder."""

    limits: RepeatLimits
    rounds: tuple[Round, ...] = ()
    ended: str | None = None
    """Why no more trials were added; null: the command did not come so far."""


def _budget_s(text: str) -> float:
    found = _BUDGET.fullmatch(text)
    seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
    if seconds <= 0:
        raise ExperimentError(
            f"--budget is {text!r}; allowed: a time with its unit, as in 90s, 30m or 2h"
        )
    return seconds


def shares_of(cell: CellResult) -> tuple[Share, ...]:
    """Return the shares whose intervals count: of the trials that lost, and of those that repeated."""
    return tuple(share for share in (cell.loss, cell.duplication) if share is not None)


def too_wide(cells: Sequence[CellResult], width: float) -> tuple[CellResult, ...]:
    """Return the experiment's own cells of which some interval is too wide, the refused and the given up left out."""
    return tuple(
        cell
        for cell in cells
        if _is_open(cell)
        and (
            not shares_of(cell)
            or not all(precise_enough(share, width) for share in shares_of(cell))
        )
    )


def widest(cells: Sequence[CellResult]) -> float:
    """Return the widest interval of the cells; 1 where one has none."""
    return max(
        (max((share.interval.width for share in shares_of(cell)), default=1.0) for cell in cells),
        default=0.0,
    )


def wished(cells: Sequence[CellResult], limits: RepeatLimits) -> dict[str, int]:
    """Return how many more repeats each cell that is too wide should be given now, by `cell_key`; none beyond the most.

    At first as many as the width takes where nothing, or everything, was seen: no share needs fewer. After that as many as the share
    that was seen asks for, and no more than there are, because that share is itself an estimate.
    """
    overrides = {
        cell_key(cell.cell): min(
            _wish(cell, limits.width), limits.max_repeats - cell.planned_trials
        )
        for cell in too_wide(cells, limits.width)
    }
    return {key: override_of for key, override_of in overrides.items() if override_of > 0}


def _wish(cell: CellResult, width: float) -> int:
    sealed, least = cell.sealed_trials, trials_for_width(0.0, width)
    if sealed < least:
        return max(least - sealed, 1) if sealed else 1
    needed = max(trials_for_width(share.seen / share.of, width) for share in shares_of(cell))
    return max(min(needed - sealed, sealed), 1)


def within(overrides: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the wishes cut to so many trials together, a repeat of each cell after the other."""
    granted: dict[str, int] = {}
    for key in list(_in_turn(overrides))[: max(most, 0)]:
        granted[key] = granted.get(key, 0) + 1
    return granted


def _in_turn(overrides: Mapping[str, int]) -> Iterator[str]:
    for repeat in range(max(overrides.values(), default=0)):
        yield from (key for key, override_of in overrides.items() if repeat < override_of)


def _is_open(cell: CellResult) -> bool:
    given_up = cell.sealed_trials == 0 and cell.void_trials >= GIVEN_UP_AFTER
    return cell.refused is None and not cell.added and not given_up


# ---------- `ackbench run --until`: after each run of the DAG, look how wide the intervals are, and plan more repeats where they are too wide.


_MINUTE_S: Final = 60


class RepeatUntil:
    """One sweep's way to intervals that are narrow enough; begins when it is made."""

    def __init__(
        self, home: Home, sweep: SweepFolder, limits: RepeatLimits, say: Callable[[str], None]
    ) -> None:
        self._home, self._sweep, self._limits, self._say = home, sweep, limits, say
        self._began_s, self._pending_before = time.monotonic(), len(sweep.pending())
        self._course = RepeatHistory(limits=limits)
        self._keep()

    def go_on(self) -> bool:
        """Plan more repeats where they are wanted and can be had; otherwise keep and say why not. Return whether there are any."""
        cells = read_results(self._sweep).cells
        wide = too_wide(cells, self._limits.width)
        overrides = wished(cells, self._limits)
        granted = within(
            overrides, min(self._affordable(), MOST_TRIALS - len(self._sweep.plan().trials))
        )
        if not granted:
            self.end(self._why_not(wide, overrides))
            return False
        return self._add(granted, widest(wide))

    def end(self, reason: str) -> None:
        """Keep, and say, why no more trials are added."""
        self._course = self._course.model_copy(update={"ended": reason})
        self._keep()
        self._say(f"until: {reason}")

    def _add(self, granted: dict[str, int], before: float) -> bool:
        plan = extended(self._sweep.plan(), granted)
        try:
            check_machine(plan, self._home)
        except MachineError as error:
            self.end(f"no more trials fit this machine: {error}")
            return False
        added = Round(trials=sum(granted.values()), cells=len(granted), widest=before)
        self._sweep.write_plan(plan)
        self._course = self._course.model_copy(update={"rounds": (*self._course.rounds, added)})
        self._keep()
        self._say(
            f"until: the widest interval is {before:.2f}, asked for is below {self._limits.width:g}: {added.trials} more trials in {_cells(added.cells)}"
        )
        return True

    def _affordable(self) -> int:
        """Return how many more trials the budget holds, if each takes what those of this command took, starts and measuring included."""
        if self._limits.budget_s is None:
            return MOST_TRIALS
        spent_s = time.monotonic() - self._began_s
        trials = self._pending_before + sum(round_.trials for round_ in self._course.rounds)
        return int((self._limits.budget_s - spent_s) // (spent_s / max(trials, 1)))

    def _why_not(self, wide: Sequence[CellResult], overrides: dict[str, int]) -> str:
        if not wide:
            return f"every interval is narrower than {self._limits.width:g}"
        left = f"{_cells(len(wide))} still wider than {self._limits.width:g} (the widest {widest(wide):.2f}: {max(wide, key=lambda cell: widest([cell])).label})"
        if not overrides:
            return f"{self._limits.max_repeats} repeats of a cell are the most that was allowed (--max-repeats); {left}"
        if len(self._sweep.plan().trials) >= MOST_TRIALS:
            return f"a sweep holds {MOST_TRIALS} trials at most; {left}"
        return f"the budget of {_time(self._limits.budget_s or 0)} holds no more trials (--budget); {left}"

    def _keep(self) -> None:
        self._sweep.keep(self._sweep.until, self._course)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 2 * _MINUTE_S else f"{seconds / _MINUTE_S:g} min"
