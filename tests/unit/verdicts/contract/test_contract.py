"""The contract: one hand-written case per rule at least, and properties of all circumstances."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
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
    PRODUCER_CRASH,
    REASSIGNMENT,
    RESPONSES_DROPPED,
    UNKNOWN_FAULT,
    USUAL,
    ZOOKEEPER_SERVER_DOWN,
    ZOOKEEPER_UNAVAILABLE,
)

from experiments.faults.core.effects import FaultEffects
from experiments.verdicts.contract import (
    RULES,
    Guarantee,
    as_markdown,
    clauses_of,
    contract_table,
    deciding_rule,
)
from experiments.verdicts.contract.circumstances import UNLIMITED_RETRIES, Circumstances

LOSS, DUPLICATES, ORDER, KEPT, AGREE, LAST, ATOMIC, UP, READABLE, MISSED, REPROCESSED = Guarantee
OF_CONSUMERS = {KEPT, AGREE, LAST, READABLE}
"""`test_contract_of_consumers.py` has their cases."""

CASES: list[tuple[Guarantee, int, dict[str, Any]]] = [
    (LOSS, 1, {"acks": "0"}),
    (LOSS, 2, {"compacted": True}),
    (LOSS, 3, {"retention_ms": 1000}),
    (LOSS, 3, {"retention_ms": 0}),
    (LOSS, 3, {"retention_bytes": 0}),
    (LOSS, 11, {"retention_ms": 3_600_000}),
    (LOSS, 11, {"retention_ms": -1}),
    (LOSS, 4, {"fault": FaultEffects(kind="topic-recreated", deletes_topic=True)}),
    (LOSS, 5, {"fault": NO_FAULT}),
    (LOSS, 5, {"fault": NO_FAULT, "acks": "1", "min_insync_replicas": 1}),
    (LOSS, 6, {"fault": UNKNOWN_FAULT}),
    (LOSS, 7, {"fault": FOLLOWER_CRASH, "acks": "1"}),
    (LOSS, 7, {"fault": FOLLOWER_CRASH, "min_insync_replicas": 1}),
    (LOSS, 8, {"acks": "1"}),
    (LOSS, 8, {"acks": "1", "fault": LEADER_PAUSE}),
    (LOSS, 9, {"unclean_election": True}),
    (LOSS, 11, {}),
    (LOSS, 11, {"fault": LEADER_PAUSE, "min_insync_replicas": 1}),
    (LOSS, 11, {"fault": LEADER_PAUSE, "replication_factor": 1, "acks": "1"}),
    (LOSS, 11, {"fault": LEADER_CRASH.model_copy(update={"power_loss": True})}),
    (LOSS, 12, {"fault": BIT_FLIP}),
    (LOSS, 12, {"fault": BIT_FLIP, "replication_factor": 1, "min_insync_replicas": 1}),
    (
        LOSS,
        13,
        {
            "fault": POWER_LOSS_ALL.model_copy(update={"loses_synced_data": True}),
            "flush_messages": 1,
        },
    ),
    (LOSS, 14, {"fault": POWER_LOSS_ALL, "flush_messages": 1}),
    (LOSS, 15, {"fault": POWER_LOSS_ALL}),
    (
        LOSS,
        15,
        {"fault": LEADER_CRASH.model_copy(update={"power_loss": True}), "min_insync_replicas": 1},
    ),
    (LOSS, 16, {"min_insync_replicas": 1}),
    (LOSS, 16, {"replication_factor": 1, "min_insync_replicas": 1}),
    (LOSS, 16, {"replication_factor": 1, "min_insync_replicas": 2, "acks": "1"}),
    (LOSS, 16, {"replication_factor": 1, "min_insync_replicas": 2}),
    (
        LOSS,
        16,
        {"fault": LEADER_PAUSE.model_copy(update={"pause_ms": 3600}), "min_insync_replicas": 1},
    ),
    (LOSS, 7, {"fault": FOLLOWERS_THROTTLED, "acks": "1"}),
    (LOSS, 8, {"fault": REASSIGNMENT, "acks": "1", "replication_factor": 1}),
    (LOSS, 9, {"fault": ISR_SHRUNK.model_copy(update={"forces_unclean_election": True})}),
    (LOSS, 11, {"fault": REASSIGNMENT, "min_insync_replicas": 1}),
    (LOSS, 16, {"fault": ISR_SHRUNK}),
    (LOSS, 7, {"fault": RESPONSES_DROPPED, "acks": "1"}),
    (LOSS, 8, {"fault": LEADER_ISOLATED, "acks": "1"}),
    (LOSS, 10, {"fault": LEADER_ISOLATED}),
    (LOSS, 10, {"fault": LEADER_ISOLATED, "min_insync_replicas": 1}),
    (
        LOSS,
        11,
        {"fault": LEADER_ISOLATED.model_copy(update={"nodes_down": 1}), "min_insync_replicas": 3},
    ),
    (DUPLICATES, 1, {"fault": UNKNOWN_FAULT, "idempotent": True}),
    (DUPLICATES, 3, {"idempotent": True}),
    (DUPLICATES, 4, {"acks": "0"}),
    (DUPLICATES, 5, {"retries": 0}),
    (DUPLICATES, 6, {"fault": NO_FAULT}),
    (DUPLICATES, 8, {}),
    (DUPLICATES, 8, {"max_in_flight": 1}),
    (DUPLICATES, 7, {"fault": RESPONSES_DROPPED}),
    (ORDER, 1, {"fault": UNKNOWN_FAULT, "idempotent": True}),
    (ORDER, 3, {"idempotent": True}),
    (ORDER, 4, {"acks": "0", "fault": NO_FAULT}),
    (ORDER, 5, {"acks": "0"}),
    (ORDER, 6, {"max_in_flight": 1, "fault": LEADER_PAUSE, "delivery_timeout_ms": 2000}),
    (ORDER, 6, {"retries": 0, "fault": LEADER_PAUSE}),
    (ORDER, 6, {"retries": 0, "fault": RESPONSES_DROPPED}),
    (ORDER, 7, {"max_in_flight": 1, "fault": LEADER_PAUSE}),
    (ORDER, 7, {"max_in_flight": 1, "fault": LEADER_PAUSE, "delivery_timeout_ms": 0}),
    (ORDER, 7, {"max_in_flight": 1, "delivery_timeout_ms": 2000}),
    (ORDER, 8, {"retries": 0}),
    (ORDER, 8, {"retries": 0, "fault": LEADER_PAUSE, "socket_timeout_ms": 60_000}),
    (ORDER, 9, {}),
    (ORDER, 9, {"fault": NO_FAULT}),
    (ATOMIC, 1, {"transactional": False}),
    (ATOMIC, 2, {"transactional": True, "fault": UNKNOWN_FAULT}),
    (ATOMIC, 3, {"transactional": True, "fault": BIT_FLIP}),
    (ATOMIC, 3, {"transactional": True, "fault": POWER_LOSS_ALL}),
    (
        ATOMIC,
        4,
        {
            "transactional": True,
            "fault": FaultEffects(kind="producer-fenced", ends_transactional_producer=True),
        },
    ),
    (ATOMIC, 5, {"transactional": True}),
    (
        ATOMIC,
        5,
        {"transactional": True, "fault": POWER_LOSS_ALL.model_copy(update={"nodes_down": 1})},
    ),
    (MISSED, 1, {"consumers": 2, "commits": "before", "fault": MEMBER_CRASH}),
    (MISSED, 2, {"consumers": 2, "fault": UNKNOWN_FAULT}),
    (MISSED, 2, {"consumers": 2, "unclean_election": True}),
    (MISSED, 2, {"consumers": 2, "fault": POWER_LOSS_ALL}),
    (MISSED, 2, {"consumers": 2, "fault": LEADER_CRASH.model_copy(update={"nodes_down": 2})}),
    (MISSED, 3, {"consumers": 2, "copy_workload": True, "acks": "1"}),
    (MISSED, 4, {"consumers": 2, "retention_bytes": 4_000_000}),
    (MISSED, 4, {"consumers": 2, "retention_ms": 2000}),
    (
        MISSED,
        5,
        {
            "consumers": 2,
            "copy_workload": True,
            "commits": "within",
            "idempotent": True,
            "fault": MEMBER_CRASH,
        },
    ),
    (MISSED, 5, {"consumers": 2, "copy_workload": True, "commits": "within", "idempotent": True}),
    (MISSED, 6, {"consumers": 2, "copy_workload": True}),
    (MISSED, 6, {"consumers": 2, "acks": "1"}),
    (MISSED, 6, {"consumers": 2, "fault": MEMBER_CRASH}),
    (REPROCESSED, 1, {"consumers": 2, "fault": MEMBER_CRASH}),
    (REPROCESSED, 2, {"consumers": 2, "commits": "before", "fault": POWER_LOSS_ALL}),
    (
        REPROCESSED,
        3,
        {
            "consumers": 2,
            "copy_workload": True,
            "commits": "within",
            "idempotent": True,
            "fault": MEMBER_CRASH,
        },
    ),
    (REPROCESSED, 4, {"consumers": 2, "copy_workload": True, "commits": "before"}),
    (
        REPROCESSED,
        5,
        {"consumers": 2, "copy_workload": True, "commits": "before", "idempotent": True},
    ),
    (REPROCESSED, 5, {"consumers": 2, "commits": "before", "fault": MEMBER_CRASH}),
    (UP, 1, {"fault": NO_FAULT}),
    (UP, 1, {"fault": MEMBER_CRASH}),
    (UP, 1, {"fault": BIT_FLIP}),
    (UP, 2, {"fault": UNKNOWN_FAULT}),
    (UP, 5, {"acks": "0"}),
    (UP, 6, {"fault": FaultEffects(kind="topic-recreated", deletes_topic=True)}),
    (UP, 7, {"fault": ZOOKEEPER_UNAVAILABLE}),
    (UP, 8, {"fault": ZOOKEEPER_SERVER_DOWN}),
    (UP, 8, {"fault": ZOOKEEPER_SERVER_DOWN, "acks": "1"}),
    (UP, 13, {"fault": ZOOKEEPER_SERVER_DOWN.model_copy(update={"parts": 2})}),
    (UP, 9, {"acks": "1", "fault": FOLLOWER_CRASH}),
    (UP, 4, {"fault": RESPONSES_DROPPED, "acks": "1"}),
    (
        UP,
        9,
        {"fault": LEADER_ISOLATED.model_copy(update={"may_affect_leader": False}), "acks": "1"},
    ),
    (UP, 10, {"fault": LEADER_ISOLATED, "acks": "1"}),
    (UP, 11, {"nodes": 2, "controllers": 2, "replication_factor": 2, "min_insync_replicas": 1}),
    (UP, 11, {"controllers": 1}),
    (
        UP,
        11,
        {
            "fault": LEADER_CRASH.model_copy(update={"nodes_down": 2}),
            "replication_factor": 1,
            "min_insync_replicas": 1,
        },
    ),
    (UP, 12, {"min_insync_replicas": 3}),
    (UP, 12, {"replication_factor": 1, "min_insync_replicas": 1}),
    (UP, 12, {"fault": ISR_SHRUNK, "min_insync_replicas": 1}),
    (UP, 12, {"fault": FOLLOWERS_THROTTLED, "min_insync_replicas": 3}),
    (UP, 13, {"fault": LEADER_CRASH.model_copy(update={"parts": 2})}),
    (UP, 14, {"fault": FaultEffects(kind="partitions-added", heals_after_ms=1000)}),
    (UP, 15, {"fault": LEADER_PAUSE}),
    (UP, 16, {"fault": REASSIGNMENT}),
    (UP, 17, {"fault": REASSIGNMENT.model_copy(update={"heals_after_ms": 60_000})}),
    (UP, 16, {"fault": LEADER_CRASH.model_copy(update={"heals_after_ms": 8000})}),
    (
        UP,
        16,
        {"fault": LEADER_PAUSE.model_copy(update={"pause_ms": 20_000, "heals_after_ms": 20_000})},
    ),
    (UP, 17, {}),
    (UP, 17, {"acks": "1", "min_insync_replicas": 3}),
    (UP, 17, {"fault": LEADER_CRASH.model_copy(update={"heals_after_ms": 8001})}),
    (
        DUPLICATES,
        2,
        {
            "fault": PRODUCER_CRASH.model_copy(update={"resends_unacknowledged": True}),
            "idempotent": True,
        },
    ),
    (DUPLICATES, 3, {"fault": PRODUCER_CRASH, "idempotent": True}),
    (ORDER, 2, {"fault": PRODUCER_CRASH, "idempotent": True}),
    (UP, 3, {"fault": PRODUCER_CRASH, "acks": "1"}),
    (LOSS, 7, {"fault": PRODUCER_CRASH, "acks": "1"}),
]


def _case(changes: dict[str, Any]) -> Circumstances:
    return USUAL.model_copy(update=changes)


def _guaranteed(circumstances: Circumstances) -> dict[Guarantee, bool]:
    return {clause.guarantee: clause.guaranteed for clause in clauses_of(circumstances)}


@pytest.mark.parametrize(("guarantee", "number", "changes"), CASES)
def test_each_case_is_decided_by_its_rule(
    guarantee: Guarantee, number: int, changes: dict[str, Any]
) -> None:
    """Rules are numbered as in `docs/contract.md`."""
    assert RULES[guarantee].index(deciding_rule(guarantee, _case(changes))) + 1 == number


def test_every_rule_has_a_case() -> None:
    """A rule without a case might be unreachable."""
    assert {(guarantee, number) for guarantee, number, _ in CASES} == {
        (guarantee, number)
        for guarantee in Guarantee
        if guarantee not in OF_CONSUMERS
        for number in range(1, len(RULES[guarantee]) + 1)
    }


def test_a_cell_has_one_clause_per_guarantee_in_order() -> None:
    """Each with its reason and its source."""
    clauses = clauses_of(_case({"transactional": True, "consumers": 1, "compacted": True}))
    assert [clause.guarantee for clause in clauses] == list(Guarantee)
    assert all(clause.reason and clause.source for clause in clauses)


def test_a_cell_without_transactions_has_no_clause_on_atomicity() -> None:
    """Neither guaranteed nor not guaranteed."""
    assert ATOMIC not in {clause.guarantee for clause in clauses_of(USUAL)}


def test_a_cell_without_a_consumer_group_has_no_clause_on_processing() -> None:
    """A cell with a group has both clauses."""
    assert {MISSED, REPROCESSED}.isdisjoint(clause.guarantee for clause in clauses_of(USUAL))
    assert {MISSED, REPROCESSED} < {
        clause.guarantee for clause in clauses_of(_case({"consumers": 1}))
    }


def test_a_clause_contains_the_figures_of_its_cell() -> None:
    """The contract's table names properties, a clause also their values."""
    up = next(
        clause
        for clause in clauses_of(
            _case({"fault": LEADER_CRASH.model_copy(update={"heals_after_ms": 6000})})
        )
        if clause.guarantee is UP
    )
    assert up.reason.endswith(
        "(healed after 6000 ms; failover takes up to 8000 ms if the node was also the active "
        "controller)"
    )


def test_every_source_is_official() -> None:
    """The documentation of Kafka or ZooKeeper, or a Kafka Improvement Proposal."""
    owners = (
        "https://kafka.apache.org/documentation/#",
        "https://cwiki.apache.org/confluence/display/KAFKA/KIP-",
        "https://zookeeper.apache.org/doc/",
        "https://issues.apache.org/jira/browse/KAFKA-",
    )
    assert all(rule.source.startswith(owners) for _, rule in contract_table())


def test_the_document_contains_the_rules_of_the_code() -> None:
    """To generate them: `print(experiments.verdicts.contract.as_markdown())`."""
    document = (Path(__file__).parents[4] / "docs" / "contract.md").read_text()
    assert as_markdown() in document


effects = st.builds(
    FaultEffects,
    kind=st.just("any"),
    known=st.booleans(),
    nodes_down=st.integers(0, 3),
    power_loss=st.booleans(),
    nodes_paused=st.integers(0, 2),
    pause_ms=st.sampled_from([0, 500, 3000, 10_000]),
    nodes_isolated=st.integers(0, 2),
    clients_cut_off=st.booleans(),
    responses_lost=st.booleans(),
    requests_held_ms=st.sampled_from([0, 4000]),
    may_affect_leader=st.booleans(),
    heals_after_ms=st.sampled_from([1000, 9000, 90_000]),
    heals_within_ms=st.sampled_from([9000, 90_000]),
)
cells = st.builds(
    lambda changes: USUAL.model_copy(update=changes),
    st.fixed_dictionaries(
        {
            "acks": st.sampled_from(["0", "1", "all"]),
            "idempotent": st.booleans(),
            "retries": st.sampled_from([0, 3, UNLIMITED_RETRIES]),
            "max_in_flight": st.sampled_from([1, 5, 1_000_000]),
            "replication_factor": st.integers(1, 3),
            "min_insync_replicas": st.integers(1, 3),
            "unclean_election": st.booleans(),
            "flush_messages": st.sampled_from([1, 2**63 - 1]),
            "fault": st.one_of(st.just(NO_FAULT), effects),
        }
    ),
)


def _assert_implied(weaker: Circumstances, stronger: Circumstances, *guarantees: Guarantee) -> None:
    before, after = _guaranteed(weaker), _guaranteed(stronger)
    assert all(after[guarantee] for guarantee in guarantees if before.get(guarantee))


@given(cells)
def test_idempotence_removes_no_guarantee(cell: Circumstances) -> None:
    """Enabling it keeps all guarantees of the cell."""
    _assert_implied(
        cell.model_copy(update={"idempotent": False}),
        cell.model_copy(update={"idempotent": True}),
        *Guarantee,
    )


@given(cells)
def test_more_acknowledging_replicas_never_weaken_durability(cell: Circumstances) -> None:
    """acks=0, 1, all, and a rising min.insync.replicas: each is at least as safe as the last."""
    by_acks = [cell.model_copy(update={"acks": acks}) for acks in ("0", "1", "all")]
    by_isr = [
        cell.model_copy(update={"acks": "all", "min_insync_replicas": least}) for least in (1, 2, 3)
    ]
    for weaker, stronger in [*pairwise(by_acks), *pairwise(by_isr)]:
        _assert_implied(weaker, stronger, LOSS)


@given(cells, st.integers(1, 2))
def test_a_more_severe_fault_never_adds_a_guarantee(cell: Circumstances, more: int) -> None:
    """More nodes crash at once, by power loss."""
    assume(cell.fault.kind != "none")
    harder = cell.fault.model_copy(
        update={"nodes_down": cell.fault.nodes_down + more, "power_loss": True}
    )
    _assert_implied(cell.model_copy(update={"fault": harder}), cell, LOSS)


@given(cells)
def test_an_unknown_fault_leaves_no_guarantee(cell: Circumstances) -> None:
    """It may have any effect."""
    assert not any(_guaranteed(cell.model_copy(update={"fault": UNKNOWN_FAULT})).values())


@given(cells)
def test_acks_0_never_guarantees_durability(cell: Circumstances) -> None:
    """Whatever else is set."""
    assert not _guaranteed(cell.model_copy(update={"acks": "0"}))[LOSS]
