"""The contract of what consumers received and can read, and of compacted topics."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.circumstances import (
    BIT_FLIP,
    FOLLOWER_CRASH,
    FOLLOWERS_THROTTLED,
    ISR_SHRUNK,
    LEADER_CRASH,
    LEADER_ISOLATED,
    LEADER_PAUSE,
    MEMBER_CRASH,
    NO_FAULT,
    POWER_LOSS_ALL,
    REASSIGNMENT,
    UNKNOWN_FAULT,
    USUAL,
)

from ackbench.experiments.trial.faults.core.effects import FaultEffects
from ackbench.experiments.verdicts.contract import clauses_of, deciding_rule
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.consumers_agree import CONSUMERS_AGREE
from ackbench.experiments.verdicts.guarantees.last_value_kept import LAST_VALUE_KEPT
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.read_availability import READ_AVAILABILITY
from ackbench.experiments.verdicts.guarantees.read_loss import NO_READ_LOSS

KEPT, AGREE = NO_READ_LOSS, CONSUMERS_AGREE
LAST, READABLE = LAST_VALUE_KEPT, READ_AVAILABILITY
RECREATED = FaultEffects(kind="topic-recreated", deletes_topic=True, may_affect_leader=True)
UNCLEAN = ISR_SHRUNK.model_copy(update={"forces_unclean_election": True})
SHARED: list[tuple[int, dict[str, Any]]] = [
    (1, {"fault": RECREATED}),
    (2, {"fault": NO_FAULT}),
    (2, {"fault": NO_FAULT, "acks": "0", "min_insync_replicas": 1}),
    (3, {"fault": UNKNOWN_FAULT}),
    (4, {"fault": BIT_FLIP}),
    (5, {"fault": FOLLOWER_CRASH, "min_insync_replicas": 1}),
    (5, {"fault": FOLLOWERS_THROTTLED, "acks": "1"}),
    (6, {"unclean_election": True}),
    (6, {"fault": UNCLEAN}),
    (7, {"fault": LEADER_ISOLATED, "min_insync_replicas": 1, "acks": "1"}),
    (8, {}),
    (8, {"acks": "0"}),
    (8, {"acks": "1"}),
    (8, {"fault": REASSIGNMENT, "acks": "1", "min_insync_replicas": 1}),
    (8, {"fault": LEADER_PAUSE, "acks": "1"}),
    (8, {"fault": LEADER_CRASH.model_copy(update={"power_loss": True}), "acks": "1"}),
    (9, {"fault": ISR_SHRUNK, "acks": "1", "eligible_leader_replicas": 1}),
    (10, {"fault": ISR_SHRUNK, "acks": "1", "eligible_leader_replicas": None}),
    (11, {"fault": POWER_LOSS_ALL, "flush_messages": 1}),
    (11, {"fault": LEADER_CRASH.model_copy(update={"nodes_down": 2, "loses_synced_data": True})}),
    (12, {"min_insync_replicas": 1}),
    (12, {"replication_factor": 1, "min_insync_replicas": 2}),
    (12, {"fault": ISR_SHRUNK}),
    (12, {"fault": LEADER_CRASH.model_copy(update={"nodes_down": 2})}),
]
"""Cases of the rules that no-read-loss and consumers-agree have in common."""
CASES: list[tuple[Guarantee, int, dict[str, Any]]] = [
    (KEPT, 1, {"compacted": True, "fault": NO_FAULT}),
    (KEPT, 2, {"retention_ms": 1000, "fault": NO_FAULT}),
    (KEPT, 2, {"retention_bytes": 1000}),
    *((KEPT, number + 2, changes) for number, changes in SHARED),
    *((AGREE, number, changes) for number, changes in SHARED),
    (AGREE, 2, {"compacted": True, "retention_ms": 1000, "fault": NO_FAULT}),
    (LAST, 1, {"compacted": False}),
    (LAST, 2, {"compacted": True, "retention_bytes": 1000}),
    (LAST, 3, {"compacted": True, "fault": ISR_SHRUNK, "eligible_leader_replicas": None}),
    (LAST, 4, {"compacted": True, "acks": "1"}),
    (LAST, 4, {"compacted": True, "min_insync_replicas": 1}),
    (LAST, 5, {"compacted": True}),
    (LAST, 5, {"compacted": True, "acks": "1", "fault": NO_FAULT}),
    (READABLE, 1, {"fault": NO_FAULT}),
    (READABLE, 1, {"fault": MEMBER_CRASH}),
    (READABLE, 2, {"acks": "0"}),
    (READABLE, 3, {"copy_workload": True}),
    (READABLE, 4, {"transactional": True}),
    (READABLE, 5, {"fault": UNKNOWN_FAULT}),
    (READABLE, 5, {"acks": "1", "min_insync_replicas": 3}),
    (READABLE, 5, {"acks": "1", "fault": FOLLOWER_CRASH, "min_insync_replicas": 3}),
    (READABLE, 5, {"fault": LEADER_PAUSE}),
    (READABLE, 5, {"fault": LEADER_CRASH.model_copy(update={"heals_after_ms": 8000})}),
    (
        READABLE,
        6,
        {
            "fault": LEADER_PAUSE.model_copy(
                update={"pause_ms": 60_000, "heals_after_ms": 60_000, "heals_within_ms": 60_000}
            )
        },
    ),
    (READABLE, 7, {"fault": LEADER_CRASH.model_copy(update={"heals_after_ms": 20_000})}),
    (READABLE, 8, {"fault": LEADER_CRASH.model_copy(update={"heals_after_ms": 20_001})}),
    (READABLE, 8, {"fault": FOLLOWER_CRASH}),
    (READABLE, 8, {"acks": "1", "fault": FOLLOWER_CRASH}),
]


def _case(changes: dict[str, Any]) -> Circumstances:
    return USUAL.model_copy(update=changes)


def _is_guaranteed(guarantee: Guarantee, circumstances: Circumstances) -> bool | None:
    return deciding_rule(guarantee, circumstances).guaranteed


@pytest.mark.parametrize(("guarantee", "number", "changes"), CASES)
def test_each_case_is_decided_by_its_rule(
    guarantee: Guarantee, number: int, changes: dict[str, Any]
) -> None:
    """Rules are numbered as in `docs/contract.md`."""
    assert guarantee.rules.index(deciding_rule(guarantee, _case(changes))) + 1 == number


@pytest.mark.parametrize("guarantee", [KEPT, AGREE, LAST, READABLE])
def test_every_rule_has_a_case(guarantee: Guarantee) -> None:
    """A rule without a case might be unreachable."""
    assert {number for of, number, _ in CASES if of is guarantee} == set(
        range(1, len(guarantee.rules) + 1)
    )


def test_a_cell_without_a_group_or_compaction_has_no_clause_on_them() -> None:
    """One consumer has nobody to agree with, and nothing is removed."""
    judged = {clause.guarantee for clause in clauses_of(USUAL)}
    assert ({AGREE, LAST} & judged, {KEPT, READABLE} <= judged) == (set(), True)
    both = clauses_of(_case({"consumers": 1, "compacted": True}))
    assert {AGREE, LAST} <= {clause.guarantee for clause in both}


CIRCUMSTANCES = st.builds(
    lambda changes, fault: USUAL.model_copy(update={**changes, "fault": fault}),
    st.fixed_dictionaries(
        {
            "acks": st.sampled_from(["0", "1", "all"]),
            "replication_factor": st.integers(1, 3),
            "min_insync_replicas": st.integers(1, 3),
            "unclean_election": st.booleans(),
            "compacted": st.booleans(),
            "eligible_leader_replicas": st.sampled_from([None, 0, 1]),
            "retention_ms": st.sampled_from([-1, 1000]),
        }
    ),
    st.sampled_from(
        [
            *(BIT_FLIP, FOLLOWER_CRASH, FOLLOWERS_THROTTLED, ISR_SHRUNK, LEADER_CRASH),
            LEADER_CRASH.model_copy(update={"heals_after_ms": 90_000}),
            *(LEADER_ISOLATED, LEADER_PAUSE, MEMBER_CRASH, NO_FAULT, POWER_LOSS_ALL),
            *(REASSIGNMENT, UNKNOWN_FAULT, RECREATED, UNCLEAN),
        ]
    ),
)


@given(CIRCUMSTANCES)
def test_what_was_received_is_as_safe_as_what_acks_all_acknowledges(cell: Circumstances) -> None:
    """Whatever acks is: the high watermark needs what an acknowledgement with acks=all needs."""
    with_acks_all = cell.model_copy(update={"acks": "all"})
    assert _is_guaranteed(KEPT, cell) is _is_guaranteed(NO_ACKED_LOSS, with_acks_all)


@given(CIRCUMSTANCES)
def test_acks_changes_nothing_about_what_was_received(cell: Circumstances) -> None:
    """Producers decide what is acknowledged, the in-sync replicas what is shown."""
    for guarantee in (KEPT, AGREE):
        assert (
            len(
                {_is_guaranteed(guarantee, cell.model_copy(update={"acks": acks})) for acks in "01"}
            )
            == 1
        )


@given(CIRCUMSTANCES)
def test_consumers_agree_wherever_what_they_received_stays(cell: Circumstances) -> None:
    """Compaction and retention remove records, and never use an offset again."""
    if _is_guaranteed(KEPT, cell):
        assert _is_guaranteed(AGREE, cell)


@given(CIRCUMSTANCES)
def test_readers_need_what_writers_with_acks_all_need(cell: Circumstances) -> None:
    """Read-availability never holds where a write with acks=all may wait until the heal."""
    if _is_guaranteed(READABLE, cell):
        with_acks_all = cell.model_copy(update={"acks": "all"})
        assert _is_guaranteed(AVAILABILITY, with_acks_all)
