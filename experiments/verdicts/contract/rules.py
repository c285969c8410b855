"""The contract itself: of each promise, the first rule whose condition holds decides. Pure.

Promised is what the sources promise under these circumstances, whatever else may go wrong by itself; all else is not promised, with the
mechanism that can break it. `docs/contract.md` holds these rules as tables, and the reasons for the harder ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.verdicts.contract import (
    availability,
    duplicates_and_order,
    loss,
    transactions_and_groups,
)
from experiments.verdicts.contract.guarantees import Guarantee, Rule

RULES: Final[Mapping[Guarantee, tuple[Rule, ...]]] = {
    Guarantee.NO_ACKED_LOSS: loss.RULES,
    Guarantee.NO_DUPLICATES: duplicates_and_order.DUPLICATE_RULES,
    Guarantee.ORDER: duplicates_and_order.ORDER_RULES,
    Guarantee.ATOMICITY: transactions_and_groups.ATOMICITY_RULES,
    Guarantee.AVAILABILITY: availability.RULES,
    Guarantee.NONE_MISSED: transactions_and_groups.MISSED,
    Guarantee.NONE_REPEATED: transactions_and_groups.REPEATED,
}
