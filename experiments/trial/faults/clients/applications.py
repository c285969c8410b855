"""A user's program that copies, and crashes or is paused at any point of its work.

ackbench does not know what the program was doing. What it missed or repeated shows in its output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.clients.interruptions import (
    ClientCrashParameters,
    crash_and_restart,
    pause_and_resume,
)
from ackbench.experiments.trial.faults.clients.members import member_effects
from ackbench.experiments.trial.faults.clients.producers import FAMILY
from ackbench.experiments.trial.faults.core import (
    FaultContext,
    FaultKind,
    FaultMissed,
    FaultParameters,
    Seconds,
)
from ackbench.experiments.trial.faults.core.effects import Topology

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.group.application import ApplicationProcess


class _ApplicationParameters(FaultParameters):
    """The target is the first instance of the program."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without a user's program."""
        if topology.application:
            return None
        return "copy.command is not set; allowed: with a program that copies"


class ApplicationCrashParameters(_ApplicationParameters, ClientCrashParameters):
    """The program crashes, and is started again."""


class ApplicationPauseParameters(_ApplicationParameters):
    """The program is paused."""

    pause_s: Seconds = Field(default=10.0, description="how long the program is paused, seconds")

    def heals_at_s(self) -> float:
        """Return when the program is resumed."""
        return self.at_s + self.pause_s


def crash_application(
    context: FaultContext, parameters: ApplicationCrashParameters
) -> FaultEvidence:
    """Crash the first instance and its child processes, and start it again."""
    context.sleep_until(parameters.at_s)
    program = _first_instance(context)
    return crash_and_restart(context, program, parameters.restart_after_s)


def pause_application(
    context: FaultContext, parameters: ApplicationPauseParameters
) -> FaultEvidence:
    """Pause the first instance and its child processes, and resume it."""
    context.sleep_until(parameters.at_s)
    program = _first_instance(context)
    return pause_and_resume(context, program, parameters.pause_s)


def _first_instance(context: FaultContext) -> ApplicationProcess:
    application = context.clients.application() if context.clients else None
    if application is None:
        raise FaultMissed("there was no program that copies")
    program = application.members[0]
    if not program.is_alive():
        raise FaultMissed(f"{program.generation_name} had ended already")
    return program


KINDS: Final = (
    FaultKind(
        "application-crash",
        FAMILY,
        "the user's program that copies crashes (SIGKILL) at any point, and is started again",
        ApplicationCrashParameters,
        crash_application,
        member_effects,
        supports_external_cluster=True,
    ),
    FaultKind(
        "application-pause",
        FAMILY,
        "the user's program that copies is paused (SIGSTOP) at any point",
        ApplicationPauseParameters,
        pause_application,
        member_effects,
        supports_external_cluster=True,
    ),
)
