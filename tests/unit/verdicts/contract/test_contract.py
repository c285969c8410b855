"""What is promised, by hand-written circumstances: one case for every rule of the contract, and what must never turn round."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.circumstances import (
    ALONE,
    CALM,
    CLIENTS_CUT,
    CRASH,
    ENSEMBLE,
    FLIP,
    FOLLOWER,
    HELD,
    KEEPERLESS,
    KILLED,
    MEMBER,
    MOVED,
    PARTED,
    PAUSE,
    POWER,
    UNKNOWN,
    USUAL,
)

from experiments.faults.core.effects import FaultEffects
from experiments.verdicts.contract import (
    RULES,
    Guarantee,
    as_markdown,
    contract,
    contract_table,
    deciding,
)
from experiments.verdicts.contract.circumstances import UNLIMITED_RETRIES, Circumstances

LOSS, DUPLICATES, ORDER, ATOMIC, UP, MISSED, REPEATED = Guarantee

CASES: list[tuple[Guarantee, int, dict[str, Any]]] = [
    (LOSS, 1, {"acks": "0"}),
    (LOSS, 2, {"compacts": True}),
    (LOSS, 3, {"retention_ms": 1000}),
    (LOSS, 3, {"retention_ms": 0}),
    (LOSS, 3, {"retention_bytes": 0}),
    (LOSS, 11, {"retention_ms": 3_600_000}),
    (LOSS, 11, {"retention_ms": -1}),
    (LOSS, 4, {"fault": FaultEffects(kind="topic-recreated", deletes_topic=True)}),
    (LOSS, 5, {"fault": CALM}),
    (LOSS, 5, {"fault": CALM, "acks": "1", "min_insync_replicas": 1}),
    (LOSS, 6, {"fault": UNKNOWN}),
    (LOSS, 7, {"fault": FOLLOWER, "acks": "1"}),
    (LOSS, 7, {"fault": FOLLOWER, "min_insync_replicas": 1}),
    (LOSS, 8, {"acks": "1"}),
    (LOSS, 8, {"acks": "1", "fault": PAUSE}),
    (LOSS, 9, {"unclean_election": True}),
    (LOSS, 11, {}),
    (LOSS, 11, {"fault": PAUSE, "min_insync_replicas": 1}),
    (LOSS, 11, {"fault": PAUSE, "replication_factor": 1, "acks": "1"}),
    (LOSS, 11, {"fault": CRASH.model_copy(update={"power_loss": True})}),
    (LOSS, 12, {"fault": FLIP}),
    (LOSS, 12, {"fault": FLIP, "replication_factor": 1, "min_insync_replicas": 1}),
    (LOSS, 13, {"fault": POWER.model_copy(update={"forgets_synced": True}), "flush_messages": 1}),
    (LOSS, 14, {"fault": POWER, "flush_messages": 1}),
    (LOSS, 15, {"fault": POWER}),
    (LOSS, 15, {"fault": CRASH.model_copy(update={"power_loss": True}), "min_insync_replicas": 1}),
    (LOSS, 16, {"min_insync_replicas": 1}),
    (LOSS, 16, {"replication_factor": 1, "min_insync_replicas": 1}),
    (LOSS, 16, {"replication_factor": 1, "min_insync_replicas": 2, "acks": "1"}),
    (LOSS, 16, {"fault": PAUSE.model_copy(update={"stalls_ms": 3600}), "min_insync_replicas": 1}),
    (LOSS, 7, {"fault": HELD, "acks": "1"}),
    (LOSS, 8, {"fault": MOVED, "acks": "1", "replication_factor": 1}),
    (LOSS, 9, {"fault": ALONE.model_copy(update={"elects_uncleanly": True})}),
    (LOSS, 11, {"fault": MOVED, "min_insync_replicas": 1}),
    (LOSS, 16, {"fault": ALONE}),
    (LOSS, 7, {"fault": CLIENTS_CUT, "acks": "1"}),
    (LOSS, 8, {"fault": PARTED, "acks": "1"}),
    (LOSS, 10, {"fault": PARTED}),
    (LOSS, 10, {"fault": PARTED, "min_insync_replicas": 1}),
    (LOSS, 11, {"fault": PARTED.model_copy(update={"kills": 1}), "min_insync_replicas": 3}),
    (DUPLICATES, 1, {"fault": UNKNOWN, "idempotent": True}),
    (DUPLICATES, 3, {"idempotent": True}),
    (DUPLICATES, 4, {"acks": "0"}),
    (DUPLICATES, 5, {"retries": 0}),
    (DUPLICATES, 6, {"fault": CALM}),
    (DUPLICATES, 8, {}),
    (DUPLICATES, 8, {"max_in_flight": 1}),
    (DUPLICATES, 7, {"fault": CLIENTS_CUT}),
    (ORDER, 1, {"fault": UNKNOWN, "idempotent": True}),
    (ORDER, 3, {"idempotent": True}),
    (ORDER, 4, {"acks": "0", "fault": CALM}),
    (ORDER, 5, {"acks": "0"}),
    (ORDER, 6, {"max_in_flight": 1, "fault": PAUSE, "delivery_timeout_ms": 2000}),
    (ORDER, 6, {"retries": 0, "fault": PAUSE}),
    (ORDER, 6, {"retries": 0, "fault": CLIENTS_CUT}),
    (ORDER, 7, {"max_in_flight": 1, "fault": PAUSE}),
    (ORDER, 7, {"max_in_flight": 1, "fault": PAUSE, "delivery_timeout_ms": 0}),
    (ORDER, 7, {"max_in_flight": 1, "delivery_timeout_ms": 2000}),
    (ORDER, 8, {"retries": 0}),
    (ORDER, 8, {"retries": 0, "fault": PAUSE, "socket_timeout_ms": 60_000}),
    (ORDER, 9, {}),
    (ORDER, 9, {"fault": CALM}),
    (ATOMIC, 1, {"transactional": False}),
    (ATOMIC, 2, {"transactional": True, "fault": UNKNOWN}),
    (ATOMIC, 3, {"transactional": True, "fault": FLIP}),
    (ATOMIC, 3, {"transactional": True, "fault": POWER}),
    (
        ATOMIC,
        4,
        {"transactional": True, "fault": FaultEffects(kind="producer-fenced", undecided=True)},
    ),
    (ATOMIC, 5, {"transactional": True}),
    (ATOMIC, 5, {"transactional": True, "fault": POWER.model_copy(update={"kills": 1})}),
    (MISSED, 1, {"consumers": 2, "commits": "before", "fault": MEMBER}),
    (MISSED, 2, {"consumers": 2, "fault": UNKNOWN}),
    (MISSED, 2, {"consumers": 2, "unclean_election": True}),
    (MISSED, 2, {"consumers": 2, "fault": POWER}),
    (MISSED, 2, {"consumers": 2, "fault": CRASH.model_copy(update={"kills": 2})}),
    (MISSED, 3, {"consumers": 2, "copies": True, "acks": "1"}),
    (MISSED, 4, {"consumers": 2, "retention_bytes": 4_000_000}),
    (MISSED, 4, {"consumers": 2, "retention_ms": 2000}),
    (
        MISSED,
        5,
        {"consumers": 2, "copies": True, "commits": "within", "idempotent": True, "fault": MEMBER},
    ),
    (MISSED, 5, {"consumers": 2, "copies": True, "commits": "within", "idempotent": True}),
    (MISSED, 6, {"consumers": 2, "copies": True}),
    (MISSED, 6, {"consumers": 2, "acks": "1"}),
    (MISSED, 6, {"consumers": 2, "fault": MEMBER}),
    (REPEATED, 1, {"consumers": 2, "fault": MEMBER}),
    (REPEATED, 2, {"consumers": 2, "commits": "before", "fault": POWER}),
    (
        REPEATED,
        3,
        {"consumers": 2, "copies": True, "commits": "within", "idempotent": True, "fault": MEMBER},
    ),
    (REPEATED, 4, {"consumers": 2, "copies": True, "commits": "before"}),
    (REPEATED, 5, {"consumers": 2, "copies": True, "commits": "before", "idempotent": True}),
    (REPEATED, 5, {"consumers": 2, "commits": "before", "fault": MEMBER}),
    (UP, 1, {"fault": CALM}),
    (UP, 1, {"fault": MEMBER}),
    (UP, 1, {"fault": FLIP}),
    (UP, 2, {"fault": UNKNOWN}),
    (UP, 5, {"acks": "0"}),
    (UP, 6, {"fault": FaultEffects(kind="topic-recreated", deletes_topic=True)}),
    (UP, 7, {"fault": KEEPERLESS}),
    (UP, 8, {"fault": ENSEMBLE}),
    (UP, 8, {"fault": ENSEMBLE, "acks": "1"}),
    (UP, 13, {"fault": ENSEMBLE.model_copy(update={"parts": 2})}),
    (UP, 9, {"acks": "1", "fault": FOLLOWER}),
    (UP, 4, {"fault": CLIENTS_CUT, "acks": "1"}),
    (UP, 9, {"fault": PARTED.model_copy(update={"strikes_leader": False}), "acks": "1"}),
    (UP, 10, {"fault": PARTED, "acks": "1"}),
    (UP, 11, {"nodes": 2, "controllers": 2, "replication_factor": 2, "min_insync_replicas": 1}),
    (UP, 11, {"controllers": 1}),
    (
        UP,
        11,
        {
            "fault": CRASH.model_copy(update={"kills": 2}),
            "replication_factor": 1,
            "min_insync_replicas": 1,
        },
    ),
    (UP, 12, {"min_insync_replicas": 3}),
    (UP, 12, {"replication_factor": 1, "min_insync_replicas": 1}),
    (UP, 12, {"fault": ALONE, "min_insync_replicas": 1}),
    (UP, 12, {"fault": HELD, "min_insync_replicas": 3}),
    (UP, 13, {"fault": CRASH.model_copy(update={"parts": 2})}),
    (UP, 14, {"fault": FaultEffects(kind="partitions-added", heals_after_ms=1000)}),
    (UP, 15, {"fault": PAUSE}),
    (UP, 16, {"fault": MOVED}),
    (UP, 17, {"fault": MOVED.model_copy(update={"heals_after_ms": 60_000})}),
    (UP, 16, {"fault": CRASH.model_copy(update={"heals_after_ms": 8000})}),
    (UP, 16, {"fault": PAUSE.model_copy(update={"stalls_ms": 20_000, "heals_after_ms": 20_000})}),
    (UP, 17, {}),
    (UP, 17, {"acks": "1", "min_insync_replicas": 3}),
    (UP, 17, {"fault": CRASH.model_copy(update={"heals_after_ms": 8001})}),
    (DUPLICATES, 2, {"fault": KILLED.model_copy(update={"resends": True}), "idempotent": True}),
    (DUPLICATES, 3, {"fault": KILLED, "idempotent": True}),
    (ORDER, 2, {"fault": KILLED, "idempotent": True}),
    (UP, 3, {"fault": KILLED, "acks": "1"}),
    (LOSS, 7, {"fault": KILLED, "acks": "1"}),
]


def _case(changes: dict[str, Any]) -> Circumstances:
    return USUAL.model_copy(update=changes)


def _promised(circumstances: Circumstances) -> dict[Guarantee, bool]:
    return {commitment.guarantee: commitment.guaranteed for commitment in contract(circumstances)}


@pytest.mark.parametrize(("guarantee", "number", "changes"), CASES)
def test_each_case_is_decided_by_its_rule(
    guarantee: Guarantee, number: int, changes: dict[str, Any]
) -> None:
    """The rule, counted as in `docs/contract.md`, that a person would name for these circumstances."""
    assert RULES[guarantee].index(deciding(guarantee, _case(changes))) + 1 == number


def test_every_rule_has_a_case() -> None:
    """A rule that nothing reaches would be a promise that nobody gets."""
    assert {(guarantee, number) for guarantee, number, _ in CASES} == {
        (guarantee, number)
        for guarantee in Guarantee
        for number in range(1, len(RULES[guarantee]) + 1)
    }


def test_every_cell_gets_a_commitment_for_each_promise_in_order() -> None:
    """Made or not made, with the mechanism and its source."""
    clauses = contract(_case({"transactional": True, "consumers": 1}))
    assert [commitment.guarantee for commitment in clauses] == list(Guarantee)
    assert all(commitment.reason and commitment.source for commitment in clauses)


def test_a_cell_without_transactions_is_told_nothing_of_them() -> None:
    """Neither that they are atomic, nor that they are not."""
    assert ATOMIC not in {commitment.guarantee for commitment in contract(USUAL)}


def test_a_cell_without_a_group_is_told_nothing_of_what_one_processes() -> None:
    """With one, it is."""
    assert {MISSED, REPEATED}.isdisjoint(commitment.guarantee for commitment in contract(USUAL))
    assert {MISSED, REPEATED} < {
        commitment.guarantee for commitment in contract(_case({"consumers": 1}))
    }


def test_a_commitment_holds_the_cells_own_figures() -> None:
    """The table speaks of properties, the commitment of their values."""
    up = next(
        one
        for one in contract(_case({"fault": CRASH.model_copy(update={"heals_after_ms": 6000})}))
        if one.guarantee is UP
    )
    assert up.reason.endswith(
        "(healed after 6000 ms; failover takes up to 8000 ms, where the node was the active controller too)"
    )


def test_every_source_is_a_page_of_the_system_s_own() -> None:
    """The documentation, ZooKeeper's too, or a Kafka Improvement Proposal, and no blog."""
    owners = (
        "https://kafka.apache.org/documentation/#",
        "https://cwiki.apache.org/confluence/display/KAFKA/KIP-",
        "https://zookeeper.apache.org/doc/",
    )
    assert all(rule.source.startswith(owners) for _, rule in contract_table())


def test_the_document_holds_the_table_that_the_code_is() -> None:
    """Made by `python -c "from experiments.verdicts.contract import as_markdown; print(as_markdown())"`."""
    document = (Path(__file__).parents[4] / "docs" / "contract.md").read_text()
    assert as_markdown() in document


natures = st.builds(
    FaultEffects,
    kind=st.just("any"),
    known=st.booleans(),
    kills=st.integers(0, 3),
    power_loss=st.booleans(),
    stalled=st.integers(0, 2),
    stalls_ms=st.sampled_from([0, 500, 3000, 10_000]),
    isolated=st.integers(0, 2),
    clients_cut=st.booleans(),
    answers_cut=st.booleans(),
    holds_ms=st.sampled_from([0, 4000]),
    strikes_leader=st.booleans(),
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
            "fault": st.one_of(st.just(CALM), natures),
        }
    ),
)


def _never_less(weaker: Circumstances, stronger: Circumstances, *guarantees: Guarantee) -> None:
    before, after = _promised(weaker), _promised(stronger)
    assert all(after[guarantee] for guarantee in guarantees if before.get(guarantee))


@given(cells)
def test_idempotence_takes_no_promise_away(cell: Circumstances) -> None:
    """It costs latency at the most."""
    _never_less(
        cell.model_copy(update={"idempotent": False}),
        cell.model_copy(update={"idempotent": True}),
        *Guarantee,
    )


@given(cells)
def test_waiting_for_more_replicas_never_promises_less_durability(cell: Circumstances) -> None:
    """With acks 0, 1, all, and a higher min.insync.replicas: each is at least as safe as the one before."""
    by_acks = [cell.model_copy(update={"acks": acks}) for acks in ("0", "1", "all")]
    by_isr = [
        cell.model_copy(update={"acks": "all", "min_insync_replicas": least}) for least in (1, 2, 3)
    ]
    for weaker, stronger in [*pairwise(by_acks), *pairwise(by_isr)]:
        _never_less(weaker, stronger, LOSS)


@given(cells, st.integers(1, 2))
def test_a_harder_blow_never_promises_more(cell: Circumstances, more: int) -> None:
    """More nodes killed at once, and with their disks' caches."""
    if cell.fault.kind != "none":
        harder = cell.fault.model_copy(
            update={"kills": cell.fault.kills + more, "power_loss": True}
        )
        _never_less(cell.model_copy(update={"fault": harder}), cell, LOSS)


@given(cells)
def test_nothing_is_promised_under_a_fault_of_which_nothing_is_known(cell: Circumstances) -> None:
    """It may do anything."""
    assert not any(_promised(cell.model_copy(update={"fault": UNKNOWN})).values())


@given(cells)
def test_without_acknowledgement_no_record_is_promised_to_stay(cell: Circumstances) -> None:
    """acks=0, whatever else is set."""
    assert not _promised(cell.model_copy(update={"acks": "0"}))[LOSS]
