"""Faults of clients bite when somebody tells so: a member that was thrown out says it, and where there is nobody to strike nothing was struck."""

import pytest
from support.fakes.cluster import MemoryCluster

from experiments.events.clock import now_ns
from experiments.events.journal import Event, Journal
from experiments.faults import FAULTS
from experiments.faults.core import FaultContext, FaultMissed
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from experiments.ledger.schema import Source

STRUCK = FaultEvidence(
    kind="consumer-paused", took_effect=True, evidence=("member 1.0 stood still",)
)


def told(kind: str, detail: str, at_ns: int = 2_000_000_000, partition: int | None = 0) -> Event:
    """What a member wrote."""
    return Event(at_ns, kind, Source.CLIENT, partition=partition, detail=detail)


def confirmed(*events: Event) -> FaultEvidence:
    """The pause's evidence, completed by what was logged since it began."""
    return FAULTS["consumer-paused"].confirm(
        STRUCK, TrialObservations(events, "all", 1_000_000_000)
    )


@pytest.mark.parametrize(
    "event",
    [told("revoked", "member 1.0: lost"), told("commit_refused", "member 1.0: UNKNOWN_MEMBER_ID")],
)
def test_a_paused_member_was_thrown_out_when_it_says_so(event: Event) -> None:
    """By its own log, when it went on; who was given the partition meanwhile is told as well."""
    evidence = confirmed(told("assigned", "member 2.0", at_ns=1_500_000_000), event)
    assert evidence.took_effect
    assert evidence.evidence[1] == "partition 0 was given to member 2.0 at +0.500 s"
    assert "the group had thrown it out" in evidence.evidence[-1]


@pytest.mark.parametrize(
    "events",
    [
        (),
        (told("revoked", "member 1.0: given back"),),
        (told("revoked", "member 1.0: lost", at_ns=900_000_000),),
    ],
)
def test_a_paused_member_that_says_nothing_of_the_kind_was_not_thrown_out(
    events: tuple[Event, ...],
) -> None:
    """What it gave back by itself, or lost before, is no sign: the fault did not bite, and says why."""
    evidence = confirmed(*events)
    assert not evidence.took_effect
    assert evidence.evidence[-1].startswith("the member was never told")


@pytest.mark.parametrize(
    "kind", [kind for kind, fault in FAULTS.items() if fault.family == "clients"]
)
def test_without_clients_at_hand_nothing_is_struck(kind: str) -> None:
    """And nothing is begun that would have to be healed."""
    context = FaultContext(MemoryCluster(), "trial", now_ns() - 10**10, Journal(), 1.0)
    with pytest.raises(FaultMissed):
        FAULTS[kind].inject(context, FAULTS[kind].parameters(at_s=0.001))
    assert not any(event.kind == "fault_kill" for event in context.journal.events())
