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

from ackbench.experiments.ledger.record import Role
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.experiments.verdicts.guarantees.consumers_agree import CONSUMERS_AGREE
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.missed_records import NO_MISSED_RECORDS
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.experiments.verdicts.guarantees.read_availability import READ_AVAILABILITY
from ackbench.experiments.verdicts.guarantees.read_loss import NO_READ_LOSS
from ackbench.experiments.verdicts.guarantees.reprocessing import NO_REPROCESSING
from ackbench.experiments.verdicts.statistics import trials_needed

LIKELY_PROBABILITY: Final = 0.5
"""Trials that may show a violation are enough if they show one of this probability."""
REMEDIES: Final[Mapping[Guarantee, str]] = {
    NO_ACKED_LOSS: "the positive control, which this sweep omits,",
    NO_DUPLICATES: "cells with enable.idempotence=false under the same fault",
    ORDER: "cells with enable.idempotence=false under the same fault",
    AVAILABILITY: "cells with replication.factor=1 under the same fault",
    READ_AVAILABILITY: "cells with replication.factor=1 under the same fault",
    NO_MISSED_RECORDS: "cells with workload.commits=before",
    NO_REPROCESSING: "cells with workload.commits=after",
}
"""Which further cells would show the power."""
ALWAYS_MEASURED: Final = frozenset({NO_READ_LOSS, CONSUMERS_AGREE})
"""Guarantees that every sweep measures and none is about: `ackbench selftest` shows their power."""
_ANY_REMEDY: Final = "cells that are not guaranteed it (docs/contract.md)"


def power_remarks(plan: Plan) -> tuple[str, ...]:
    """Return what the sweep cannot show, one line per remedy; empty if nothing is missing.

    A sweep asks about a guarantee if one of the experiment's cells has it under a fault, unless
    every sweep measures it. A cell that lacks it under a fault may show a violation. Of the
    controls that the planner added, only the positive control counts, and only for loss, which it
    is built to show.
    """
    cells = _cells(plan.trials)
    guarantees_by_remark: dict[str, list[str]] = {}
    for guarantee in GUARANTEES:
        if guarantee in ALWAYS_MEASURED or not any(
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
        is_loss_control = self.role is Role.POSITIVE_CONTROL and guarantee is NO_ACKED_LOSS
        return lacks and (is_loss_control or not self.added)


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
            f"says that power is not shown; {REMEDIES.get(guarantee, _ANY_REMEDY)} could show it"
        )
    must_violate = any(cell.role is Role.POSITIVE_CONTROL for cell in witnesses)
    trials, needed = sum(cell.trials for cell in witnesses), trials_needed(LIKELY_PROBABILITY)
    if trials >= needed or (must_violate and guarantee is NO_ACKED_LOSS):
        return None
    return (
        f"power: only {format_count(trials, 'trial')} may violate {{guarantees}}; if none does, "
        "the verdict says that power is not shown; "
        f"--repeats {math.ceil(needed / len(witnesses))} shows it if half of them do"
    )
