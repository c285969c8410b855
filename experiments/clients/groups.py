"""The consumer groups of a trial: each is shown the whole topic, and none knows of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa

from experiments.clients.group import ConsumerGroup, GroupEnding, GroupJob
from experiments.clients.member import MemberProcess
from experiments.journal import Event
from experiments.ledger.schema import READS


@dataclass(frozen=True)
class ConsumerGroups:
    """None, one or several."""

    groups: tuple[ConsumerGroup, ...]

    @classmethod
    @contextmanager
    def running(cls, jobs: Sequence[GroupJob]) -> Iterator[ConsumerGroups]:
        """Start all members of all groups; they end with the context for certain.

        Raises:
            HarnessError: one cannot be started.
        """
        with ExitStack() as running:
            yield cls(tuple(running.enter_context(ConsumerGroup.running(job)) for job in jobs))

    @property
    def members(self) -> tuple[MemberProcess, ...]:
        """Those of all groups."""
        return tuple(member for group in self.groups for member in group.members)

    def first(self) -> ConsumerGroup | None:
        """Return the group that faults are about; `None`: there is none."""
        return self.groups[0] if self.groups else None

    def wait_ready(self) -> None:
        """Return when each group has let its members in; see `ConsumerGroup.wait_ready`."""
        for group in self.groups:
            group.wait_ready()

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> tuple[GroupEnding, ...]:
        """Let each read to these offsets, exclusive, and commit, as fast as it can; see `ConsumerGroup.finish`."""
        for group in self.groups:
            group.hurry()
        return tuple(group.finish(end_offsets, timeout_s) for group in self.groups)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the members run with; nothing, where there are none."""
        return self.groups[0].effective_settings() if self.groups else {}

    def reads(self) -> pa.Table:
        """Return what the members processed; schema `READS`."""
        return pa.concat_tables([READS.empty_table(), *(group.reads() for group in self.groups)])

    def events(self) -> Iterator[Event]:
        """Give what the members told."""
        for group in self.groups:
            yield from group.events()

    def forget(self) -> None:
        """Remove the members' mappings."""
        for group in self.groups:
            group.forget()
