"""A member of a consumer group that dies or stands still between processing and committing.

At most once and at least once are the consumer's order of these two steps (https://kafka.apache.org/documentation/#semantics).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from experiments.clients.group.member import MemberProcess, Breakpoint, PendingBatch
from experiments.faults.clients.producers import FAMILY
from experiments.faults.core import (
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultMissed,
    FaultParameters,
)
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from infra.errors import WaitTimeout

Where = Callable[[MemberProcess], Breakpoint]
"""At which of its marks a member is struck."""


class MemberParameters(FaultParameters):
    """Something is done to the member of the consumer group that reads the observed partition."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """Without a group there is nobody to strike."""
        return (
            None
            if shape.consumers
            else "workload.consumers is 0; allowed: a consumer group of 1 member or more"
        )


class MemberKilledParameters(MemberParameters):
    """The member's process ends, and another one joins in its place."""

    restart_after_s: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        description="from the kill to the start of the next process, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the next process is started."""
        return self.at_s + self.restart_after_s


class MemberPausedParameters(MemberParameters):
    """The member's process stands still for longer than its group waits."""

    pause_s: float = Field(
        default=10.0, gt=0, le=3600, description="how long the member stands still, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the member goes on."""
        return self.at_s + self.pause_s

    def impossible_reason(self, shape: Topology) -> str | None:
        """A shorter pause is none to the group."""
        if shape.consumers and self.pause_s * 1000 <= shape.member_removed_after_ms:
            waits = f"a member has left its group after {shape.member_removed_after_ms:g} ms (session.timeout.ms, max.poll.interval.ms)"
            return f"pause_s is {self.pause_s:g} and {waits}; allowed: a longer pause"
        return super().impossible_reason(shape)


def kill_member_before_commit(
    context: FaultContext, parameters: MemberKilledParameters
) -> FaultEvidence:
    """Kill the member when it is about to commit what it has in hand."""
    return kill(
        context,
        parameters,
        lambda _member: Breakpoint.BEFORE_COMMIT,
        "consumer-killed-before-commit",
    )


def kill_member_after_commit(
    context: FaultContext, parameters: MemberKilledParameters
) -> FaultEvidence:
    """Kill the member when it was just told that its commit is done."""
    return kill(
        context, parameters, lambda _member: Breakpoint.AFTER_COMMIT, "consumer-killed-after-commit"
    )


def pause_member(context: FaultContext, parameters: MemberPausedParameters) -> FaultEvidence:
    """Stop the member when it is about to commit what it has in hand, for longer than its group waits, and let it go on."""
    return pause(context, parameters, lambda _member: Breakpoint.BEFORE_COMMIT, "consumer-paused")


def pause(
    context: FaultContext, parameters: MemberPausedParameters, where: Where, kind: str
) -> FaultEvidence:
    """Stop the member at its mark, and let it go on; whether its group had thrown it out is told by `thrown_out`."""
    context.until(parameters.at_s)
    member, held = _held(context, where)
    with context.striking() as healing:
        healing.callback(member.go_on)
        healing.callback(member.resume)
        member.pause()
        context.note(
            "fault_effective", f"the kernel shows {member.job.name}, process {member.pid}, stopped"
        )
        began_s = context.since_load_began_s()
        context.lasting(parameters.pause_s)
        context.saw(
            f"{member.job.name} stood still for {context.since_load_began_s() - began_s:.2f} s {_with(member, held)}"
        )
    context.note("client_resume", f"SIGCONT, {member.job.name}")
    return FaultEvidence(kind=kind, took_effect=True, evidence=tuple(context.facts))


def thrown_out(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add what the member itself told when it went on: that its partitions were lost, or its commit refused; else it was not thrown out."""
    told = [
        event
        for event in aftermath.since("revoked", "commit_refused")
        if event.kind == "commit_refused" or event.detail.endswith(": lost")
    ]
    if not told:
        said = (
            *evidence.evidence,
            "the member was never told that its partitions were lost, nor was a commit of it refused",
        )
        return evidence.model_copy(update={"took_effect": False, "evidence": said})
    about = f"partition {told[0].partition}: {told[0].kind.replace('_', ' ')}, {told[0].detail}"
    return evidence.model_copy(
        update={
            "evidence": (
                *evidence.evidence,
                *_handed_on(aftermath),
                f"the group had thrown it out ({about})",
            )
        }
    )


def handed_on(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add when the observed partition was given to a member again."""
    return evidence.model_copy(update={"evidence": (*evidence.evidence, *_handed_on(aftermath))})


def kill(
    context: FaultContext, parameters: MemberKilledParameters, where: Where, kind: str
) -> FaultEvidence:
    """Kill the member at its mark, and let another process join in its place; it bit when the member's process was gone at its mark, with records in hand."""
    context.until(parameters.at_s)
    member, held = _held(context, where)
    with context.striking() as healing:
        healing.callback(member.start_again)
        context.note("fault_kill", f"SIGKILL, {member.job.name}")
        member.kill()
        context.note("fault_effective", f"{member.job.name}, process {member.pid}, is gone")
        context.saw(
            f"{member.job.name} (process {member.pid}) was killed {context.since_load_began_s():.2f} s into the load {_with(member, held)} and was gone"
        )
        context.lasting(parameters.restart_after_s)
    context.note("client_restart", f"{member.job.name}, process {member.pid}, started")
    return FaultEvidence(kind=kind, took_effect=True, evidence=tuple(context.facts))


def _held(context: FaultContext, where: Where) -> tuple[MemberProcess, PendingBatch]:
    """Return the member that reads the observed partition, and what it has in hand at its mark.

    Raises:
        Missed: no member reads it, or that one came to no commit.
    """
    member = context.clients.holder_of(OBSERVED_PARTITION) if context.clients else None
    if member is None:
        raise FaultMissed(f"no member of a group had been given partition {OBSERVED_PARTITION}")
    if not member.lives():
        raise FaultMissed(f"{member.job.name} had ended already")
    try:
        return member, member.hold_at(where(member))
    except WaitTimeout as late:
        raise FaultMissed(f"{member.job.name} came to no commit: {late}") from late


def _with(member: MemberProcess, held: PendingBatch) -> str:
    """Say what a member had in hand, and what it had done with it."""
    processed = "processed" if member.job.output is None else "copied"
    done = {
        (Breakpoint.BEFORE_COMMIT, True): f"{processed} and not committed",
        (Breakpoint.BEFORE_COMMIT, False): f"neither committed nor {processed}",
        (Breakpoint.AFTER_COMMIT, True): f"{processed} and committed",
        (Breakpoint.AFTER_COMMIT, False): f"committed and not {processed}",
    }
    return f"with {held.records} records in hand, {done[held.mark, held.processed]}"


def _handed_on(aftermath: TrialObservations) -> tuple[str, ...]:
    given = [
        event for event in aftermath.since("assigned") if event.partition == OBSERVED_PARTITION
    ]
    if not given or aftermath.began_ns is None:
        return ()
    after_s = (given[0].at_ns - aftermath.began_ns) / 1e9
    return (f"partition {OBSERVED_PARTITION} was given to {given[0].detail} at +{after_s:.3f} s",)


def nature_of_member(kind: str, parameters: FaultParameters, _shape: Topology) -> FaultEffects:
    """Return what is known of a member that ends, stands still, joins or leaves: the brokers are well."""
    lasts_ms = (parameters.heals_at_s() - parameters.at_s) * 1000
    return FaultEffects(
        kind=kind, interrupts_member=True, heals_after_ms=lasts_ms, heals_within_ms=lasts_ms
    )


_OF_MEMBERS: Final = (
    FaultKind(
        "consumer-killed-before-commit",
        FAMILY,
        "a member of the consumer group dies when it is about to commit what it has in hand",
        MemberKilledParameters,
        kill_member_before_commit,
        nature_of_member,
        confirm=handed_on,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-killed-after-commit",
        FAMILY,
        "a member of the consumer group dies when it has just committed what it has in hand",
        MemberKilledParameters,
        kill_member_after_commit,
        nature_of_member,
        confirm=handed_on,
        supports_external_cluster=True,
    ),
    FaultKind(
        "consumer-paused",
        FAMILY,
        "a member of the consumer group stands still for longer than its group waits, and goes on with what it has in hand",
        MemberPausedParameters,
        pause_member,
        nature_of_member,
        confirm=thrown_out,
        supports_external_cluster=True,
    ),
)


# ---------- A copier that dies or stands still between its two steps, producing and committing, whichever comes first.
#
# What that misses or repeats is what delivery at most once, at least once and exactly once are about (KIP-98, KIP-447).


_NO_COPIERS: Final = "workload.kind is produce; allowed: copy, with a copier or more"


class CopierKilledParameters(MemberKilledParameters):
    """A copier's process ends, and another one joins in its place, under the same transactional.id where it has one."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """Without copiers there is nobody to strike."""
        return super().impossible_reason(shape) if shape.copy_workload else _NO_COPIERS


class CopierPausedParameters(MemberPausedParameters):
    """A copier's process stands still for longer than its group waits."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """Without copiers there is nobody to strike, and a shorter pause is none to the group."""
        return super().impossible_reason(shape) if shape.copy_workload else _NO_COPIERS


def kill_copier(context: FaultContext, parameters: CopierKilledParameters) -> FaultEvidence:
    """Kill the copier of the observed partition between its two steps."""
    return kill(context, parameters, _between, "copier-killed")


def pause_copier(context: FaultContext, parameters: CopierPausedParameters) -> FaultEvidence:
    """Stop the copier of the observed partition between its two steps, and let it go on when others have its partitions: it is a zombie then."""
    return pause(context, parameters, _between, "copier-paused")


def _between(member: MemberProcess) -> Breakpoint:
    """Return the mark behind its first step; in a transaction both are one, and that is not committed yet."""
    return Breakpoint.AFTER_COMMIT if member.job.commit == "before" else Breakpoint.BEFORE_COMMIT


_OF_COPIERS: Final = (
    FaultKind(
        "copier-killed",
        FAMILY,
        "a copier dies between producing and committing what it has in hand",
        CopierKilledParameters,
        kill_copier,
        nature_of_member,
        confirm=handed_on,
        supports_external_cluster=True,
    ),
    FaultKind(
        "copier-paused",
        FAMILY,
        "a copier stands still between producing and committing for longer than its group waits, and goes on with what it has in hand",
        CopierPausedParameters,
        pause_copier,
        nature_of_member,
        confirm=thrown_out,
        supports_external_cluster=True,
    ),
)

KINDS: Final = (*_OF_MEMBERS, *_OF_COPIERS)
