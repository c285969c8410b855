"""`ackbench run --until`: after each run of the DAG, look how wide the intervals are, and plan more repeats where they are too wide."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from experiments.results.models import CellResult
from experiments.results.reading import read_results
from experiments.spec.planning import MOST_TRIALS, extended
from experiments.sweep_folder import SweepFolder
from experiments.sweeps import check_machine
from experiments.until import Course, Limits, Round, too_wide, widest, wished, within
from infra.errors import MachineError
from infra.home import Home

_MINUTE_S: Final = 60


class Repeating:
    """One sweep's way to intervals that are narrow enough; begins when it is made."""

    def __init__(self, home: Home, sweep: SweepFolder, limits: Limits, say: Callable[[str], None]) -> None:
        self._home, self._sweep, self._limits, self._say = home, sweep, limits, say
        self._began_s, self._pending_before = time.monotonic(), len(sweep.pending())
        self._course = Course(limits=limits)
        self._keep()

    def go_on(self) -> bool:
        """Plan more repeats where they are wanted and can be had; otherwise keep and say why not. Return whether there are any."""
        cells = read_results(self._sweep).cells
        wide = too_wide(cells, self._limits.width)
        wishes = wished(cells, self._limits)
        granted = within(wishes, min(self._affordable(), MOST_TRIALS - len(self._sweep.plan().trials)))
        if not granted:
            self.end(self._why_not(wide, wishes))
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
        self._say(f"until: the widest interval is {before:.2f}, asked for is below {self._limits.width:g}: {added.trials} more trials in {_cells(added.cells)}")
        return True

    def _affordable(self) -> int:
        """Return how many more trials the budget holds, if each takes what those of this command took, starts and measuring included."""
        if self._limits.budget_s is None:
            return MOST_TRIALS
        spent_s = time.monotonic() - self._began_s
        trials = self._pending_before + sum(round_.trials for round_ in self._course.rounds)
        return int((self._limits.budget_s - spent_s) // (spent_s / max(trials, 1)))

    def _why_not(self, wide: Sequence[CellResult], wishes: dict[str, int]) -> str:
        if not wide:
            return f"every interval is narrower than {self._limits.width:g}"
        left = (
            f"{_cells(len(wide))} still wider than {self._limits.width:g} (the widest {widest(wide):.2f}: {max(wide, key=lambda cell: widest([cell])).label})"
        )
        if not wishes:
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
