"""A consumer group under test: its members, how far it has committed, and what it made of the log. Pure but for what it asks and starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.clients.connection import connecting
from experiments.clients.group_settings import member_settings
from experiments.clients.member import Commit, MemberJob, MemberProcess, Output
from experiments.clients.member_log import ASSIGNED, REVOKED
from experiments.clients.settings import admin_settings
from experiments.journal import Event
from experiments.ledger.record import Frozen
from experiments.ledger.schema import READS
from infra.errors import HarnessError, WaitTimeout
from infra.waiting import wait_until

JOIN_TIMEOUT_S: Final = 60.0
TRANSACTIONAL_ID: Final = "transactional.id"
_ASK_S: Final = 5.0
_EVERY_S: Final = 0.1


class GroupJob(Frozen):
    """All that a group is to do."""

    group: str
    """Its `group.id`."""
    members: int
    """0: there is no group."""
    commit: Commit
    commit_every_records: int
    bootstrap_servers: str
    topic: str
    partitions: int
    settings: dict[str, str]
    """Of a consumer; what a member needs besides is added."""
    token: int
    folder: Path
    output: Output | None = None
    """Where its members copy to; of transactions each has its own `transactional.id`, this one with its number. `None`: they do not copy."""


class GroupEnding(Frozen):
    """How a group ended."""

    committed: dict[int, int]
    """How far it has committed each partition, as its coordinator tells; 0 where it never did."""
    at_end: bool
    """It committed all that it was told to."""


@dataclass(frozen=True)
class ConsumerGroup:
    """Members that share a topic's partitions."""

    job: GroupJob
    members: tuple[MemberProcess, ...]

    @classmethod
    @contextmanager
    def running(cls, job: GroupJob) -> Iterator[ConsumerGroup]:
        """Start the members; they end with the context for certain.

        Raises:
            HarnessError: one cannot be started.
        """
        with ExitStack() as running:
            yield cls(job, tuple(running.enter_context(MemberProcess(member)) for member in _members(job)))

    def wait_ready(self) -> None:
        """Return when the group has let every member in.

        Raises:
            HarnessError: one ended before.
            WaitTimeout: one was not let in.
        """
        for member in self.members:
            member.wait_in_group(JOIN_TIMEOUT_S)

    def holder_of(self, partition: int) -> MemberProcess | None:
        """Return the member that was given a partition last and has not lost it, by the members' own accounts; `None`: nobody says so."""
        told = [(event.at_ns, event.kind, member) for member in self.members for event in member.events() if event.partition == partition]
        given = [(at_ns, kind, member) for at_ns, kind, member in told if kind in {ASSIGNED, REVOKED}]
        _, kind, member = max(given, key=lambda one: one[0], default=(0, REVOKED, None))
        return member if kind == ASSIGNED else None

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> GroupEnding | None:
        """Let it read and commit to these offsets, exclusive, for so long at most; then let the members leave. `None`: there is no group.

        Raises:
            HarnessError: a member ended on the way, or no coordinator answers.
        """
        if not self.members:
            return None
        at_end = self._comes_to(end_offsets, timeout_s)
        for member in self.members:
            member.finish()
        return GroupEnding(committed=self.committed(end_offsets), at_end=at_end)

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return how far it has committed each of these partitions, as its coordinator tells.

        Raises:
            HarnessError: no coordinator answers.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        as_it_is = {"isolation.level": "read_uncommitted"}  # or librdkafka waits for the end of a transaction that would commit more (KIP-447)
        asker = Consumer({**admin_settings(), **as_it_is, "group.id": self.job.group, **connecting(self.job.bootstrap_servers)})
        try:
            told = asker.committed([TopicPartition(self.job.topic, number) for number in partitions], timeout=_ASK_S)
        except KafkaException as error:
            raise HarnessError(f"asked how far group {self.job.group} has committed for {_ASK_S:g} s: {error}") from error
        finally:
            asker.close()
        return {partition.partition: max(0, partition.offset) for partition in told}

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the members run with; nothing, where there are none."""
        return self.members[0].effective_settings() if self.members else {}

    def reads(self) -> pa.Table:
        """Return what the members processed; schema `READS`."""
        return pa.concat_tables([READS.empty_table(), *(member.reads() for member in self.members)])

    def events(self) -> Iterator[Event]:
        """Give what the members told."""
        for member in self.members:
            yield from member.events()

    def forget(self) -> None:
        """Remove the members' mappings."""
        for member in self.members:
            member.forget()

    def _comes_to(self, end_offsets: Mapping[int, int], timeout_s: float) -> bool:
        """Wait until all is committed; that it is not is a finding."""

        def committed_all() -> bool:
            for member in self.members:
                member.require_alive()
            committed = self.committed(end_offsets)
            return all(committed[partition] >= end for partition, end in end_offsets.items())

        try:
            return wait_until(committed_all, awaiting=f"group {self.job.group} to commit all", timeout_s=timeout_s, every_s=_EVERY_S)
        except WaitTimeout:
            return False


def _members(job: GroupJob) -> Iterator[MemberJob]:
    shared = {"topic": job.topic, "partitions": job.partitions, "commit": job.commit, "commit_every_records": job.commit_every_records}
    for number in range(1, job.members + 1):
        yield MemberJob.model_validate(
            {
                **shared,
                "consumer": number,
                "bootstrap_servers": job.bootstrap_servers,
                "settings": member_settings(job.settings, job.group),
                "token": job.token,
                "folder": job.folder,
                "output": _output_of(job.output, number),
            }
        )


def _output_of(output: Output | None, number: int) -> Output | None:
    """Return a member's own: a `transactional.id` that two had would have them fence each other."""
    if output is None or TRANSACTIONAL_ID not in output.settings:
        return output
    return output.model_copy(update={"settings": {**output.settings, TRANSACTIONAL_ID: f"{output.settings[TRANSACTIONAL_ID]}-{number}"}})
