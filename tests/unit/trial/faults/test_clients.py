"""Client faults take effect when a log reports it: a removed member reports its removal.

Without a running client there is no target, and nothing is injected.
"""

import pytest
from support.fakes.cluster import MemoryCluster
from support.golden_files import Says

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core import FaultContext, FaultMissed
from ackbench.experiments.trial.faults.core.kind import TrialObservations

PAUSED = FaultEvidence(kind="consumer-pause", took_effect=True, evidence=("member 1.0 was paused",))


def event_of(
    kind: str, detail: str, at_ns: int = 2_000_000_000, partition: int | None = 0
) -> Event:
    """Return an event of a member."""
    return Event(at_ns, kind, Source.CLIENT, partition=partition, detail=detail)


def confirmed(*events: Event) -> FaultEvidence:
    """Return the pause's evidence after events that were logged since it began."""
    return FAULTS["consumer-pause"].confirm(PAUSED, TrialObservations(events, "all", 1_000_000_000))


@pytest.mark.parametrize(
    "event",
    [
        event_of("revoked", "member 1.0: lost"),
        event_of("commit_refused", "member 1.0: UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_paused_member_was_removed_if_its_log_reports_it(says: Says, event: Event) -> None:
    """The evidence also has the member to which the partition was assigned meanwhile."""
    evidence = confirmed(event_of("assigned", "member 2.0", at_ns=1_500_000_000), event)
    assert evidence.took_effect
    says(evidence.evidence[1])
    assert "the group had removed the member" in evidence.evidence[-1]


OWNED = event_of("assigned", "member 1.0", at_ns=500_000_000)
RESUMED = event_of("client_resume", "SIGCONT, member 1.0", at_ns=3_000_000_000)


def test_a_paused_member_was_removed_if_another_one_got_its_partition_meanwhile(says: Says) -> None:
    """A program that says nothing of its removal is removed all the same."""
    evidence = confirmed(OWNED, event_of("assigned", "member 2.0"), RESUMED)
    assert evidence.took_effect
    says(evidence.evidence[-1])


@pytest.mark.parametrize(
    "events",
    [
        (),
        (OWNED, event_of("assigned", "member 1.0"), RESUMED),
        (OWNED, RESUMED, event_of("assigned", "member 2.0", at_ns=4_000_000_000)),
        (OWNED, event_of("assigned", "member 2.0", partition=1), RESUMED),
        (event_of("revoked", "member 1.0: released"),),
        (event_of("revoked", "member 1.0: lost", at_ns=900_000_000),),
    ],
)
def test_a_paused_member_without_such_a_log_line_was_not_removed(events: tuple[Event, ...]) -> None:
    """A partition that it gave back, or lost before the pause, does not count."""
    evidence = confirmed(*events)
    assert not evidence.took_effect
    assert evidence.evidence[-1].startswith(
        "the member lost no partition and no commit of it was refused"
    )


@pytest.mark.parametrize(
    "kind", [kind for kind, fault in FAULTS.items() if fault.family == "clients"]
)
def test_without_clients_nothing_is_injected(kind: str) -> None:
    """So there is nothing to heal."""
    context = FaultContext(MemoryCluster(), "trial", now_ns() - 10**10, Journal(), 1.0)
    with pytest.raises(FaultMissed):
        FAULTS[kind].inject(context, FAULTS[kind].parameters(at_s=0.001))
    assert not any(event.kind == "fault_kill" for event in context.journal.events())
