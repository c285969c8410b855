"""Rules for chosen requests in experiments: what is refused, what ends them, what is guaranteed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext
from ackbench.experiments.trial.faults.composition.execution import inject as inject_request
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.infra.network.impairment import Impairment, ImpairmentCounts, MetRequest

LONG_S = 60.0
TOPOLOGY = Topology(nodes=3, partitions=1, replication_factor=3)


@dataclass
class RuledCluster(MemoryCluster):
    """Meets one request as soon as there is a rule, and moves the leader if it is to."""

    journal: Journal = field(default_factory=Journal)
    moves_leader: bool = False
    ended: str = ""
    applied: tuple[Impairment, ...] = ()

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Record the rule."""
        super().impair(name, impairments)
        self.applied = tuple(impairments)
        self._met_ns = time.monotonic_ns()
        if self.moves_leader:
            self.journal.note("leader", "2 -> 3", node=3, partition=0)

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return one request."""
        del name
        met = MetRequest(2, "Produce", 9, 7, "rdkafka", self._met_ns)
        what = "Produce responses dropped"
        return (ImpairmentCounts(0, what, requests=1, met=(met,), ended=self.ended),)

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return the final counts."""
        return self.impairment_counts(name)


def inject(cluster: RuledCluster, **parameters: float | str) -> FaultEvidence:
    """Inject a rule that lasts for long unless an event ends it."""
    values = {"at_s": 0.01, "lasts_s": LONG_S, **parameters}
    context = FaultContext(cluster, cluster.topic, now_ns(), cluster.journal, client_timeout_s=0.05)
    request = FaultRequest(kind="requests", parameters=values)
    (injected,) = inject_request(request, context)
    return injected.evidence


@pytest.mark.parametrize(
    ("cluster", "until", "sentence"),
    [
        (RuledCluster(moves_leader=True), "leader", "with the event leader (2 -> 3)"),
        (RuledCluster(), 0.05, "0.05 s after the first request that it met"),
        (RuledCluster(ended="a record is stored"), "next-transaction", "a record is stored"),
    ],
    ids=["leader", "seconds", "transaction"],
)
def test_an_event_ends_a_rule(cluster: RuledCluster, until: float | str, sentence: str) -> None:
    """Long before its time; the evidence says which, and when requests met it."""
    began_s = time.monotonic()
    evidence = inject(cluster, until=until)
    assert time.monotonic() - began_s < LONG_S / 2
    assert evidence.took_effect
    assert any(sentence in one for one in evidence.evidence)
    assert any("the first were met 0." in one for one in evidence.evidence)


def test_without_its_event_a_rule_ends_when_its_time_is_up() -> None:
    """The evidence says so."""
    evidence = inject(RuledCluster(), until="isr", lasts_s=0.1)
    assert any("no event ended the rule" in one for one in evidence.evidence)


def test_the_topic_under_test_is_named_to_the_relays() -> None:
    """It has another name in each trial."""
    cluster = RuledCluster()
    inject(cluster, api="Metadata", rewrite="topics:removed", topic="under-test", lasts_s=0.05)
    (rule,) = cluster.applied
    assert str(rule) == (
        f"the relays rewrite topics:removed for topic {cluster.topic} in 1 Metadata responses"
    )


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"until": "leaders"}, "did you mean leader"),
        ({"until": "nan"}, "allowed: seconds, or an event"),
        ({"rewrite": "throttle_time:5"}, "did you mean throttle_time_ms"),
        ({"action": "respond"}, "error is missing, which action respond needs"),
        ({"action": "respond", "api": "JoinGroup", "error": "NOT_COORDINATOR"}, "EndTxn"),
        (
            {"action": "drop", "topic": "t"},
            "topic is t and action is drop; allowed: topic with action error, rewrite or respond",
        ),
        ({"rewrite": "throttle_time_ms:5", "side": "requests"}, "allowed: responses"),
    ],
)
def test_what_cannot_be_is_refused(parameters: dict[str, str], reason: str) -> None:
    """At planning, with what is allowed or the nearest name."""
    with pytest.raises(ValidationError, match=reason):
        FAULTS["requests"].parameters.model_validate(parameters)


@pytest.mark.parametrize(
    ("parameters", "known", "responses_lost"),
    [
        ({"action": "respond", "error": "NOT_LEADER_OR_FOLLOWER"}, True, False),
        ({"action": "respond", "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}, False, False),
        ({"error": "NOT_LEADER_OR_FOLLOWER"}, True, True),
        ({"rewrite": "throttle_time_ms:500"}, True, False),
        ({"rewrite": "responses.partition_responses.base_offset:3"}, False, False),
        ({"api": "Metadata", "rewrite": "topics.partitions.leader_epoch:by-1"}, True, False),
        ({"api": "Metadata", "rewrite": "topics.partitions.leader_epoch:by+1"}, False, False),
        ({"api": "Metadata", "rewrite": "topics:removed"}, False, False),
        (
            {"api": "Metadata", "rewrite": "topics.error_code:UNKNOWN_TOPIC_OR_PARTITION"},
            True,
            False,
        ),
    ],
)
def test_effects_are_known_where_a_source_says_what_clients_do(
    parameters: dict[str, str], known: bool, responses_lost: bool
) -> None:
    """A request that the broker never got is no response that is lost."""
    effects = FAULTS["requests"].effects_of(parameters, TOPOLOGY)
    assert (effects.known, effects.responses_lost) == (known, responses_lost)


@pytest.mark.parametrize("api", ["TxnOffsetCommit", "AddOffsetsToTxn", "EndTxn"])
def test_requests_of_transactions_are_there_if_producers_or_copiers_send_them(api: str) -> None:
    """Offsets in a transaction are those of a copier; producers of a load have none."""
    parameters = FAULTS["requests"].parameters.model_validate({"api": api, "action": "drop"})
    copies = TOPOLOGY.model_copy(update={"copy_workload": True, "consumers": 1})
    exact = copies.model_copy(update={"commits": "within"})
    transactional = TOPOLOGY.model_copy(update={"transactional": True})
    assert parameters.impossible_reason(TOPOLOGY) is not None
    assert parameters.impossible_reason(copies) is not None
    assert parameters.impossible_reason(exact) is None
    assert (parameters.impossible_reason(transactional) is None) == (api == "EndTxn")
