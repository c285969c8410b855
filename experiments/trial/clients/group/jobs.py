"""The job of a consumer group, and how far it came."""

from __future__ import annotations

from pathlib import Path

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.sweep.workload import Copiers, GroupMembers
from ackbench.experiments.trial.clients.group.member import CopyTarget


class GroupJob(Frozen):
    """The job description of a group."""

    group: str
    """Its `group.id`."""
    load: GroupMembers | Copiers
    client_version: str | None = None
    """The version of librdkafka; `None`: the installed one."""
    bootstrap_servers: str
    topic: str
    partitions: int
    settings: dict[str, str]
    """The settings of a consumer; those that only a member needs are added."""
    token: int
    """Identifies the trial's records."""
    folder: Path
    number: int = 1
    """The group's number in the trial, from 1 on."""
    output: CopyTarget | None = None
    """Where the members copy to; `None`: they do not copy.

    With transactions each member's `transactional.id` is this one with the member's number.
    """

    @property
    def command(self) -> tuple[str, ...]:
        """The user's program that copies; empty: ackbench's own copiers do."""
        return self.load.command if isinstance(self.load, Copiers) else ()


class GroupResult(Frozen):
    """How far a group committed."""

    committed: dict[int, int]
    """The committed offset of each partition as the coordinator reports it; 0 if there is none."""
    at_end: bool
    """Whether the group committed all requested offsets."""
    group: int = 1
    """The group's number in the trial."""
    consumers: tuple[int, ...] = ()
    """The numbers of its members."""
