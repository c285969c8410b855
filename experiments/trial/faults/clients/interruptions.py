"""The crash and the pause of a client's process, with what is noted of it and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import EFFECTIVE, FaultContext, FaultParameters, Seconds


class ClientCrashParameters(FaultParameters):
    """A client's process crashes, and another one starts in its place."""

    restart_after_s: Seconds = Field(
        default=1.0, description="from the crash to the start of the next process, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the next process is started."""
        return self.at_s + self.restart_after_s


class InterruptedProcess(Protocol):
    """A process that a fault can crash, restart and pause."""

    @property
    def generation_name(self) -> str:
        """The client and its generation: `member 1.0`."""

    @property
    def pid(self) -> int:
        """The process of this generation."""

    def crash(self) -> None:
        """Kill the process, which runs, as a fault."""

    def restart(self) -> None:
        """Start the next generation."""

    def pause(self) -> None:
        """Pause the process; return once the kernel reports it as stopped."""

    def resume(self) -> None:
        """Let a paused process go on."""


def crash_and_restart(
    context: FaultContext, process: InterruptedProcess, restart_after_s: float, state: str = ""
) -> FaultEvidence:
    """Crash a process, and start the next generation in its place.

    Args:
        context: of the fault.
        process: the client's.
        restart_after_s: from the crash to the start of the next generation.
        state: what the client was doing, as the end of a sentence; empty: unknown.
    """
    with context.injected() as heals:
        heals.callback(process.restart)
        context.note("fault_kill", f"SIGKILL, {process.generation_name}")
        process.crash()
        context.note(EFFECTIVE, f"{process.generation_name}, process {process.pid}, has ended")
        context.add_evidence(
            f"{process.generation_name} (process {process.pid}) crashed (SIGKILL)"
            f" {context.load_elapsed_s():.2f} s into the load{state and f' {state}'}"
        )
        context.sleep_until_lasted(restart_after_s)
    context.note("client_restart", f"{process.generation_name}, process {process.pid}, started")
    return context.fault_evidence(took_effect=True)


def pause_and_resume(
    context: FaultContext,
    process: InterruptedProcess,
    pause_s: float,
    state: str = "",
    after: Callable[[], object] | None = None,
) -> FaultEvidence:
    """Pause a process, and let it go on.

    Args:
        context: of the fault.
        process: the client's.
        pause_s: how long.
        state: as of `crash_and_restart`.
        after: a further step of the heal, once the process goes on.
    """
    with context.injected() as heals:
        if after:
            heals.callback(after)
        heals.callback(process.resume)
        process.pause()
        context.note(
            EFFECTIVE,
            f"the kernel reports {process.generation_name}, process {process.pid}, as stopped",
        )
        began_s = context.load_elapsed_s()
        context.sleep_until_lasted(pause_s)
        context.add_evidence(
            f"SIGSTOP paused {process.generation_name} for"
            f" {context.load_elapsed_s() - began_s:.2f} s{state and f' {state}'}"
        )
    context.note("client_resume", f"SIGCONT, {process.generation_name}")
    return context.fault_evidence(took_effect=True)
