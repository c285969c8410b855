"""A guarantee: one object, from which all that is computed or written of it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.rules import Rule, first_rule


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
    applies: Callable[[Circumstances], bool] | None = None
    """Which cells it is about; `None`: all."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    __repr__ = __str__

    @property
    def label(self) -> str:
        """The name as words."""
        return self.name.replace("-", " ")

    def applies_to(self, circumstances: Circumstances) -> bool:
        """Return whether it is about a cell with these circumstances."""
        return self.applies is None or self.applies(circumstances)

    def rule_for(self, circumstances: Circumstances) -> Rule:
        """Return the first rule whose condition holds."""
        return first_rule(self.rules, circumstances)
