"""Findings: for each claim of the lessons, a function from what a sweep measured to a sentence and a plot. Pure.

A finding is made of figures alone. What the figures do not carry it does not say: it is open then, and says how many repeats would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from experiments.lessons.finding import Conclusion, Finding, FindingInput
from experiments.lessons.findings.acks_levels import find as acks_levels
from experiments.lessons.findings.consumer_groups import find as consumer_groups
from experiments.lessons.findings.coordinators import find as coordinators
from experiments.lessons.findings.delivery_semantics import find as delivery_semantics
from experiments.lessons.findings.failover_time import find as failover_time
from experiments.lessons.findings.idempotent_retries import find as idempotent_retries
from experiments.lessons.findings.in_sync_minimum import find as in_sync_minimum
from experiments.lessons.findings.key_to_partition import find as key_to_partition
from experiments.lessons.findings.leader_only import find as leader_only
from experiments.lessons.findings.no_key import find as no_key
from experiments.lessons.findings.one_node_or_three import find as one_node_or_three
from experiments.lessons.findings.partitions_raised import find as partitions_raised
from experiments.lessons.findings.power_cut import find as power_cut
from experiments.lessons.findings.record_fields import find as record_fields
from experiments.lessons.findings.replicas_and_survivors import find as replicas_and_survivors
from experiments.lessons.findings.retention import find as retention
from experiments.lessons.findings.transfer_and_reversal import find as transfer_and_reversal
from experiments.lessons.findings.two_clients import find as two_clients
from experiments.results.models import SweepResults
from experiments.results.read import read_results
from experiments.results.rows import rows_by_trial
from experiments.sweep.folder import SweepFolder

__all__ = ["FINDERS", "Conclusion", "Finding", "FindingInput", "finding_of"]

FINDERS: Final[Mapping[int, Callable[[FindingInput], Finding]]] = MappingProxyType(
    {
        1: leader_only,
        2: failover_time,
        3: replicas_and_survivors,
        4: coordinators,
        5: acks_levels,
        6: in_sync_minimum,
        7: delivery_semantics,
        8: idempotent_retries,
        9: key_to_partition,
        10: partitions_raised,
        11: transfer_and_reversal,
        12: no_key,
        13: record_fields,
        14: retention,
        15: consumer_groups,
        16: one_node_or_three,
        17: two_clients,
        18: power_cut,
    }
)
"""By the claim's place among the lessons."""


def finding_of(sweep: SweepFolder, results: SweepResults | None = None) -> Finding | None:
    """Return what a sweep says to its experiment's claim; `None` where that makes none.

    Args:
        sweep: the sweep's folder.
        results: what `read_results` returned for it, where that was read already.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: its results cannot be read.
    """
    plan = sweep.plan()
    if plan.claim is None:
        return None
    results = results or read_results(sweep)
    if results.harness.control_clean is False:
        return Finding(
            lesson=plan.claim.lesson,
            conclusion=Conclusion.INCONCLUSIVE,
            sentences=("The harness itself lost or repeated records where nothing was wrong.",),
            remark="So nothing can be concluded.",
        )
    return FINDERS[plan.claim.lesson](FindingInput(plan, results, partial(rows_by_trial, sweep)))
