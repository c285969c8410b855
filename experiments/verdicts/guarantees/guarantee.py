"""A guarantee: one object, from which all that is computed or written of it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ackbench.experiments.ledger.record import Role
from ackbench.experiments.ledger.result_tables import Anomaly
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.rules import Rule, first_rule
from ackbench.experiments.verdicts.guarantees.violations import Violation


@dataclass(frozen=True)
class Words:
    """What is written of a guarantee, as heads and parts of sentences."""

    head: str
    """Of its column in the terminal's table."""
    legend: str
    """What the terminal's legend says of its head: what is counted; `written` during the fault."""
    matrix_head: str
    """Of its column in the page's matrix, where the opposite of the guarantee is counted."""
    observed: str
    """What was observed where nothing is guaranteed."""
    violated: str
    """The violation, as a clause before "in 2 of 5 trials"."""
    remedy: str = "cells that are not guaranteed it (docs/contract.md)"
    """Which further cells would show the power of a sweep without a violation."""
    counted: tuple[str, str] = ("violation", "violations")
    """One of what is counted, and several."""
    figures: tuple[tuple[str, str], ...] = ()
    """Of the page's table of figures, if it applies to a cell: heads, and the cell's values."""


@dataclass(frozen=True)
class PositiveControl:
    """Cells that must violate a guarantee in each trial, or the sweep would not detect it."""

    result: str
    """The field of `experiments.verdicts.judge.HarnessCheck` with what their trials showed."""
    must: str
    """What they must do."""
    shows: str
    """What the sweep is then shown to detect."""
    role: Role | None = None
    """The role of cells that were planned for this; `None`: their settings make them a control."""


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """What a Kafka user may rely on.

    Each is declared in a module of its own, and listed in `guarantees.GUARANTEES`; there is one
    object of each, so they are compared by identity.
    """

    name: str
    """As in JSON, in options and in MLflow: `no-acked-loss`."""
    text: str
    """What it guarantees, as a sentence without a full stop."""
    rules: tuple[Rule, ...]
    """The contract: the first rule that matches a cell decides."""
    violated_by: Violation
    """What shows a violation in a trial, and when a trial cannot tell."""
    words: Words
    figure: str
    """The value of a cell with how much was observed (`experiments.results.models.CellResult`).

    A path with dots: a count or bounds; of a guarantee of time, the longest gap.
    """
    applies: Callable[[Circumstances], bool] | None = None
    """Which cells it is about; `None`: all."""
    measured_with: str = ""
    """The value that is measured of these cells only (`experiments.results.models.CellResult`)."""
    anomaly: Anomaly | None = None
    """The kind of the records that violate it; `None`: they are not named."""
    trials_column: str = ""
    """The column of the measuring job's trials that counts violations, if each trial can show one;
    `ackbench check` reads it."""
    shown_by: tuple[str, ...] = ()
    """The faults that show a violation most reliably: they make sure of what it takes."""
    gate: str = ""
    """What `--fail-on` calls its opposite, whether it is guaranteed or not."""
    in_narrow_tables: bool = False
    """Whether a terminal that is too narrow for all columns shows it."""
    always_in_matrix: bool = False
    """Whether the page's matrix has its column even if its opposite was not observed."""
    control: PositiveControl | None = None
    always_measured: bool = False
    """Whether every sweep measures it and none is about it: `ackbench selftest` shows the power."""

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
        """Whether it is about the time until the heal, and observed as yes or no."""
        return self.violated_by.of_time

    def applies_to(self, circumstances: Circumstances) -> bool:
        """Return whether it is about a cell with these circumstances."""
        return self.applies is None or self.applies(circumstances)

    def is_controlled_by(self, role: Role) -> bool:
        """Return whether a cell of this role is planned as its positive control."""
        return self.control is not None and self.control.role is role

    def rule_for(self, circumstances: Circumstances) -> Rule:
        """Return the first rule whose condition holds."""
        return first_rule(self.rules, circumstances)
