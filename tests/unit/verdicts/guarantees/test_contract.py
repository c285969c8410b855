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
    REQUEST_DELAYED,
    RESPONSES_DROPPED,
    UNKNOWN_FAULT,
    USUAL,
    ZOOKEEPER_SERVER_DOWN,
    ZOOKEEPER_UNAVAILABLE,
)

from ackbench.experiments.trial.faults.core.effects import FaultEffects
from ackbench.experiments.verdicts.contract import (
    as_markdown,
    as_row,
    clause_of,
    clauses_of,
    deciding_rule,
)
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.circumstances import UNLIMITED_RETRIES, Circumstances
from ackbench.experiments.verdicts.guarantees.late_requests import must_tear_transactions
from ackbench.experiments.verdicts.guarantees.read_availability import READ_AVAILABILITY
from ackbench.experiments.verdicts.guarantees.rules import unknown

LOSS, DUPLICATES, ORDER, KEPT, AGREE, LAST, ATOMIC, UP, READABLE, MISSED, REPROCESSED = GUARANTEES
OF_CONSUMERS = {KEPT, AGREE, LAST, READABLE}
"""`test_contract_of_consumers.py` has their cases."""

LEADER_POWER_LOSS = LEADER_CRASH.model_copy(update={"power_loss": True})
TWO_ISOLATED = LEADER_ISOLATED.model_copy(update={"nodes_isolated": 2})
PREFERRED_LEADER = REASSIGNMENT.model_copy(update={"may_affect_leader": False})
PARTITIONS_RAISED = FaultEffects(kind="partitions-raised", adds_partitions=True)
LATE = {"transactional": True, "fault": REQUEST_DELAYED}
COPIES = {"transactional": False, "consumers": 2, "copy_workload": True}
CASES: list[tuple[Guarantee, int, dict[str, Any]]] = [
    (LOSS, 1, {"acks": "0"}),
    (LOSS, 2, {"compacted": True}),
    (LOSS, 3, {"retention_ms": 1000}),
    (LOSS, 3, {"retention_ms": 0}),
    (LOSS, 3, {"retention_bytes": 0}),
    (LOSS, 13, {"retention_ms": 3_600_000}),
    (LOSS, 13, {"retention_ms": -1}),
    (LOSS, 4, {"fault": FaultEffects(kind="topic-recreated", deletes_topic=True)}),
    (LOSS, 5, {"fault": NO_FAULT}),
    (LOSS, 5, {"fault": NO_FAULT, "acks": "1", "min_insync_replicas": 1}),
    (LOSS, 6, {"fault": UNKNOWN_FAULT}),
    (LOSS, 9, {"fault": FOLLOWER_CRASH, "acks": "1"}),
    (LOSS, 9, {"fault": FOLLOWER_CRASH, "min_insync_replicas": 1}),
    (LOSS, 10, {"acks": "1"}),
    (LOSS, 10, {"acks": "1", "fault": LEADER_PAUSE}),
    (LOSS, 11, {"unclean_election": True}),
    (LOSS, 13, {}),
    (LOSS, 13, {"fault": LEADER_PAUSE, "min_insync_replicas": 1}),
    (LOSS, 13, {"fault": LEADER_PAUSE, "replication_factor": 1, "acks": "1"}),
    (LOSS, 13, {"fault": LEADER_CRASH.model_copy(update={"power_loss": True})}),
    (LOSS, 14, {"fault": BIT_FLIP}),
    (LOSS, 14, {"fault": BIT_FLIP, "replication_factor": 1, "min_insync_replicas": 1}),
    (
        LOSS,
        17,
        {
            "fault": POWER_LOSS_ALL.model_copy(update={"loses_synced_data": True}),
            "flush_messages": 1,
        },
    ),
    (LOSS, 18, {"fault": POWER_LOSS_ALL, "flush_messages": 1}),
    (LOSS, 19, {"fault": POWER_LOSS_ALL}),
    (
        LOSS,
        19,
        {"fault": LEADER_CRASH.model_copy(update={"power_loss": True}), "min_insync_replicas": 1},
    ),
    (LOSS, 20, {"min_insync_replicas": 1}),
    (LOSS, 20, {"replication_factor": 1, "min_insync_replicas": 1}),
    (LOSS, 20, {"replication_factor": 1, "min_insync_replicas": 2, "acks": "1"}),
    (LOSS, 20, {"replication_factor": 1, "min_insync_replicas": 2}),
    (
        LOSS,
        20,
        {"fault": LEADER_PAUSE.model_copy(update={"pause_ms": 3600}), "min_insync_replicas": 1},
    ),
    (LOSS, 9, {"fault": FOLLOWERS_THROTTLED, "acks": "1"}),
    (LOSS, 10, {"fault": REASSIGNMENT, "acks": "1", "replication_factor": 1}),
    (LOSS, 11, {"fault": ISR_SHRUNK.model_copy(update={"forces_unclean_election": True})}),
    (LOSS, 13, {"fault": REASSIGNMENT, "min_insync_replicas": 1}),
    (LOSS, 20, {"fault": ISR_SHRUNK}),
    (LOSS, 15, {"fault": ISR_SHRUNK, "eligible_leader_replicas": 1}),
    (LOSS, 16, {"fault": ISR_SHRUNK, "eligible_leader_replicas": None}),
    (LOSS, 13, {"eligible_leader_replicas": None}),
    (
        LOSS,
        15,
        {
            "fault": ISR_SHRUNK.model_copy(update={"power_loss": True}),
            "eligible_leader_replicas": 1,
        },
    ),
    (
        LOSS,
        17,
        {
            "fault": ISR_SHRUNK.model_copy(update={"loses_synced_data": True}),
            "eligible_leader_replicas": 1,
        },
    ),
    (
        LOSS,
        14,
        {
            "fault": ISR_SHRUNK.model_copy(update={"corrupts_records": True}),
            "eligible_leader_replicas": 1,
        },
    ),
    (LOSS, 20, {"fault": ISR_SHRUNK, "eligible_leader_replicas": 1, "min_insync_replicas": 1}),
    (
        LOSS,
        20,
        {
            "fault": LEADER_PAUSE.model_copy(update={"pause_ms": 20_000}),
            "eligible_leader_replicas": 1,
            "min_insync_replicas": 1,
        },
    ),
    (LOSS, 10, {"acks": "1", "replication_factor": 2}),
    (LOSS, 19, {"fault": POWER_LOSS_ALL, "flush_messages": 2}),
    (LOSS, 10, {"fault": ISR_SHRUNK, "eligible_leader_replicas": 1, "acks": "1"}),
    (LOSS, 11, {"fault": ISR_SHRUNK, "eligible_leader_replicas": 1, "unclean_election": True}),
    (
        LOSS,
        20,
        {"fault": LEADER_CRASH.model_copy(update={"nodes_down": 2}), "eligible_leader_replicas": 1},
    ),
    (
        LOSS,
        15,
        {
            "fault": ISR_SHRUNK.model_copy(update={"nodes_down": 2}),
            "eligible_leader_replicas": 1,
            "min_insync_replicas": 3,
        },
    ),
    (
        LOSS,
        20,
        {"fault": ISR_SHRUNK.model_copy(update={"parts": 2}), "eligible_leader_replicas": 1},
    ),
    (LOSS, 9, {"fault": RESPONSES_DROPPED, "acks": "1"}),
    (LOSS, 10, {"fault": LEADER_ISOLATED, "acks": "1"}),
    (LOSS, 12, {"fault": LEADER_ISOLATED}),
    (LOSS, 12, {"fault": LEADER_ISOLATED, "min_insync_replicas": 1}),
    (
        LOSS,
        13,
        {"fault": LEADER_ISOLATED.model_copy(update={"nodes_down": 1}), "min_insync_replicas": 3},
    ),
    (DUPLICATES, 1, {"fault": UNKNOWN_FAULT, "idempotent": True}),
    (DUPLICATES, 7, {"idempotent": True}),
    (DUPLICATES, 8, {"acks": "0"}),
    (DUPLICATES, 3, {"idempotent": True, "producer_id_expiration_ms": 20_000}),
    (DUPLICATES, 3, {"idempotent": True, "delivery_timeout_ms": 0}),
    (DUPLICATES, 4, {"idempotent": True, "retention_ms": 20_000}),
    (DUPLICATES, 4, {"idempotent": True, "retention_bytes": 4_000_000}),
    (DUPLICATES, 4, {"idempotent": True, "retention_bytes": 0}),
    (DUPLICATES, 4, {"idempotent": True, "retention_ms": 0}),
    (DUPLICATES, 4, {"idempotent": True, "transactional": True, "delivery_timeout_ms": 0}),
    (
        DUPLICATES,
        7,
        {"idempotent": True, "transactional": True, "delivery_timeout_ms": 0, "retention_ms": -1},
    ),
    (DUPLICATES, 5, {"idempotent": True, "delivery_timeout_ms": 1}),
    (DUPLICATES, 5, {"idempotent": True, "delivery_timeout_ms": 25_000}),
    (DUPLICATES, 6, {"idempotent": True, "delivery_timeout_ms": 25_000, "client": "java"}),
    (DUPLICATES, 7, {"idempotent": True, "delivery_timeout_ms": 1, "transactional": True}),
    (DUPLICATES, 7, {"idempotent": True, "producer_id_expiration_ms": 30_000}),
    (DUPLICATES, 7, {"idempotent": True, "retention_ms": 30_000}),
    (
        DUPLICATES,
        7,
        {"idempotent": True, "transactional": True, "producer_id_expiration_ms": 20_000},
    ),
    (DUPLICATES, 13, {"producer_id_expiration_ms": 20_000}),
    (DUPLICATES, 13, {"retention_ms": 20_000}),
    (DUPLICATES, 9, {"retries": 0}),
    (DUPLICATES, 9, {"retries": 0, "fault": REASSIGNMENT}),
    (DUPLICATES, 9, {"retries": 0, "fault": PREFERRED_LEADER}),
    (DUPLICATES, 10, {"retries": 0, "acks": "1"}),
    (DUPLICATES, 10, {"retries": 0, "client": "java"}),
    (DUPLICATES, 10, {"retries": 0, "fault": FOLLOWER_CRASH}),
    (DUPLICATES, 10, {"retries": 0, "fault": NO_FAULT}),
    (DUPLICATES, 11, {"fault": NO_FAULT}),
    (DUPLICATES, 13, {}),
    (DUPLICATES, 13, {"max_in_flight": 1}),
    (DUPLICATES, 12, {"fault": RESPONSES_DROPPED}),
    (ORDER, 1, {"fault": UNKNOWN_FAULT, "idempotent": True}),
    (ORDER, 5, {"idempotent": True}),
    (ORDER, 6, {"acks": "0", "fault": NO_FAULT}),
    (ORDER, 7, {"acks": "0"}),
    (ORDER, 8, {"max_in_flight": 1, "fault": LEADER_PAUSE, "delivery_timeout_ms": 2000}),
    (ORDER, 8, {"retries": 0, "fault": LEADER_PAUSE}),
    (ORDER, 8, {"retries": 0, "fault": RESPONSES_DROPPED}),
    (ORDER, 9, {"max_in_flight": 1, "fault": LEADER_PAUSE}),
    (ORDER, 9, {"max_in_flight": 1, "fault": LEADER_PAUSE, "delivery_timeout_ms": 0}),
    (ORDER, 9, {"max_in_flight": 1, "delivery_timeout_ms": 2000}),
    (ORDER, 3, {"idempotent": True, "producer_id_expiration_ms": 20_000}),
    (ORDER, 4, {"idempotent": True, "retention_ms": 20_000}),
    (ORDER, 10, {"retries": 0}),
    (ORDER, 10, {"retries": 0, "acks": "1"}),
    (ORDER, 10, {"retries": 0, "fault": LEADER_PAUSE, "socket_timeout_ms": 60_000}),
    (ORDER, 11, {"retries": 0, "client": "java"}),
    (ORDER, 11, {"retries": 0, "fault": FOLLOWER_CRASH}),
    (ORDER, 12, {}),
    (ORDER, 12, {"fault": NO_FAULT}),
    (ATOMIC, 1, {"transactional": False}),
    (ATOMIC, 2, {"transactional": True, "fault": UNKNOWN_FAULT}),
    (ATOMIC, 5, {"transactional": True, "fault": BIT_FLIP}),
    (ATOMIC, 5, {"transactional": True, "fault": POWER_LOSS_ALL}),
    (
        ATOMIC,
        6,
        {
            "transactional": True,
            "fault": FaultEffects(kind="producer-fenced", ends_transactional_producer=True),
        },
    ),
    (ATOMIC, 8, {"transactional": True}),
    (
        ATOMIC,
        8,
        {"transactional": True, "fault": POWER_LOSS_ALL.model_copy(update={"nodes_down": 1})},
    ),
    *(
        (guarantee, rule, {**LATE, **given, **client})
        for guarantee, (unknown, known), given in (
            (ATOMIC, (3, 4), {}),
            (LOSS, (7, 8), {}),
            (MISSED, (8, 9), {**COPIES, "commits": "within"}),
            (REPROCESSED, (9, 10), {**COPIES, "commits": "within"}),
        )
        for rule, client in (
            (unknown, {"client": "java", "transaction_version": None}),
            (known, {"client": "java", "transaction_version": 1}),
            (known, {"client": "java", "transaction_version": 0}),
            (known, {"client": "librdkafka", "transaction_version": 2}),
            (known, {"client": "librdkafka"}),
        )
    ),
    (ATOMIC, 4, {"transactional": True, "fault": LEADER_PAUSE}),
    (ATOMIC, 4, {"transactional": True, "fault": RESPONSES_DROPPED}),
    (ATOMIC, 8, {"transactional": True, "fault": LEADER_PAUSE, "socket_timeout_ms": 3000}),
    (ATOMIC, 7, {**LATE, "client": "java", "transaction_version": 2}),
    (LOSS, 9, {**LATE, "client": "java", "transaction_version": 2}),
    (LOSS, 9, {**LATE, "transactional": False}),
    (MISSED, 1, {"consumers": 2, "commits": "before", "fault": MEMBER_CRASH}),
    (MISSED, 3, {"consumers": 2, "commits": "auto"}),
    (MISSED, 12, {"consumers": 2, "commits": "auto", "stores_offsets_itself": False}),
    (MISSED, 4, {"consumers": 2, "fault": UNKNOWN_FAULT}),
    (MISSED, 4, {"consumers": 2, "unclean_election": True}),
    (MISSED, 4, {"consumers": 2, "fault": POWER_LOSS_ALL}),
    (MISSED, 4, {"consumers": 2, "fault": LEADER_CRASH.model_copy(update={"nodes_down": 2})}),
    (MISSED, 12, {"consumers": 2, "fault": LEADER_ISOLATED}),
    (MISSED, 4, {"consumers": 2, "fault": TWO_ISOLATED}),
    (
        MISSED,
        4,
        {"consumers": 2, "fault": LEADER_CRASH.model_copy(update={"followers_out_of_sync": 1})},
    ),
    (MISSED, 4, {"consumers": 2, "fault": LEADER_POWER_LOSS}),
    (MISSED, 4, {"consumers": 2, "fault": LEADER_POWER_LOSS, "flush_messages": 2}),
    (MISSED, 12, {"consumers": 2, "fault": LEADER_POWER_LOSS, "flush_messages": 1}),
    (MISSED, 7, {"consumers": 2, "auto_offset_reset": "latest", "fault": PARTITIONS_RAISED}),
    (MISSED, 12, {"consumers": 2, "fault": PARTITIONS_RAISED}),
    (MISSED, 12, {"consumers": 2, "auto_offset_reset": "latest", "fault": MEMBER_CRASH}),
    (MISSED, 5, {"consumers": 2, "copy_workload": True, "acks": "1"}),
    (MISSED, 6, {"consumers": 2, "retention_bytes": 4_000_000}),
    (MISSED, 6, {"consumers": 2, "retention_ms": 2000}),
    (
        MISSED,
        10,
        {
            "consumers": 2,
            "copy_workload": True,
            "commits": "within",
            "idempotent": True,
            "fault": MEMBER_CRASH,
        },
    ),
    (MISSED, 10, {"consumers": 2, "copy_workload": True, "commits": "within", "idempotent": True}),
    (MISSED, 12, {"consumers": 2, "copy_workload": True}),
    (MISSED, 12, {"consumers": 2, "acks": "1"}),
    (MISSED, 12, {"consumers": 2, "fault": MEMBER_CRASH}),
    (MISSED, 2, {"consumers": 2, "skips_failed_records": True}),
    (REPROCESSED, 1, {"consumers": 2, "asynchronous_commits": True}),
    (REPROCESSED, 2, {"consumers": 2, "commit_on_revocation": False}),
    (REPROCESSED, 3, {"consumers": 2, "commit_every_records": 1, "fault": MEMBER_CRASH}),
    (REPROCESSED, 4, {"consumers": 2, "fault": MEMBER_CRASH}),
    (REPROCESSED, 7, {"consumers": 2, "commits": "before", "asynchronous_commits": True}),
    (MISSED, 12, {"consumers": 2, "asynchronous_commits": True, "fault": MEMBER_CRASH}),
    (REPROCESSED, 6, {"consumers": 2, "commits": "auto", "stores_offsets_itself": False}),
    (MISSED, 11, {"consumers": 2, "commits": "auto", "client": "java"}),
    (REPROCESSED, 5, {"consumers": 2, "commits": "auto", "client": "java"}),
    (REPROCESSED, 8, {"consumers": 2, "commits": "before", "fault": POWER_LOSS_ALL}),
    (
        REPROCESSED,
        11,
        {
            "consumers": 2,
            "copy_workload": True,
            "commits": "within",
            "idempotent": True,
            "fault": MEMBER_CRASH,
        },
    ),
    (REPROCESSED, 12, {"consumers": 2, "copy_workload": True, "commits": "before"}),
    (
        REPROCESSED,
        13,
        {"consumers": 2, "copy_workload": True, "commits": "before", "idempotent": True},
    ),
    (REPROCESSED, 13, {"consumers": 2, "commits": "before", "fault": MEMBER_CRASH}),
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
    (DUPLICATES, 7, {"fault": PRODUCER_CRASH, "idempotent": True}),
    (ORDER, 2, {"fault": PRODUCER_CRASH, "idempotent": True}),
    (UP, 3, {"fault": PRODUCER_CRASH, "acks": "1"}),
    (LOSS, 9, {"fault": PRODUCER_CRASH, "acks": "1"}),
]


def _case(changes: dict[str, Any]) -> Circumstances:
    return USUAL.model_copy(update=changes)


def _guaranteed(circumstances: Circumstances) -> dict[Guarantee, bool | None]:
    """`None`: unknown."""
    return {clause.guarantee: clause.guaranteed for clause in clauses_of(circumstances)}


@pytest.mark.parametrize(("guarantee", "number", "changes"), CASES)
def test_each_case_is_decided_by_its_rule(
    guarantee: Guarantee, number: int, changes: dict[str, Any]
) -> None:
    """Rules are numbered as in `docs/contract.md`."""
    assert guarantee.rules.index(deciding_rule(guarantee, _case(changes))) + 1 == number


def test_every_rule_has_a_case() -> None:
    """A rule without a case might be unreachable."""
    assert {(guarantee, number) for guarantee, number, _ in CASES} == {
        (guarantee, number)
        for guarantee in GUARANTEES
        if guarantee not in OF_CONSUMERS
        for number in range(1, len(guarantee.rules) + 1)
    }


def test_a_cell_has_one_clause_per_guarantee_in_order() -> None:
    """Each with its reason and its source."""
    clauses = clauses_of(_case({"transactional": True, "consumers": 1, "compacted": True}))
    assert [clause.guarantee for clause in clauses] == list(GUARANTEES)
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
    assert up.reason.endswith("(healed after 6000 ms; failover takes up to 8000 ms)")


def test_a_rule_on_an_unknown_fact_gives_a_clause_of_unknown_outcome() -> None:
    """With the reason, and "unknown" in the document's column."""
    rule = unknown(
        "the version is unknown", lambda c: c.kafka_version is None, "older ones lost it", "source"
    )
    clause = clause_of(LOSS, rule, USUAL)
    assert (clause.guaranteed, clause.reason) == (None, "older ones lost it")
    assert as_row(1, rule)[:3] == ("1", "the version is unknown", "unknown")


def test_every_source_is_official() -> None:
    """Documentation of Kafka or ZooKeeper, a KIP, an issue of Kafka's, or client source."""
    owners = (
        "https://kafka.apache.org/documentation/#",
        "https://kafka.apache.org/43/javadoc/org/apache/kafka/",
        "https://cwiki.apache.org/confluence/display/KAFKA/KIP-",
        "https://zookeeper.apache.org/doc/",
        "https://github.com/confluentinc/librdkafka/blob/v",
        "https://issues.apache.org/jira/browse/KAFKA-",
    )
    assert all(rule.source.startswith(owners) for one in GUARANTEES for rule in one.rules)


def test_the_document_contains_the_rules_of_the_code() -> None:
    """To generate them: `print(ackbench.experiments.verdicts.contract.as_markdown())`."""
    document = (Path(__file__).parents[4] / "docs" / "contract.md").read_text()
    assert as_markdown() in document


@pytest.mark.parametrize(
    ("document", "head", "row"),
    [
        ("verdicts.md", "| guarantee | in words |", "| {one.label} | {one.text} |"),
        ("contract.md", "| guarantee | meaning | violated by |", "| {one.name} | {one.text}"),
    ],
)
def test_the_documents_say_of_each_guarantee_what_the_code_says(
    document: str, head: str, row: str
) -> None:
    """In the same order; `contract.md` adds which cells it is judged for."""
    text = (Path(__file__).parents[4] / "docs" / document).read_text()
    _, *rows = text.split(f"{head}\n")[1].split("\n\n")[0].splitlines()
    starts = [row.format(one=guarantee) for guarantee in GUARANTEES]
    assert len(rows) == len(starts)
    assert [one for one, start in zip(rows, starts, strict=True) if not one.startswith(start)] == []


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
        *GUARANTEES,
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


@given(cells)
def test_eligible_leader_replicas_remove_no_guarantee(cell: Circumstances) -> None:
    """Level 1 keeps what level 0 guarantees, and an unknown level what both do."""
    without, unknown_level, tracked = (
        cell.model_copy(update={"eligible_leader_replicas": level}) for level in (0, None, 1)
    )
    _assert_implied(without, unknown_level, *GUARANTEES)
    _assert_implied(unknown_level, tracked, *GUARANTEES)


@given(cells)
def test_isolating_one_node_costs_a_group_no_more_than_its_crash(cell: Circumstances) -> None:
    """Both take one replica of the commits; a count of each would be a count of both."""
    group = cell.model_copy(update={"consumers": 2})
    _assert_implied(
        group.model_copy(update={"fault": LEADER_CRASH}),
        group.model_copy(update={"fault": LEADER_ISOLATED}),
        MISSED,
        REPROCESSED,
    )


@given(cells, st.integers(1, 2))
def test_a_more_severe_fault_never_adds_a_guarantee(cell: Circumstances, more: int) -> None:
    """More nodes crash at once, by power loss."""
    assume(cell.fault.kind != "none")
    harder = cell.fault.model_copy(
        update={"nodes_down": cell.fault.nodes_down + more, "power_loss": True}
    )
    _assert_implied(cell.model_copy(update={"fault": harder}), cell, LOSS)


@st.composite
def two_extents(draw: st.DrawFn) -> tuple[FaultEffects, FaultEffects]:
    """Draw what a fault did, and what it was to do: no less, in any field."""
    did: dict[str, float] = {}
    planned: dict[str, float] = {}
    for name, field in FaultEffects.model_fields.items():
        if name in {"kind", "known"}:
            continue
        several = field.annotation is not bool
        values = [0, 1, 2, 3, 500, 3000, 9000, 90_000] if several else [False, True]
        if name == "parts":
            values = [1, 2]
        planned[name] = draw(st.sampled_from(values))
        did[name] = draw(st.sampled_from([value for value in values if value <= planned[name]]))
    return FaultEffects(kind="any", **did), FaultEffects(kind="any", **planned)


@given(cells, st.booleans(), st.sampled_from([0, 2]), two_extents())
def test_a_fault_that_did_less_than_planned_leaves_every_guarantee_of_the_plan(
    cell: Circumstances,
    transactional: bool,
    consumers: int,
    extents: tuple[FaultEffects, FaultEffects],
) -> None:
    """So an incomplete trial can show a violation; how long a fault lasts is another matter."""
    did, planned = extents
    changes = {"transactional": transactional, "consumers": consumers}
    _assert_implied(
        cell.model_copy(update={**changes, "fault": planned}),
        cell.model_copy(update={**changes, "fault": did}),
        *(set(GUARANTEES) - {AVAILABILITY, READ_AVAILABILITY}),
    )


@given(cells)
def test_an_unknown_fault_leaves_no_guarantee(cell: Circumstances) -> None:
    """It may have any effect."""
    assert not any(_guaranteed(cell.model_copy(update={"fault": UNKNOWN_FAULT})).values())


@given(cells, st.sampled_from([None, 0, 1, 2]), st.sampled_from(["java", "librdkafka"]))
def test_atomicity_under_late_requests_needs_a_client_that_speaks_transaction_version_2(
    cell: Circumstances, transaction_version: int | None, client: str
) -> None:
    """Unknown is not enough, and no other setting helps (KAFKA-17754, KIP-890)."""
    late = cell.model_copy(
        update={
            "transactional": True,
            "client": client,
            "transaction_version": transaction_version,
            "fault": cell.fault.model_copy(update={"delays_transactional_request": True}),
        }
    )
    rule = deciding_rule(ATOMIC, late)
    assert not rule.guaranteed or (client, transaction_version) == ("java", 2)
    if (client, transaction_version) == ("java", None) and cell.fault.known:
        assert rule.guaranteed is None


@given(cells)
def test_acks_0_never_guarantees_durability(cell: Circumstances) -> None:
    """Whatever else is set."""
    assert not _guaranteed(cell.model_copy(update={"acks": "0"}))[LOSS]


@pytest.mark.parametrize(
    ("client", "transaction_version", "is_control"),
    [
        ("librdkafka", 2, True),
        ("librdkafka", None, True),
        ("java", 1, True),
        ("java", None, False),
        ("java", 2, False),
    ],
)
def test_a_delayed_commit_that_nobody_refuses_is_the_positive_control_of_atomicity(
    client: str, transaction_version: int | None, is_control: bool
) -> None:
    """Where it is unknown whether the request is refused, nothing must be seen."""
    cell = _case({**LATE, "client": client, "transaction_version": transaction_version})
    assert must_tear_transactions(cell) == is_control
    assert not must_tear_transactions(cell.model_copy(update={"fault": LEADER_PAUSE}))
    assert not must_tear_transactions(cell.model_copy(update={"transactional": False}))
