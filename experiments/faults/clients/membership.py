"""Members of a consumer group that come and go as they are meant to: one more joins, or one leaves and comes back. The group shares its partitions out anew."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from experiments.clients.group.member import ASSIGNED
from experiments.faults.clients.members import MemberParameters, handed_on, nature_of_member
from experiments.faults.clients.producers import FAMILY
from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultMissed
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from infra.errors import WaitTimeout

LET_IN_S: Final = 30.0
"""How long a group is given to let a member in; a rebalance waits for all of them."""


class MemberJoinsParameters(MemberParameters):
    """One more member joins the group, and stays."""


class MemberLeavesParameters(MemberParameters):
    """A member leaves the group by itself, and comes back."""

    restart_after_s: float = Field(
        default=2.0,
        gt=0,
        le=3600,
        description="from its leaving to the start of its next process, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when it is started again."""
        return self.at_s + self.restart_after_s


def join(context: FaultContext, parameters: MemberJoinsParameters) -> FaultEvidence:
    """Start one more member; it bit when the group has let it in."""
    context.until(parameters.at_s)
    group = context.clients.first_group() if context.clients else None
    if group is None:
        raise FaultMissed("there is no group that a member could join")
    with context.striking():
        member = group.join()
        others = len(group.members) - 1
        context.saw(
            f"{member.job.name} (process {member.pid}) asked to join {others} others {context.since_load_began_s():.2f} s into the load"
        )
        try:
            member.wait_in_group(LET_IN_S)
        except WaitTimeout as late:
            raise FaultMissed(f"the group did not let {member.job.name} in: {late}") from late
        context.note("fault_effective", f"the group has let {member.job.name} in")
        context.saw(f"the group had let it in {context.since_begin_s():.2f} s later")
    return FaultEvidence(kind="consumer-joins", took_effect=True, evidence=tuple(context.facts))


def leave(context: FaultContext, parameters: MemberLeavesParameters) -> FaultEvidence:
    """Let the member that reads the observed partition leave its group, and start it again later; it bit when its process had ended by itself."""
    context.until(parameters.at_s)
    member = context.clients.holder_of(OBSERVED_PARTITION) if context.clients else None
    if member is None:
        raise FaultMissed(f"no member of a group had been given partition {OBSERVED_PARTITION}")
    if not member.lives():
        raise FaultMissed(f"{member.job.name} had ended already")
    with context.striking() as healing:
        healing.callback(member.start_again)
        context.note("fault_stop", f"told to leave, {member.job.name}")
        member.leave()
        context.note(
            "fault_effective",
            f"{member.job.name}, process {member.pid}, has left its group and ended",
        )
        context.saw(
            f"{member.job.name} (process {member.pid}) left its group {context.since_load_began_s():.2f} s into the load and ended by itself"
        )
        context.lasting(parameters.restart_after_s)
    context.note("client_restart", f"{member.job.name}, process {member.pid}, started")
    return FaultEvidence(kind="consumer-leaves", took_effect=True, evidence=tuple(context.facts))


def shared_out_anew(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add how many partitions were given to which members since."""
    given: dict[str, list[int]] = {}
    for event in aftermath.since(ASSIGNED):
        if event.partition is not None:
            given.setdefault(event.detail, []).append(event.partition)
    told = "; ".join(
        f"{member}: {', '.join(map(str, sorted(set(partitions))))}"
        for member, partitions in sorted(given.items())
    )
    said = (
        f"partitions were given anew ({told})" if told else "no partition was given to anybody anew"
    )
    return evidence.model_copy(update={"evidence": (*evidence.evidence, said)})


KINDS: Final = (
    FaultKind(
        "consumer-joins",
        FAMILY,
        "one more member joins the consumer group, and stays",
        MemberJoinsParameters,
        join,
        nature_of_member,
        confirm=shared_out_anew,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-leaves",
        FAMILY,
        "a member of the consumer group leaves it by itself, and comes back",
        MemberLeavesParameters,
        leave,
        nature_of_member,
        confirm=handed_on,
        supports_external_cluster=True,
    ),
)
