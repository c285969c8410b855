"""The rules of a consumer group's two promises: nothing is missed, nothing is processed twice. The first whose condition holds decides. Pure.

They are asked of cells with a consumer group alone. A record counts as processed when a member has written it down.
"""

from __future__ import annotations

from typing import Final

from experiments.contract.circumstances import Circumstances
from experiments.contract.promises import not_promised, promised
from experiments.contract.sources import ALL_DIE, SEMANTICS


def _goes_back(c: Circumstances) -> bool:
    """Whether the log, or the group's own log of commits, may lose what consumers were shown: then offsets stand for other records than they did."""
    fault = c.fault
    loses = fault.forgets_synced or fault.deletes_topic or fault.elects_uncleanly or c.unclean_election or fault.corrupts
    return not fault.known or loses or (fault.power_loss and c.flush_messages > 1) or c.nodes_gone + fault.isolated + fault.out_of_step > 1


MISSED: Final = (
    not_promised(
        "commit before processing",
        lambda c: c.commits == "before",
        "delivery is at most once: what a member had committed and not yet processed when it died is read by nobody again",
        SEMANTICS,
    ),
    not_promised(
        "what consumers were shown may be lost",
        _goes_back,
        "a committed offset may come to stand before records that take the place of others, and whoever reads on from it passes over them",
        ALL_DIE,
    ),
    promised(
        "commit after processing",
        lambda _c: True,
        "delivery is at least once: whoever takes over reads on from the last commit, and all before that was processed",
        SEMANTICS,
    ),
)

REPEATED: Final = (
    not_promised(
        "commit after processing",
        lambda c: c.commits == "after",
        "delivery is at least once: what a member had processed and not yet committed when it died, or was thrown out, is read again",
        SEMANTICS,
    ),
    not_promised(
        "what consumers were shown may be lost",
        _goes_back,
        "commits may be lost as records may, and the group reads on from an earlier one",
        ALL_DIE,
    ),
    promised(
        "commit before processing",
        lambda _c: True,
        "delivery is at most once: a member processes what the coordinator has told it is committed, and nobody reads that again",
        SEMANTICS,
    ),
)
