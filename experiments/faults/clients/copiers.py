"""A copier that dies or stands still between its two steps, producing and committing, whichever comes first.

What that misses or repeats is what delivery at most once, at least once and exactly once are about (KIP-98, KIP-447).
"""

from __future__ import annotations

from typing import Final

from experiments.clients.member import Mark, MemberProcess
from experiments.faults.base import FaultKind, Scene
from experiments.faults.base.nature import Shape
from experiments.faults.clients.members import MemberKilledParameters, MemberPausedParameters, handed_on, kill, nature_of_member, pause, thrown_out
from experiments.faults.clients.producers import FAMILY
from experiments.ledger.record import FaultEvidence

_NO_COPIERS: Final = "workload.kind is produce; allowed: copy, with a copier or more"


class CopierKilledParameters(MemberKilledParameters):
    """A copier's process ends, and another one joins in its place, under the same transactional.id where it has one."""

    def impossible(self, shape: Shape) -> str | None:
        """Without copiers there is nobody to strike."""
        return super().impossible(shape) if shape.copies else _NO_COPIERS


class CopierPausedParameters(MemberPausedParameters):
    """A copier's process stands still for longer than its group waits."""

    def impossible(self, shape: Shape) -> str | None:
        """Without copiers there is nobody to strike, and a shorter pause is none to the group."""
        return super().impossible(shape) if shape.copies else _NO_COPIERS


def kill_copier(scene: Scene, parameters: CopierKilledParameters) -> FaultEvidence:
    """Kill the copier of the observed partition between its two steps."""
    return kill(scene, parameters, _between, "copier-killed")


def pause_copier(scene: Scene, parameters: CopierPausedParameters) -> FaultEvidence:
    """Stop the copier of the observed partition between its two steps, and let it go on when others have its partitions: it is a zombie then."""
    return pause(scene, parameters, _between, "copier-paused")


def _between(member: MemberProcess) -> Mark:
    """Return the mark behind its first step; in a transaction both are one, and that is not committed yet."""
    return Mark.AFTER_COMMIT if member.job.commit == "before" else Mark.BEFORE_COMMIT


KINDS: Final = (
    FaultKind(
        "copier-killed",
        FAMILY,
        "a copier dies between producing and committing what it has in hand",
        CopierKilledParameters,
        kill_copier,
        nature_of_member,
        confirmed=handed_on,
        outside=True,
    ),
    FaultKind(
        "copier-paused",
        FAMILY,
        "a copier stands still between producing and committing for longer than its group waits, and goes on with what it has in hand",
        CopierPausedParameters,
        pause_copier,
        nature_of_member,
        confirmed=thrown_out,
        outside=True,
    ),
)
