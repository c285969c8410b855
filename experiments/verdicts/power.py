"""What a planned sweep cannot show: guarantees of which no planned trial may show a violation.

A guarantee that held is worth as much as the sweep's ability to see a violation of it
(`docs/contract.md`, Power). The user sees it before the trials run, with what would help. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.experiments.verdicts.statistics import trials_needed

LIKELY_PROBABILITY: Final = 0.5
"""Trials that may show a violation are enough if they show one of this probability."""


def power_remarks(plan: Plan) -> tuple[str, ...]:
    """Return what the sweep cannot show, one line per remedy; empty if nothing is missing.

    A guarantee is in question if a cell has it under a fault. A cell that lacks it under a fault
    may show a violation. Of the controls that the planner added, only the positive control counts,
    and only for loss, which it is built to show.
    """
    cells = _cells(plan.trials)
    guarantees_by_remark: dict[str, list[str]] = {}
    for guarantee in GUARANTEES:
        if guarantee.always_measured or not any(
            cell.outcomes.get(guarantee) for cell in cells if not cell.added
        ):
            continue
        remark = _remark(guarantee, [cell for cell in cells if cell.may_violate(guarantee)])
        if remark:
            guarantees_by_remark.setdefault(remark, []).append(guarantee.name)
    return tuple(
        remark.format(guarantees=format_list(guarantees, "or"))
        for remark, guarantees in guarantees_by_remark.items()
    )


@dataclass(frozen=True)
class _PlannedCell:
    """A cell with what Kafka guarantees to it."""

    role: Role
    added: bool
    trials: int
    outcomes: Mapping[Guarantee, bool | None]
    """Empty for a cell without a fault."""

    def may_violate(self, guarantee: Guarantee) -> bool:
        """Return whether a trial of the cell may be expected to show a violation."""
        lacks = self.outcomes.get(guarantee) is False
        return lacks and (not self.added or guarantee.is_controlled_by(self.role))


def _cells(trials: Sequence[TrialSpec]) -> list[_PlannedCell]:
    by_cell: dict[str, list[TrialSpec]] = {}
    for spec in trials:
        by_cell.setdefault(json.dumps(spec.cell), []).append(spec)
    return [
        _PlannedCell(one.role, one.added, 1 + len(others), _outcomes(one))
        for one, *others in by_cell.values()
    ]


def _outcomes(spec: TrialSpec) -> dict[Guarantee, bool | None]:
    circumstances = circumstances_of(spec)
    if circumstances.fault.kind == "none":
        return {}
    return {clause.guarantee: clause.guaranteed for clause in clauses_of(circumstances)}


def _remark(guarantee: Guarantee, witnesses: Sequence[_PlannedCell]) -> str | None:
    """Return what is missing to show the power for a guarantee; `None`: nothing.

    Args:
        guarantee: the guarantee.
        witnesses: the cells that may violate it.
    """
    if not witnesses:
        return (
            "power: no cell is expected to violate {guarantees}, so where it holds the verdict "
            f"says that power is not shown; {guarantee.words.remedy} could show it"
        )
    must_violate = any(guarantee.is_controlled_by(cell.role) for cell in witnesses)
    trials, needed = sum(cell.trials for cell in witnesses), trials_needed(LIKELY_PROBABILITY)
    if trials >= needed or must_violate:
        return None
    return (
        f"power: only {format_count(trials, 'trial')} may violate {{guarantees}}; if none does, "
        "the verdict says that power is not shown; "
        f"--repeats {math.ceil(needed / len(witnesses))} shows it if half of them do"
    )
