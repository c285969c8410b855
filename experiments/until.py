"""`ackbench run --until "ci<0.1"`: which cells need more trials, and when it is enough. Pure.

Trials are added for the width of an interval and never for where it lies, so that stopping favours no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from experiments.errors import ExperimentError
from experiments.ledger.record import Frozen
from experiments.results.models import CellResult
from experiments.spec.cells import cell_key
from experiments.statistics import Share, precise_enough, trials_for_width

MOST_REPEATS: Final = 100
"""Of a cell, where `--max-repeats` does not say otherwise."""
GIVEN_UP_AFTER: Final = 3
"""A cell of which so many trials were void and none could be judged is given no more."""
_GOAL: Final = re.compile(r"\s*ci\s*<\s*(?P<width>\d*\.?\d+)\s*(?P<percent>%?)\s*")
_BUDGET: Final = re.compile(r"\s*(?P<number>\d*\.?\d+)\s*(?P<unit>[smh])\s*")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Limits(Frozen):
    """What is asked for, and at what cost."""

    width: float
    """Every interval is to be narrower, as a share of all trials."""
    budget_s: float | None = None
    """From the beginning of the command; the first repeats are run whatever it is."""
    max_repeats: int = MOST_REPEATS

    @classmethod
    def of(cls, goal: str, budget: str | None = None, max_repeats: int | None = None) -> Limits:
        """Return the limits that the command line asks for.

        Raises:
            ExperimentError: a text is of another form, or a number out of bounds; one line.
        """
        found = _GOAL.fullmatch(goal)
        width = float(found["width"]) / (100 if found["percent"] else 1) if found else 0.0
        if not 0 < width < 1:
            raise ExperimentError(f'--until is {goal!r}; allowed: ci<WIDTH with a width between 0 and 1 (or 0 % and 100 %), as in --until "ci<0.1"')
        most = MOST_REPEATS if max_repeats is None else max_repeats
        if not 1 <= most <= 1024:  # noqa: PLR2004 - as `repeats` in an experiment
            raise ExperimentError(f"--max-repeats is {most}; allowed: a whole number from 1 to 1024")
        return cls(width=width, budget_s=None if budget is None else _budget_s(budget), max_repeats=most)


class Round(Frozen):
    """Repeats that were added together."""

    trials: int
    cells: int
    """How many cells they went to."""
    widest: float
    """The widest interval before."""


class Course(Frozen):
    """How a sweep was gone on with: `until.json` in its folder."""

    limits: Limits
    rounds: tuple[Round, ...] = ()
    ended: str | None = None
    """Why no more trials were added; null: the command did not come so far."""


def _budget_s(text: str) -> float:
    found = _BUDGET.fullmatch(text)
    seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
    if seconds <= 0:
        raise ExperimentError(f"--budget is {text!r}; allowed: a time with its unit, as in 90s, 30m or 2h")
    return seconds


def shares_of(cell: CellResult) -> tuple[Share, ...]:
    """Return the shares whose intervals count: of the trials that lost, and of those that repeated."""
    return tuple(share for share in (cell.loss, cell.duplication) if share is not None)


def too_wide(cells: Sequence[CellResult], width: float) -> tuple[CellResult, ...]:
    """Return the experiment's own cells of which some interval is too wide, the refused and the given up left out."""
    return tuple(cell for cell in cells if _is_open(cell) and (not shares_of(cell) or not all(precise_enough(share, width) for share in shares_of(cell))))


def widest(cells: Sequence[CellResult]) -> float:
    """Return the widest interval of the cells; 1 where one has none."""
    return max((max((share.interval.width for share in shares_of(cell)), default=1.0) for cell in cells), default=0.0)


def wished(cells: Sequence[CellResult], limits: Limits) -> dict[str, int]:
    """Return how many more repeats each cell that is too wide should be given now, by `cell_key`; none beyond the most.

    At first as many as the width takes where nothing, or everything, was seen: no share needs fewer. After that as many as the share
    that was seen asks for, and no more than there are, because that share is itself an estimate.
    """
    wishes = {cell_key(cell.cell): min(_wish(cell, limits.width), limits.max_repeats - cell.planned_trials) for cell in too_wide(cells, limits.width)}
    return {key: wish for key, wish in wishes.items() if wish > 0}


def _wish(cell: CellResult, width: float) -> int:
    sealed, least = cell.sealed_trials, trials_for_width(0.0, width)
    if sealed < least:
        return max(least - sealed, 1) if sealed else 1
    needed = max(trials_for_width(share.seen / share.of, width) for share in shares_of(cell))
    return max(min(needed - sealed, sealed), 1)


def within(wishes: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the wishes cut to so many trials together, a repeat of each cell after the other."""
    granted: dict[str, int] = {}
    for key in list(_in_turn(wishes))[: max(most, 0)]:
        granted[key] = granted.get(key, 0) + 1
    return granted


def _in_turn(wishes: Mapping[str, int]) -> Iterator[str]:
    for repeat in range(max(wishes.values(), default=0)):
        yield from (key for key, wish in wishes.items() if repeat < wish)


def _is_open(cell: CellResult) -> bool:
    given_up = cell.sealed_trials == 0 and cell.void_trials >= GIVEN_UP_AFTER
    return cell.refused is None and not cell.added and not given_up
