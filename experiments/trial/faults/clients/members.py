"""Members of a consumer group that crash or are paused between processing and committing.

Which of the two steps comes first decides between at-most-once and at-least-once delivery
(https://kafka.apache.org/documentation/#semantics). A copier (consume-process-produce) processes a
record by producing it to another topic; what it misses or repeats is the subject of KIP-98 and
KIP-447.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.group.messages import Breakpoint, PendingBatch
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.faults.clients.interruptions import (
    ClientCrashParameters,
    crash_and_restart,
    pause_and_resume,
)
from ackbench.experiments.trial.faults.clients.producers import FAMILY
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultMissed,
    FaultParameters,
    Seconds,
    SecondsOrNone,
)
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology, no_group_reason
from ackbench.experiments.trial.faults.core.kind import TrialObservations, extend_evidence
from ackbench.infra.errors import WaitTimeout

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.group.members import Member

    BreakpointChoice = Callable[[Member], Breakpoint]
    """Returns the breakpoint at which the fault is injected into a member."""

_NO_COPIERS: Final = "copy.copiers is 0; allowed: 1 copier or more"


# Parameters


class MemberParameters(FaultParameters):
    """The target is the member of the consumer group that owns the observed partition."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without a consumer group, and a user's program in its place."""
        if topology.application:
            return (
                "copy.command is a program, which no fault can hold before a commit; allowed: "
                "application-crash or application-pause"
            )
        return no_group_reason(topology)


def _not_held_reason(topology: Topology) -> str | None:
    """Return why no fault can hold a member at a step of its work; `None`: one can."""
    if topology.holds_members:
        return None
    return (
        f"client is {topology.client}, a program that no fault can hold at a step of its work; "
        "allowed: consumer-crash or consumer-pause"
    )


class MemberCrashParameters(MemberParameters, ClientCrashParameters):
    """The member crashes, and another process joins in its place."""


class CommittingMemberCrashParameters(MemberCrashParameters):
    """The member crashes at a commit of its own, and another process joins in its place."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse programs, and clients that commit by themselves: the member does not know when."""
        if topology.commits == "auto":
            return "group.commit is auto; allowed: consumer-crash, or another group.commit"
        return _not_held_reason(topology) or super().impossible_reason(topology)


class ProcessingMemberCrashParameters(MemberCrashParameters):
    """The member crashes in the middle of a batch, and another process joins in its place."""

    processing_s: SecondsOrNone = Field(
        default=0.0, description="how long the member has worked on the batch, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the next process is started."""
        return super().heals_at_s() + self.processing_s

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse copiers, which process a batch as a whole, and to hold a program."""
        if topology.copy_workload:
            return "the members copy; allowed: copier-crash"
        if self.processing_s and _not_held_reason(topology):
            return f"processing_s is {self.processing_s:g} and {_not_held_reason(topology)}, or 0"
        return super().impossible_reason(topology)


class MemberPauseParameters(MemberParameters):
    """The member is paused until the group has removed it."""

    pause_s: Seconds = Field(default=10.0, description="how long the member is paused, seconds")

    def heals_at_s(self) -> float:
        """Return when the member is resumed."""
        return self.at_s + self.pause_s

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse a pause that the group does not notice."""
        if topology.consumers and self.pause_s * 1000 <= topology.member_removed_after_ms:
            return (
                f"pause_s is {self.pause_s:g} and a member has left its group after"
                f" {topology.member_removed_after_ms:g} ms (session.timeout.ms,"
                " max.poll.interval.ms); allowed: a longer pause"
            )
        return super().impossible_reason(topology)


class MemberStallParameters(MemberParameters):
    """The member works on a batch; it polls meanwhile if its load has it so. Its client goes on."""

    stall_s: Seconds = Field(
        default=10.0, description="how long the member works on the batch, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the member goes on."""
        return self.at_s + self.stall_s

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse programs: no fault can keep one from polling, and its client running."""
        return _not_held_reason(topology) or super().impossible_reason(topology)


class CopierCrashParameters(MemberCrashParameters):
    """A copier crashes, and another process joins in its place.

    It has the same transactional.id, if there is one.
    """

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without copiers."""
        return super().impossible_reason(topology) if topology.copy_workload else _NO_COPIERS


class CopierPauseParameters(MemberPauseParameters):
    """A copier is paused until the group has removed it."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without copiers, and a pause that the group does not notice."""
        return super().impossible_reason(topology) if topology.copy_workload else _NO_COPIERS


# The faults


def crash_member_before_commit(
    context: FaultContext, parameters: MemberCrashParameters
) -> FaultEvidence:
    """Crash the member just before it commits its batch."""
    return _crash(context, parameters, lambda _: Breakpoint.BEFORE_COMMIT)


def crash_member_after_commit(
    context: FaultContext, parameters: MemberCrashParameters
) -> FaultEvidence:
    """Crash the member just after the commit of its batch was acknowledged."""
    return _crash(context, parameters, lambda _: Breakpoint.AFTER_COMMIT)


def crash_processing_member(
    context: FaultContext, parameters: ProcessingMemberCrashParameters
) -> FaultEvidence:
    """Crash the member in the middle of its batch, once it has worked on it for a while."""
    context.sleep_until(parameters.at_s)
    member, batch = _hold_owner(context, lambda _: Breakpoint.IN_BATCH)
    began_s = context.load_elapsed_s()
    context.sleep_until(parameters.at_s + parameters.processing_s)
    state = _describe(member, batch)
    if batch is not None:
        worked_s = context.load_elapsed_s() - began_s
        state += f"; it had worked on the batch for {worked_s:.2f} s"
    return crash_and_restart(context, member, parameters.restart_after_s, state)


def pause_member(context: FaultContext, parameters: MemberPauseParameters) -> FaultEvidence:
    """Pause the member with a batch that is not committed, until the group has removed it."""
    return _pause(context, parameters, _with_uncommitted)


def stall_member(context: FaultContext, parameters: MemberStallParameters) -> FaultEvidence:
    """Let the member work on its batch for so long, with its client's threads running."""
    context.sleep_until(parameters.at_s)
    member, batch = _hold_owner(context, _with_uncommitted)
    polls = member.job.load.pause_while_processing
    with context.injected() as heals:
        heals.callback(member.release)
        doing = "polls with its partitions paused" if polls else "does not poll"
        context.note(EFFECTIVE, f"{member.generation_name} works on a batch, and {doing}")
        context.sleep_until_lasted(parameters.stall_s)
        done = "polled with its partitions paused" if polls else "did not poll"
        context.add_evidence(
            f"{member.generation_name} {done} for {context.elapsed_s():.2f} s "
            f"{_describe(member, batch)}"
        )
    return context.fault_evidence(took_effect=True)


def _with_uncommitted(member: Member) -> Breakpoint:
    """Return the breakpoint before a commit, or where a client that commits by itself may."""
    return Breakpoint.IN_BATCH if member.job.commit == "auto" else Breakpoint.BEFORE_COMMIT


def crash_copier(context: FaultContext, parameters: CopierCrashParameters) -> FaultEvidence:
    """Crash the copier of the observed partition between producing and committing."""
    return _crash(context, parameters, _between_steps)


def pause_copier(context: FaultContext, parameters: CopierPauseParameters) -> FaultEvidence:
    """Pause the copier of the observed partition between producing and committing.

    When it is resumed, other copiers own its partitions: it is a zombie.
    """
    return _pause(context, parameters, _between_steps)


def _between_steps(member: Member) -> Breakpoint:
    """Return the breakpoint after the copier's first step.

    In a transaction both steps are one, and it is not committed yet.
    """
    return Breakpoint.AFTER_COMMIT if member.job.commit == "before" else Breakpoint.BEFORE_COMMIT


# Injection


def _crash(
    context: FaultContext, parameters: MemberCrashParameters, choose_breakpoint: BreakpointChoice
) -> FaultEvidence:
    """Crash the member at its breakpoint, and start another process in its place."""
    context.sleep_until(parameters.at_s)
    member, batch = _hold_owner(context, choose_breakpoint)
    return crash_and_restart(context, member, parameters.restart_after_s, _describe(member, batch))


def _pause(
    context: FaultContext, parameters: MemberPauseParameters, choose_breakpoint: BreakpointChoice
) -> FaultEvidence:
    """Pause the member at its breakpoint, and resume it.

    Whether the group had removed it is known after the trial; see `require_removal`.
    """
    context.sleep_until(parameters.at_s)
    member, batch = _hold_owner(context, choose_breakpoint)
    state = _describe(member, batch)
    return pause_and_resume(context, member, parameters.pause_s, state, member.release)


def owner_of_observed_partition(context: FaultContext) -> Member:
    """Return the running member that owns the observed partition.

    Raises:
        FaultMissed: no member owns it, or that member has ended.
    """
    member = context.clients.owner_of(OBSERVED_PARTITION) if context.clients else None
    if member is None:
        raise FaultMissed(f"no member of the group owned partition {OBSERVED_PARTITION}")
    if not member.is_alive():
        raise FaultMissed(f"{member.job.name} had ended already")
    return member


def _hold_owner(
    context: FaultContext, choose_breakpoint: BreakpointChoice
) -> tuple[Member, PendingBatch | None]:
    """Return the owner of the observed partition, held at its breakpoint, and its batch.

    A program is not held, and has no batch: it is wherever it is.
    """
    member = owner_of_observed_partition(context)
    try:
        return member, member.hold_at(choose_breakpoint(member))
    except WaitTimeout as late:
        raise FaultMissed(f"{member.job.name} did not come to a commit: {late}") from late


def _describe(member: Member, batch: PendingBatch | None) -> str:
    """Return what a member had not committed, or at its breakpoint, for the evidence."""
    if batch is None:
        records = member.uncommitted_records()
        if records is None:
            return "wherever it was; its client commits by itself"
        return f"wherever it was, with {records} records processed since its last commit"
    processed = "processed" if member.job.output is None else "copied"
    if batch.breakpoint is Breakpoint.IN_BATCH:
        state = f"{batch.processed_records} of them {processed}"
    elif not batch.commit_answered and batch.breakpoint is Breakpoint.AFTER_COMMIT:
        state = f"{processed if batch.processed_records else f'not {processed}'}, and their commit"
        state += " requested, with an answer that the member does not await"
    else:
        state = {
            (Breakpoint.BEFORE_COMMIT, True): f"{processed} and not committed",
            (Breakpoint.BEFORE_COMMIT, False): f"neither committed nor {processed}",
            (Breakpoint.AFTER_COMMIT, True): f"{processed} and committed",
            (Breakpoint.AFTER_COMMIT, False): f"committed and not {processed}",
        }[batch.breakpoint, batch.processed_records > 0]
    return f"with a batch of {batch.records} records, {state}"


# Confirmation from the members' own logs, after the trial


def add_reassignment(evidence: FaultEvidence, observations: TrialObservations) -> FaultEvidence:
    """Return the evidence with the time at which the observed partition was assigned again."""
    return extend_evidence(evidence, *_reassignment(observations))


def require_removal(evidence: FaultEvidence, observations: TrialObservations) -> FaultEvidence:
    """Return the evidence of a pause; it had no effect if the group did not remove the member.

    When a removed member is resumed, it logs that its partitions are lost, or its commit is
    refused. Of a program that does neither, another member got its partition meanwhile.
    """
    removals = [
        event
        for event in observations.since("revoked", "commit_refused")
        if event.kind == "commit_refused" or event.detail.endswith(": lost")
    ] or _taken_over(observations)
    if not removals:
        return extend_evidence(
            evidence,
            "the member lost no partition and no commit of it was refused",
            took_effect=False,
        )
    first = removals[0]
    return extend_evidence(
        evidence,
        *_reassignment(observations),
        f"the group had removed the member (partition {first.partition}:"
        f" {first.kind.replace('_', ' ')}, {first.detail})",
    )


def _taken_over(observations: TrialObservations) -> list[Event]:
    """Return the assignments of the observed partition to another member during a pause."""
    owners = [
        event.detail
        for event in observations.before("assigned")
        if event.partition == OBSERVED_PARTITION
    ]
    resumed = observations.since("client_resume")
    return [
        event
        for event in observations.since("assigned")
        if event.partition == OBSERVED_PARTITION
        and event.detail not in owners[-1:]
        and (not resumed or event.at_ns < resumed[0].at_ns)
    ]


def _reassignment(observations: TrialObservations) -> tuple[str, ...]:
    for event in observations.since("assigned"):
        if event.partition == OBSERVED_PARTITION and observations.began_ns is not None:
            after_s = (event.at_ns - observations.began_ns) / 1e9
            owner = f"assigned to {event.detail} at +{after_s:.3f} s"
            return (f"partition {OBSERVED_PARTITION} was {owner}",)
    return ()


def member_effects(parameters: FaultParameters, _topology: Topology) -> FaultEffects:
    """Return the effects of a member that ends, is paused, joins or leaves.

    The brokers are not affected.
    """
    lasts_ms = (parameters.heals_at_s() - parameters.at_s) * 1000
    return FaultEffects(interrupts_member=True, heals_after_ms=lasts_ms, heals_within_ms=lasts_ms)


KINDS: Final = (
    FaultKind(
        "consumer-crash",
        FAMILY,
        "a member of the consumer group crashes (SIGKILL) in the middle of a batch, half of which"
        " it has processed; a client's program, wherever it is",
        ProcessingMemberCrashParameters,
        crash_processing_member,
        member_effects,
        confirm=add_reassignment,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-crash-before-commit",
        FAMILY,
        "a member of the consumer group crashes (SIGKILL) just before it commits its batch",
        CommittingMemberCrashParameters,
        crash_member_before_commit,
        member_effects,
        confirm=add_reassignment,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-crash-after-commit",
        FAMILY,
        "a member of the consumer group crashes (SIGKILL) just after it has committed its batch",
        CommittingMemberCrashParameters,
        crash_member_after_commit,
        member_effects,
        confirm=add_reassignment,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-pause",
        FAMILY,
        "a member of the consumer group is paused (SIGSTOP) with records that are not committed"
        " (a client's program, wherever it is) until the group has removed it, and goes on",
        MemberPauseParameters,
        pause_member,
        member_effects,
        confirm=require_removal,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-stall",
        FAMILY,
        "a member of the consumer group works on records that are not committed, and does not poll"
        " for a while, or polls with its partitions paused (group.pause_while_processing): longer"
        " than max.poll.interval.ms, or not",
        MemberStallParameters,
        stall_member,
        member_effects,
        confirm=add_reassignment,
        supports_external_cluster=True,
    ),
    FaultKind(
        "copier-crash",
        FAMILY,
        "a copier crashes (SIGKILL) between producing and committing its batch; one of Java,"
        " wherever it is",
        CopierCrashParameters,
        crash_copier,
        member_effects,
        confirm=add_reassignment,
        supports_external_cluster=True,
    ),
    FaultKind(
        "copier-pause",
        FAMILY,
        "a copier is paused (SIGSTOP) between producing and committing (one of Java, wherever it"
        " is) until the group has removed it, and goes on with its batch",
        CopierPauseParameters,
        pause_copier,
        member_effects,
        confirm=require_removal,
        supports_external_cluster=True,
    ),
)
