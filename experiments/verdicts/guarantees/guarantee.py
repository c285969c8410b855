"""A guarantee: one object, from which all that is computed or written of it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ackbench.experiments.ledger.quantities import TRIAL_PLACES
from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.rules import Rule, first_rule
from ackbench.experiments.verdicts.guarantees.violations import Violation


@dataclass(frozen=True)
class Words:
    """The words of a guarantee: heads and parts of sentences."""

    head: str
    """Of its column in the terminal's table."""
    legend: str
    """In the terminal's legend, after the head: what is counted; `written` during the fault."""
    matrix_head: str
    """Of its column in the page's matrix, where the opposite of the guarantee is counted; of time,
    the gap is given."""
    observed: str
    """The observation where nothing is guaranteed."""
    violated: str
    """The violation, as a clause before "in 2 of 5 trials"."""
    remedy: str = "cells that are not guaranteed it (docs/contract.md)"
    """Which further cells would show the power of a sweep without a violation."""
    counted: tuple[str, str] = ("violation", "violations")
    """One of what is counted, and several."""
    untested: str = ""
    """The event without which nothing tests it, as a clause: that it did not happen."""
    not_bounded: str = ""
    """Why the number of violations is between 0 and an upper bound."""


@dataclass(frozen=True)
class Answer:
    """The predicates of the plain answer on the opposite of a guarantee."""

    worst: Callable[[Any], str]
    """Of the cells that showed it, by the trial with the most of it."""
    never: str
    """Of cells that did not, beside others that did."""
    none: str = ""
    """A clause, if no trial of the sweep showed it; empty: then nothing is said of it."""
    of: Callable[[Any], bool] | None = None
    """The trials that it is about: not those where it is by design, or follows from another
    observation; `None`: all."""


@dataclass(frozen=True)
class PositiveControl:
    """Cells that must violate a guarantee in each trial, or the sweep would not detect it."""

    result: str
    """The field of `experiments.verdicts.judge.HarnessCheck` with what their trials showed."""
    must: str
    """The violation, as a clause: `lose records`."""
    shows: str
    """The violation that the sweep is then shown to detect."""
    role: Role | None = None
    """The role of cells that were planned for this; `None`: their settings make them a control."""


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """A property of Kafka that its users may rely on.

    Each is declared in a module of its own, and listed in `guarantees.GUARANTEES`; there is one
    object of each, so they are compared by identity.
    """

    name: str
    """As in JSON, in options and in MLflow: `no-acked-loss`."""
    text: str
    """The guarantee as a sentence without a full stop."""
    rules: tuple[Rule, ...]
    """The contract: the first rule that matches a cell decides."""
    violated_by: Violation
    """The sign of a violation in a trial, which knows when a trial cannot tell."""
    words: Words
    answer: Answer
    applies: Callable[[Circumstances], bool] | None = None
    """Which cells it is about; `None`: all."""
    measured_with: str = ""
    """The value that is measured of these cells only (`experiments.results.models.CellResult`)."""
    anomaly: Anomaly | None = None
    """The kind of the records that violate it; `None`: they are not named."""
    amount: str = ""
    """The quantity of how much was observed, if it is not the one of `violated_by`: of a guarantee
    of time, the longest gap."""
    shown_by: tuple[str, ...] = ()
    """The faults that show a violation most reliably: they make sure of what it takes."""
    in_narrow_tables: bool = False
    """`True` if a terminal that is too narrow for all columns shows it."""
    always_in_matrix: bool = False
    """`True` if the page's matrix has its column even if its opposite was not observed."""
    in_controls: str = ""
    """The name of its violations in a trial without a fault, where the harness is at fault;
    empty: there may be some."""
    control: PositiveControl | None = None
    always_measured: bool = False
    """`True` if every sweep measures it and none is about it: the self-test shows the power."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    __repr__ = __str__

    @property
    def label(self) -> str:
        """The name as words."""
        return self.name.replace("-", " ")

    @property
    def of_time(self) -> bool:
        """Return `True` if it is about the time until the heal, and observed as yes or no."""
        return self.violated_by.of_time

    @property
    def figure(self) -> str:
        """The value of a cell with how much was observed: a count, bounds, or the longest gap."""
        return self.amount or self.violated_by.value

    @property
    def trials_column(self) -> str:
        """The column of the table `trials` that counts violations; empty if a trial may have none.

        `ackbench check` reads it.
        """
        always = (place for place in TRIAL_PLACES if not place.quantity.null)
        return next((place.column for place in always if place.path[0] == self.figure), "")

    def observed_in(self, trial: Any) -> bool | None:
        """Return whether a trial showed the opposite, guaranteed or not.

        `None`: it cannot tell, or it is none of `answer.of`.

        Args:
            trial: its facts or its result: the values are read by name.
        """
        return self.violated_by.shown_in(trial) if self.is_about(trial) else None

    def is_about(self, trial: Any) -> bool:
        """Return whether a trial may show it: not one in which the opposite is by design."""
        return self.answer.of is None or self.answer.of(trial)

    def extent(self, trial: Any) -> float:
        """Return how much of the opposite a trial showed: a count, or the longest gap."""
        value = getattr(trial, self.figure)
        return float(value[0] if isinstance(value, tuple) else value or 0)

    def applies_to(self, circumstances: Circumstances) -> bool:
        """Return whether it is about a cell with these circumstances."""
        return self.applies is None or self.applies(circumstances)

    def is_controlled_by(self, role: Role) -> bool:
        """Return whether a cell of this role is planned as its positive control."""
        return self.control is not None and self.control.role is role

    def rule_for(self, circumstances: Circumstances) -> Rule:
        """Return the first rule whose condition holds."""
        return first_rule(self.rules, circumstances)
