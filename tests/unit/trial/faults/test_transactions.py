"""Faults of transactions: requirements, and a stuck last stable offset."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import pytest
from support.fakes.cluster import MemoryCluster
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.group.groups import ConsumerGroups
from ackbench.experiments.trial.clients.interface import ClientProcesses
from ackbench.experiments.trial.clients.producer.process import ProducerProcess
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext
from ackbench.experiments.trial.faults.core import FaultMissed
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.transactions import KINDS, producers
from ackbench.experiments.trial.faults.transactions.producers import (
    StuckOffset,
    advanced,
    wait_for_stuck_offset,
)
from ackbench.infra.network.impairment import HeldRequest

PLAIN = Topology(nodes=3, partitions=1, replication_factor=3)
TRANSACTIONAL = PLAIN.model_copy(update={"transactional": True})
Offsets = Iterator[tuple[int, int]]


@pytest.mark.parametrize("kind", [kind.kind for kind in KINDS])
def test_without_transactions_there_is_no_target(says: Says, kind: str) -> None:
    """Planning rejects the fault, and the message names what is allowed."""
    parameters = FAULTS[kind].parameters()
    says(parameters.impossible_reason(PLAIN))
    assert parameters.impossible_reason(TRANSACTIONAL) is None


@pytest.mark.parametrize("kind", ["producer-fenced", "transaction-abandoned"])
def test_faults_that_need_ackbenchs_own_producer_refuse_javas_client(kind: str) -> None:
    """Its program can neither be replaced nor observed from outside."""
    topology = TRANSACTIONAL.model_copy(update={"client": "java"})
    reason = FAULTS[kind].parameters().impossible_reason(topology)
    assert str(reason).startswith("client is java; allowed: librdkafka")


class OwnProducer:
    """Producer 0 as the fault sees it, in a process of its own, with a transaction that may end."""

    def __init__(self, process: subprocess.Popen[bytes], records: Sequence[int]) -> None:
        self._process, self._records = process, iter(records)
        self.pid, self.signals = process.pid, list[signal.Signals]()
        self.is_abandoned = False

    def acked_in_open_transaction(self) -> int:
        """Return the next of the planted numbers."""
        return next(self._records)

    def pause(self) -> None:
        """Stop the process."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process continue."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        self.signals.append(number)
        self._process.send_signal(number)

    def abandon(self) -> None:
        """Kill the process."""
        self._process.kill()
        self.is_abandoned = True


def test_a_producer_whose_transaction_ends_meanwhile_crashes_in_the_next_one() -> None:
    """It is looked at again once it is stopped: then it can end nothing any more."""
    context = FaultContext(MemoryCluster(), "trial", now_ns(), Journal(), client_timeout_s=1)
    with subprocess.Popen(["sleep", "60"]) as process:
        producer = OwnProducer(process, [0, 7, 0, 9, 9])
        records = producers._crash_in_transaction(context, cast("ProducerProcess", producer))

    assert (records, producer.is_abandoned) == (9, True)
    assert producer.signals == [signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP]


@pytest.mark.parametrize("kind", ["producer-fenced", "transaction-abandoned"])
def test_a_producer_that_is_not_replaced_keeps_the_order(kind: str) -> None:
    """There is no second session; only the outcome of its last transaction is open."""
    effects = FAULTS[kind].effects_of({}, TRANSACTIONAL)
    assert (
        effects.ends_transactional_producer,
        effects.restarts_producer,
        effects.may_affect_leader,
    ) == (True, False, False)


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> Callable[[Offsets], None]:
    """Let the leader report these last stable offsets and high watermarks; the last repeats."""

    def report(pairs: Offsets) -> None:
        current: list[tuple[int, int]] = []

        def end_offsets(
            _servers: str, _topic: str, *, read_committed: bool = False
        ) -> dict[int, int]:
            if read_committed:
                current[:] = [next(pairs, current[0] if current else (0, 0))]
            return {0: current[0][0 if read_committed else 1]}

        monkeypatch.setattr(
            "ackbench.experiments.trial.clients.librdkafka.topics.end_offsets", end_offsets
        )
        monkeypatch.setattr(producers, "STUCK_AFTER_S", 0.2)
        monkeypatch.setattr(producers, "STUCK_TIMEOUT_S", 0.6)

    return report


@pytest.fixture
def context() -> FaultContext:
    """A context whose fault has begun."""
    begun = FaultContext(MemoryCluster(), "trial", now_ns(), Journal(), client_timeout_s=1)
    begun.begins_ns.append(now_ns())
    return begun


def test_an_offset_that_stays_below_the_high_watermark_is_stuck(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """The high watermark may advance meanwhile."""
    offsets(iter([(5, 9), (7, 12), *((7, 12 + more) for more in range(100))]))
    stuck = wait_for_stuck_offset(context)
    assert stuck is not None
    assert (
        stuck.stable_offset,
        [event.offset for event in context.journal.events("last_stable_offset_stuck")],
    ) == (7, [7])


def test_an_advancing_offset_is_not_stuck(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """Under load, transactions begin and end all the time."""
    offsets(iter([(at, at + 5) for at in range(1000)]))
    assert wait_for_stuck_offset(context) is None
    assert "was never stuck" in context.evidence[-1]


def test_an_offset_at_the_high_watermark_is_not_stuck(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """Without an open transaction and without load, neither advances."""
    offsets(iter([(9, 9)]))
    assert wait_for_stuck_offset(context) is None


def test_the_evidence_has_how_long_the_offset_was_stuck(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """It also has how far the high watermark was ahead."""
    stuck = StuckOffset(7, 12, now_ns())
    offsets(iter([(7, 40), (41, 50)]))
    assert advanced(context, stuck) is None
    assert str(advanced(context, stuck)).endswith(
        "when it was 43 offsets behind the high watermark"
    )
    assert [event.offset for event in context.journal.events("last_stable_offset_advanced")] == [41]


def test_a_request_without_a_response_does_not_reset_a_stuck_offset(
    context: FaultContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, requests time out now and then; the offset is stuck all the same."""
    responses = iter(
        [
            None,
            StuckOffset(7, 12, 0),
            None,
            StuckOffset(7, 13, 10**9),
            None,
            StuckOffset(7, 14, 2 * 10**9),
        ]
    )
    monkeypatch.setattr(producers, "_offsets_now", lambda _context: next(responses))
    stuck = wait_for_stuck_offset(context)
    assert stuck is not None
    assert stuck.stable_offset == 7


DELAYED = ["end-txn-delayed", "add-partitions-delayed", "transactional-produce-delayed"]
HELD = HeldRequest(2, "EndTxn", 1, 0)
RELEASED = replace(HELD, released_ns=1_500_000_000, in_next_transaction=True)


def delay(states: list[HeldRequest | None], patience_s: float = 0.3) -> FaultEvidence:
    """Return the evidence of a delayed EndTxn that the relays report in these states."""
    cluster = MemoryCluster(held_requests=states)
    context = FaultContext(
        cluster,
        "trial",
        now_ns(),
        Journal(),
        client_timeout_s=1,
        clients=ClientProcesses((), ConsumerGroups(()), ("ackbench-trial-0",)),
    )
    kind = FAULTS["end-txn-delayed"]
    evidence = kind.inject(
        context, kind.parameters.model_validate({"at_s": 0.01, "patience_s": patience_s})
    )
    assert not cluster.impairments
    return evidence


def test_a_delayed_request_took_effect_if_it_was_answered_in_the_next_transaction() -> None:
    """The evidence has its version, and what the coordinator answered."""
    evidence = delay([None, HELD, RELEASED, replace(RELEASED, error_code=48)])
    assert (evidence.took_effect, evidence.targets) == (True, (2,))
    (sentence,) = evidence.evidence
    assert sentence.startswith(
        "a relay held EndTxn v1 to node 2, held for 1.50 s, delivered in the next transaction,"
        " answered with error 48: INVALID_TXN_STATE"
    )


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([None], "producer 0 sent no EndTxn for"),
        ([HELD], "the request did not reach the next transaction"),
        (
            [replace(RELEASED, in_next_transaction=False, error_code=0)],
            "the request did not reach the next transaction",
        ),
    ],
)
def test_a_delayed_request_had_no_effect_outside_the_next_transaction(
    states: list[HeldRequest | None], reason: str
) -> None:
    """Nothing was held, it was not delivered, or it came too early."""
    evidence = delay(states)
    assert not evidence.took_effect
    assert reason in evidence.evidence[-1]


def test_without_a_transactional_id_no_request_is_held() -> None:
    """The fault finds no target."""
    context = FaultContext(MemoryCluster(), "trial", now_ns(), Journal(), client_timeout_s=1)
    kind = FAULTS["end-txn-delayed"]
    with pytest.raises(FaultMissed, match=r"no producer with a transactional\.id"):
        kind.inject(context, kind.parameters(at_s=0.01))


@pytest.mark.parametrize("kind", DELAYED)
def test_a_delayed_request_leaves_nodes_and_replicas_alone(kind: str) -> None:
    """It needs relays; only a delayed batch can be appended late."""
    effects = FAULTS[kind].effects_of({"patience_s": 4}, TRANSACTIONAL)
    assert effects.delays_transactional_request
    assert not effects.may_affect_leader
    held_ms = 4000 if kind == "transactional-produce-delayed" else 0
    assert (effects.requests_held_ms, effects.heals_within_ms) == (held_ms, 4000)
    assert FAULTS[kind].network == "relays"


@pytest.mark.parametrize(
    ("client", "transaction_version", "is_possible"),
    [("java", 2, False), ("java", 1, True), ("java", None, True), ("librdkafka", 2, True)],
)
def test_add_partitions_is_refused_where_the_client_does_not_send_it(
    client: str, transaction_version: int | None, is_possible: bool
) -> None:
    """KIP-890: with level 2, Java's client leaves it to the leader; librdkafka does not."""
    topology = TRANSACTIONAL.model_copy(
        update={"client": client, "transaction_version": transaction_version}
    )
    reason = FAULTS["add-partitions-delayed"].parameters().impossible_reason(topology)
    assert (reason is None) == is_possible
    assert reason is None or "sends no AddPartitionsToTxn with transaction.version=2" in reason
