"""Members of a consumer group that join, leave and are replaced cleanly; the group rebalances."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.group.messages import ASSIGNED
from ackbench.experiments.trial.faults.clients.members import (
    MemberParameters,
    add_reassignment,
    member_effects,
    owner_of_observed_partition,
)
from ackbench.experiments.trial.faults.clients.producers import FAMILY
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    FaultContext,
    FaultKind,
    FaultMissed,
    Seconds,
)
from ackbench.experiments.trial.faults.core.kind import TrialObservations, extend_evidence
from ackbench.infra.errors import WaitTimeout

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.group.groups import ConsumerGroup
    from ackbench.experiments.trial.clients.group.members import Member

_JOIN_TIMEOUT_S: Final = 30.0
"""Time for a member to join: a rebalance waits for all members."""


class MemberJoinsParameters(MemberParameters):
    """One more member joins the group, and stays."""


class MemberLeavesParameters(MemberParameters):
    """A member leaves the group cleanly, and comes back."""

    restart_after_s: Seconds = Field(
        default=2.0, description="from the leave to the start of the next process, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the next process is started."""
        return self.at_s + self.restart_after_s


class DeploymentParameters(MemberParameters):
    """The members leave the group cleanly and come back, one after another."""

    restart_after_s: Seconds = Field(
        default=1.0, description="from a member's leave to the start of its next process, seconds"
    )
    within_s: Seconds = Field(
        default=15.0, description="how long all members may take until they are back, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the last member is back at the latest."""
        return self.at_s + self.within_s


def join_group(context: FaultContext, parameters: MemberJoinsParameters) -> FaultEvidence:
    """Start one more member. It took effect once the member has joined."""
    context.sleep_until(parameters.at_s)
    group = _group_of(context)
    with context.injected():
        member = group.add_member()
        context.add_evidence(
            f"{member.job.name} (process {member.pid}) started"
            f" {context.load_elapsed_s():.2f} s into the load, to join"
            f" {len(group.members) - 1} others"
        )
        try:
            member.wait_in_group(context.at_least_while_loaded(_JOIN_TIMEOUT_S))
        except WaitTimeout as late:
            raise FaultMissed(f"{member.job.name} could not join the group: {late}") from late
        context.note(EFFECTIVE, f"{member.job.name} has joined the group")
        context.add_evidence(f"{member.job.name} had joined {context.elapsed_s():.2f} s later")
    return context.fault_evidence(took_effect=True)


def leave_group(context: FaultContext, parameters: MemberLeavesParameters) -> FaultEvidence:
    """Let the member that owns the observed partition leave its group; start it again later."""
    context.sleep_until(parameters.at_s)
    member = owner_of_observed_partition(context)
    with context.injected():
        _replace(context, member, parameters.restart_after_s)
    return context.fault_evidence(took_effect=True)


def deploy_group(context: FaultContext, parameters: DeploymentParameters) -> FaultEvidence:
    """Let each member leave, start it again, and wait until it is back before the next one leaves.

    It took effect if all members were back in time.
    """
    context.sleep_until(parameters.at_s)
    group = _group_of(context)
    with context.injected():
        for member in group.members:
            _replace(context, member, parameters.restart_after_s)
            left_s = parameters.within_s - context.elapsed_s()
            try:
                member.wait_in_group(context.at_least_while_loaded(max(left_s, 0)))
            except WaitTimeout as late:
                raise FaultMissed(f"{member.job.name} was not back in time: {late}") from late
            context.add_evidence(
                f"{member.job.name} was back {context.load_elapsed_s():.2f} s into the load"
            )
    return context.fault_evidence(took_effect=True)


def _replace(context: FaultContext, member: Member, restart_after_s: float) -> None:
    """Let a member leave its group, and start its next process in any case."""
    with ExitStack() as heals:
        heals.callback(member.restart)
        context.note("fault_stop", f"requested to leave, {member.job.name}")
        member.leave()
        context.note(
            EFFECTIVE, f"{member.job.name}, process {member.pid}, has left its group and ended"
        )
        context.add_evidence(
            f"{member.job.name} (process {member.pid}) left its group"
            f" {context.load_elapsed_s():.2f} s into the load and ended"
        )
        context.sleep_until_lasted(context.elapsed_s() + restart_after_s)
    context.note("client_restart", f"{member.job.name}, process {member.pid}, started")


def _group_of(context: FaultContext) -> ConsumerGroup:
    group = context.clients.first_group() if context.clients else None
    if group is None:
        raise FaultMissed("there was no consumer group")
    return group


def add_assignments(evidence: FaultEvidence, observations: TrialObservations) -> FaultEvidence:
    """Return the evidence with the partitions that each member was assigned since."""
    assigned: dict[str, set[int]] = {}
    for event in observations.since(ASSIGNED):
        if event.partition is not None:
            assigned.setdefault(event.detail, set()).add(event.partition)
    if not assigned:
        return extend_evidence(evidence, "no partition was assigned again")
    members = "; ".join(
        f"{member}: {', '.join(map(str, sorted(partitions)))}"
        for member, partitions in sorted(assigned.items())
    )
    return extend_evidence(evidence, f"partitions were assigned again ({members})")


KINDS: Final = (
    FaultKind(
        "consumer-joins",
        FAMILY,
        "one more member joins the consumer group, and stays",
        MemberJoinsParameters,
        join_group,
        member_effects,
        confirm=add_assignments,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-leaves",
        FAMILY,
        "a member leaves the consumer group cleanly, and comes back",
        MemberLeavesParameters,
        leave_group,
        member_effects,
        confirm=add_reassignment,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-deployment",
        FAMILY,
        "the members of the consumer group leave it cleanly and come back, one after another",
        DeploymentParameters,
        deploy_group,
        member_effects,
        confirm=add_assignments,
        supports_external_cluster=True,
    ),
)
