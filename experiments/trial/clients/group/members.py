"""What a group and the faults ask of a member, whichever client it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from ackbench.experiments.trial.clients.group.jobs import MemberJob
from ackbench.experiments.trial.clients.group.messages import Breakpoint, PendingBatch
from ackbench.experiments.trial.events.journal import Event


class Member(Protocol):
    """A member through all its generations; a generation is a process."""

    @property
    def name(self) -> str:
        """The member: `member 1`."""

    @property
    def job(self) -> MemberJob:
        """The job of the current or last generation."""

    @property
    def generation_name(self) -> str:
        """The member and its generation: `member 1.0`."""

    @property
    def pid(self) -> int:
        """The process of this generation."""

    def is_held(self) -> bool:
        """Return whether a fault keeps the process stopped now."""

    def is_alive(self) -> bool:
        """Return whether the process runs."""

    def require_alive(self) -> None:
        """Raise a `HarnessError` if the process has exited."""

    def unexpected_exit(self) -> str | None:
        """Return how the process has exited before it was done; `None`: it has not."""

    def start_client(self) -> None:
        """Let a program that awaits its settings start its client, which joins the group.

        Raises:
            HarnessError: the process has exited.
        """

    def wait_in_group(self, timeout_s: float) -> None:
        """Wait until the group has accepted the member.

        Raises:
            HarnessError: the process exited before.
            WaitTimeout: the group did not accept it in time.
        """

    def unthrottle(self) -> None:
        """Let a slow member process as fast as it can from now on."""

    def finish(self) -> None:
        """Have the member leave its group and exit, with nothing pending."""

    def leave(self) -> None:
        """Have the member leave its group and exit; `restart` brings it back."""

    def crash(self) -> None:
        """Kill the process, which runs, as a fault, and note the crash."""

    def restart(self) -> None:
        """Start the next generation, which knows nothing of the one before."""

    def pause(self) -> None:
        """Pause the process; return once the kernel reports it as stopped."""

    def resume(self) -> None:
        """Let a paused process go on."""

    def hold_at(self, point: Breakpoint) -> PendingBatch | None:
        """Hold the member at a breakpoint, with records pending.

        `None`: no fault can hold a member of this kind of client, which goes on.

        Raises:
            WaitTimeout: it did not reach the breakpoint in time.
            HarnessError: the process has exited.
        """

    def release(self) -> None:
        """Let the member go on from its breakpoint."""

    def uncommitted_records(self) -> int | None:
        """Return how many records it has processed since the last commit that it reported.

        `None`: it does not report its commits.
        """

    def own_events(self) -> Iterator[Event]:
        """Yield the events that the member itself reported, in all generations."""

    def events(self) -> Iterator[Event]:
        """Yield all events: crashes, the member's own, and those in the clients' logs."""

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the records that all generations processed; schema `READS`.

        Args:
            attempts: of all producers, for what a record does not carry itself.
        """

    def effective_settings(self) -> dict[str, str]:
        """Return the settings in effect, at least those that were passed."""

    def delete_files(self) -> None:
        """Delete the files whose content is in the ledger's tables by now."""


class MemberStarter(Protocol):
    """Starts the members of one kind of client; each ends with its context."""

    def __call__(self, job: MemberJob) -> AbstractContextManager[Member]:
        """Start a member."""
