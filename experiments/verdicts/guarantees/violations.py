"""Signs of a violation in the facts of a trial: a number, bounds, or yes or no.

The facts are `experiments.verdicts.judge.TrialFacts`, whose values are read by name. A value that
is `None` was not measured: the trial cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol


class Doubt(StrEnum):
    """Why trials cannot tell whether there was a violation."""

    NOT_MEASURED = "not-measured"
    """The results have no row of them."""
    NOT_MEASURABLE = "not-measurable"
    """They were measured, and have no value of this."""
    NOT_TESTED = "not-tested"
    """Nothing happened that could have shown it."""
    OVERLOADED = "overloaded"
    """The load was not acknowledged in time before the fault."""
    NOT_BOUNDED = "not-bounded"
    """The number is between 0 and an upper bound."""


class Violation(Protocol):
    """A sign of a violation."""

    of_time: ClassVar[bool]
    """`True` if it depends on how long the fault lasted: a trial that is set aside shows none."""

    @property
    def value(self) -> str:
        """The value of the facts that shows it."""

    def shown_in(self, trial: Any) -> bool | None:
        """Return whether a trial shows a violation; `None`: it cannot tell."""

    def count(self, trial: Any) -> int:
        """Return how many violations a trial shows for certain; 0 if they are not counted."""

    def doubt(self, trials: Sequence[Any]) -> Doubt:
        """Return why these trials, which were measured, cannot tell."""

    def at_most(self, trial: Any) -> int | None:
        """Return the greatest number of violations that a trial may show; `None`: unknown."""


@dataclass(frozen=True)
class Count:
    """A number; above 0 it is a violation."""

    of_time: ClassVar[bool] = False

    value: str
    tested_by: str = ""
    """The number that is 0 if nothing tested the guarantee, so that no violation shows nothing."""

    def shown_in(self, trial: Any) -> bool | None:
        """Return whether the number is above 0."""
        number = self._number(trial)
        return None if number is None else number > 0

    def count(self, trial: Any) -> int:
        """Return the number."""
        return self._number(trial) or 0

    def doubt(self, trials: Sequence[Any]) -> Doubt:
        """Return that nothing tested the guarantee, or else that some have no number."""
        untested = self.tested_by and all(getattr(one, self.tested_by) == 0 for one in trials)
        return Doubt.NOT_TESTED if untested else Doubt.NOT_MEASURABLE

    def at_most(self, trial: Any) -> int | None:
        """Return the number."""
        return self._number(trial)

    def _number(self, trial: Any) -> int | None:
        number: int | None = getattr(trial, self.value)
        tested = not self.tested_by or getattr(trial, self.tested_by)
        return number if tested or number else None


@dataclass(frozen=True)
class Bounds:
    """The lower and the upper bound of a number; if the lower one is above 0, it is a violation."""

    of_time: ClassVar[bool] = False

    value: str

    def shown_in(self, trial: Any) -> bool | None:
        """Return whether the number is above 0 for certain."""
        return is_positive(getattr(trial, self.value))

    def count(self, trial: Any) -> int:
        """Return the lower bound."""
        bounds: tuple[int, int] | None = getattr(trial, self.value)
        return bounds[0] if bounds else 0

    def doubt(self, trials: Sequence[Any]) -> Doubt:
        """Return that each has an upper bound, or else that some have none."""
        bounded = all(getattr(trial, self.value) is not None for trial in trials)
        return Doubt.NOT_BOUNDED if bounded else Doubt.NOT_MEASURABLE

    def at_most(self, trial: Any) -> int | None:
        """Return the upper bound."""
        bounds: tuple[int, int] | None = getattr(trial, self.value)
        return bounds[1] if bounds else None


@dataclass(frozen=True)
class YesNo:
    """Something that must happen before the fault is healed; if it did not, it is a violation."""

    of_time: ClassVar[bool] = True

    value: str

    def shown_in(self, trial: Any) -> bool | None:
        """Return whether it did not happen."""
        happened: bool | None = getattr(trial, self.value)
        return None if happened is None else not happened

    def count(self, trial: Any) -> int:  # noqa: ARG002 - as all violations have it
        """Return 0: an outage is no number of records."""
        return 0

    def doubt(self, trials: Sequence[Any]) -> Doubt:
        """Return that the load was the reason, or else that some have no value."""
        overloaded = any(trial.kept_up_before_fault is False for trial in trials)
        return Doubt.OVERLOADED if overloaded else Doubt.NOT_MEASURABLE

    def at_most(self, trial: Any) -> int | None:  # noqa: ARG002 - as all violations have it
        """Return `None`: an outage is no number of records."""
        return None


def is_positive(bounds: tuple[int, int] | None) -> bool | None:
    """Return whether a number is above 0; `None`: its bounds do not tell, or were not measured."""
    if bounds is None:
        return None
    low, high = bounds
    if low > 0:
        return True
    return False if high == 0 else None
