"""Signs of a violation in the facts of a trial: a number, bounds, or yes or no.

The facts are `experiments.verdicts.judge.TrialFacts`, whose values are read by name. A value that
is `None` was not measured: the trial cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


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

    def unclear(self, trials: Sequence[Any], extent: str) -> str:
        """Return why trials cannot tell.

        Args:
            trials: those that cannot.
            extent: how many of how many these are, as text.
        """


@dataclass(frozen=True)
class Count:
    """A number; above 0 it is a violation."""

    of_time: ClassVar[bool] = False

    value: str
    tested_by: str = ""
    """The number that is 0 if nothing tested the guarantee, so that no violation shows nothing."""
    untested: str = ""
    """The event that then did not happen."""

    def shown_in(self, trial: Any) -> bool | None:
        """Return whether the number is above 0."""
        number = self._number(trial)
        return None if number is None else number > 0

    def count(self, trial: Any) -> int:
        """Return the number."""
        return self._number(trial) or 0

    def unclear(self, trials: Sequence[Any], extent: str) -> str:
        """Return that nothing tested the guarantee, or else that nothing was measured."""
        if self.tested_by and all(getattr(trial, self.tested_by) == 0 for trial in trials):
            return f"{self.untested} in {extent}: it was not tested there"
        return f"not measurable in {extent}"

    def _number(self, trial: Any) -> int | None:
        number: int | None = getattr(trial, self.value)
        tested = not self.tested_by or getattr(trial, self.tested_by)
        return number if tested or number else None


@dataclass(frozen=True)
class Bounds:
    """The lower and the upper bound of a number; if the lower one is above 0, it is a violation."""

    of_time: ClassVar[bool] = False

    value: str
    between: str
    """Why the number is not known if the lower bound is 0 and the upper one is not."""

    def shown_in(self, trial: Any) -> bool | None:
        """Return whether the number is above 0 for certain."""
        return is_positive(getattr(trial, self.value))

    def count(self, trial: Any) -> int:
        """Return the lower bound."""
        bounds: tuple[int, int] | None = getattr(trial, self.value)
        return bounds[0] if bounds else 0

    def unclear(self, trials: Sequence[Any], extent: str) -> str:
        """Return the upper bounds with their reason, or else that nothing was measured."""
        bounds = [(trial.trial_id, getattr(trial, self.value)) for trial in trials]
        if any(measured is None for _, measured in bounds):
            return f"not measurable in {extent}"
        return f"{self.between} ({', '.join(f'{trial}: {high}' for trial, (_, high) in bounds)})"


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

    def unclear(self, trials: Sequence[Any], extent: str) -> str:
        """Return that nothing was measured, and whether the load was the reason."""
        overloaded = any(trial.kept_up_before_fault is False for trial in trials)
        why = ": the load was not acknowledged in time before the fault" if overloaded else ""
        return f"not measurable in {extent}{why}"


def is_positive(bounds: tuple[int, int] | None) -> bool | None:
    """Return whether a number is above 0; `None`: its bounds do not tell, or were not measured."""
    if bounds is None:
        return None
    low, high = bounds
    if low > 0:
        return True
    return False if high == 0 else None
