"""A user's program that copies, and crashes or is paused at any point of its work.

ackbench does not know what the program was doing. What it missed or repeated shows in its output.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.group.application import ApplicationProcess
from ackbench.experiments.trial.faults.clients.members import member_effects
from ackbench.experiments.trial.faults.clients.producers import FAMILY
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    FaultContext,
    FaultKind,
    FaultMissed,
    FaultParameters,
    Seconds,
)
from ackbench.experiments.trial.faults.core.effects import Topology


class _ApplicationParameters(FaultParameters):
    """The target is the first instance of the program."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without a user's program."""
        if topology.application:
            return None
        return "copy.command is not set; allowed: with a program that copies"


class ApplicationCrashParameters(_ApplicationParameters):
    """The program crashes, and is started again."""

    restart_after_s: Seconds = Field(
        default=1.0, description="from the crash to the start of the next process, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the next process is started."""
        return self.at_s + self.restart_after_s


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
    with context.injected() as heals:
        heals.callback(program.restart)
        context.note("fault_kill", f"SIGKILL, {program.generation_name}")
        program.crash()
        context.note(EFFECTIVE, f"{program.generation_name}, process {program.pid}, has ended")
        context.add_evidence(
            f"{program.generation_name} (process {program.pid}) crashed (SIGKILL)"
            f" {context.load_elapsed_s():.2f} s into the load"
        )
        context.sleep_until_lasted(parameters.restart_after_s)
    context.note("client_restart", f"{program.generation_name}, process {program.pid}, started")
    return FaultEvidence(
        kind="application-crash", took_effect=True, evidence=tuple(context.evidence)
    )


def pause_application(
    context: FaultContext, parameters: ApplicationPauseParameters
) -> FaultEvidence:
    """Pause the first instance and its child processes, and resume it."""
    context.sleep_until(parameters.at_s)
    program = _first_instance(context)
    with context.injected() as heals:
        heals.callback(program.resume)
        program.pause()
        context.note(
            EFFECTIVE,
            f"the kernel reports {program.generation_name}, process {program.pid}, as stopped",
        )
        began_s = context.load_elapsed_s()
        context.sleep_until_lasted(parameters.pause_s)
        context.add_evidence(
            f"SIGSTOP paused {program.generation_name} for"
            f" {context.load_elapsed_s() - began_s:.2f} s"
        )
    context.note("client_resume", f"SIGCONT, {program.generation_name}")
    return FaultEvidence(
        kind="application-pause", took_effect=True, evidence=tuple(context.evidence)
    )


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
