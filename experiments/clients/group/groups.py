"""A consumer group under test: its members, how far it has committed, and what it made of the log. Pure but for what it asks and starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.clients.group.member import (
    ASSIGNED,
    OUT_OF_RANGE,
    REVOKED,
    MemberJob,
    MemberProcess,
    Output,
)
from experiments.clients.settings.group_members import member_settings
from experiments.clients.settings.librdkafka import admin_settings
from experiments.clients.settings.security import connecting
from experiments.events.journal import Event
from experiments.ledger.record import Frozen
from experiments.ledger.schema import READS
from experiments.sweep.plan import AutoOffsetReset, Commit
from infra.errors import HarnessError, WaitTimeout
from infra.process.waiting import wait_until

JOIN_TIMEOUT_S: Final = 60.0
TRANSACTIONAL_ID: Final = "transactional.id"
_ASK_S: Final = 5.0
_EVERY_S: Final = 0.1


class GroupJob(Frozen):
    """All that a group is to do."""

    group: str
    """Its `group.id`."""
    members: int
    commit: Commit
    commit_every_records: int
    bootstrap_servers: str
    topic: str
    partitions: int
    settings: dict[str, str]
    """Of a consumer; what a member needs besides is added."""
    token: int
    folder: Path
    number: int = 1
    """Which group of the trial it is, from 1 on."""
    groups: int = 1
    """How many of them there are: members are numbered through all of them."""
    slow_members: int = 0
    """So many of its members, the first ones, process no faster than `slow_records_per_s` while the load lasts."""
    slow_records_per_s: float = 0
    """Of each of them; 0: as fast as they can."""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """What a member does where the log does not hold the offset any more at which it is to read on."""
    output: Output | None = None
    """Where its members copy to; of transactions each has its own `transactional.id`, this one with its number. `None`: they do not copy."""


class GroupEnd(Frozen):
    """How a group ended."""

    committed: dict[int, int]
    """How far it has committed each partition, as its coordinator tells; 0 where it never did."""
    at_end: bool
    """It committed all that it was told to."""
    group: int = 1
    """Which group of the trial."""
    consumers: tuple[int, ...] = ()
    """The numbers of its members."""


@dataclass
class ConsumerGroup:
    """Members that share a topic's partitions."""

    job: GroupJob
    members: tuple[MemberProcess, ...]
    _running: ExitStack

    @classmethod
    @contextmanager
    def running(cls, job: GroupJob) -> Iterator[ConsumerGroup]:
        """Start the members; they end with the context for certain.

        Raises:
            HarnessError: one cannot be started.
        """
        if job.auto_offset_reset != "earliest":
            _begin_at_the_start(job)
        with ExitStack() as running:
            yield cls(
                job,
                tuple(
                    running.enter_context(MemberProcess(_member(job, place)))
                    for place in range(job.members)
                ),
                running,
            )

    def join(self) -> MemberProcess:
        """Start one more member, which asks to be let in.

        Raises:
            HarnessError: it cannot be started.
        """
        member = self._running.enter_context(MemberProcess(_member(self.job, len(self.members))))
        self.members = (*self.members, member)
        return member

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
        told = [
            (event.at_ns, event.kind, member)
            for member in self.members
            for event in member.told()
            if event.partition == partition
        ]
        given = [
            (at_ns, kind, member) for at_ns, kind, member in told if kind in {ASSIGNED, REVOKED}
        ]
        _, kind, member = max(given, key=lambda one: one[0], default=(0, REVOKED, None))
        return member if kind == ASSIGNED else None

    def hurry(self) -> None:
        """Let the members that are slow by order be so no more.

        Raises:
            HarnessError: one has ended.
        """
        for member in self.members:
            member.hurry()

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> GroupEnd:
        """Let it read and commit to these offsets, exclusive, for so long at most; then let the members leave.

        Raises:
            HarnessError: a member ended on the way, or no coordinator answers.
        """
        at_end = self._comes_to(end_offsets, timeout_s)
        for member in self.members:
            member.finish()
        numbers = tuple(member.job.consumer for member in self.members)
        return GroupEnd(
            committed=self.committed(end_offsets),
            at_end=at_end,
            group=self.job.number,
            consumers=numbers,
        )

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return how far it has committed each of these partitions, as its coordinator tells.

        Raises:
            HarnessError: no coordinator answers.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        as_it_is = {
            "isolation.level": "read_uncommitted"
        }  # or librdkafka waits for the end of a transaction that would commit more (KIP-447)
        asker = Consumer(
            {
                **admin_settings(),
                **as_it_is,
                "group.id": self.job.group,
                **connecting(self.job.bootstrap_servers),
            }
        )
        try:
            told = asker.committed(
                [TopicPartition(self.job.topic, number) for number in partitions], timeout=_ASK_S
            )
        except KafkaException as error:
            raise HarnessError(
                f"asked how far group {self.job.group} has committed for {_ASK_S:g} s: {error}"
            ) from error
        finally:
            asker.close()
        return {partition.partition: max(0, partition.offset) for partition in told}

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the members run with."""
        return self.members[0].effective_settings()

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
        """Wait until all is committed, or a member says that it cannot read on; that it is not is a finding."""

        def no_more_to_come() -> bool:
            for member in self.members:
                member.require_alive()
            committed = self.committed(end_offsets)
            short = {
                partition for partition, end in end_offsets.items() if committed[partition] < end
            }
            return not short - {
                event.partition
                for member in self.members
                for event in member.told()
                if event.kind == OUT_OF_RANGE
            }

        try:
            wait_until(
                no_more_to_come,
                awaiting=f"group {self.job.group} to commit all",
                timeout_s=timeout_s,
                every_s=_EVERY_S,
            )
        except WaitTimeout:
            return False
        committed = self.committed(end_offsets)
        return all(committed[partition] >= end for partition, end in end_offsets.items())


def _begin_at_the_start(job: GroupJob) -> None:
    """Commit offset 0 of each partition before anybody joins: without a committed offset a member would begin by its `auto.offset.reset` too.

    Raises:
        WaitTimeout: no coordinator took it.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {**admin_settings(), "group.id": job.group, **connecting(job.bootstrap_servers)}
    )
    refused: list[str] = []

    def committed() -> bool:
        try:
            consumer.commit(
                offsets=[TopicPartition(job.topic, number, 0) for number in range(job.partitions)],
                asynchronous=False,
            )
        except KafkaException as error:
            refused.append(str(error))
            return False
        return True

    try:
        wait_until(
            committed,
            awaiting=f"the first commit of group {job.group}",
            timeout_s=JOIN_TIMEOUT_S,
            every_s=_EVERY_S,
            seen=lambda: refused[-1:],
        )
    finally:
        consumer.close()


def _member(job: GroupJob, place: int) -> MemberJob:
    """Return what a member is to do: those that the group begins with are numbered group by group, and those that join later behind all of them."""
    first = (job.number - 1) * job.members
    number = first + place + 1 if place < job.members else job.groups * place + job.number
    return MemberJob(
        consumer=number,
        bootstrap_servers=job.bootstrap_servers,
        topic=job.topic,
        partitions=job.partitions,
        settings=member_settings(job.settings, job.group, job.auto_offset_reset),
        commit=job.commit,
        commit_every_records=job.commit_every_records,
        records_per_s=job.slow_records_per_s if place < job.slow_members else 0,
        token=job.token,
        folder=job.folder,
        output=_output_of(job.output, number),
    )


def _output_of(output: Output | None, number: int) -> Output | None:
    """Return a member's own: a `transactional.id` that two had would have them fence each other."""
    if output is None or TRANSACTIONAL_ID not in output.settings:
        return output
    return output.model_copy(
        update={
            "settings": {
                **output.settings,
                TRANSACTIONAL_ID: f"{output.settings[TRANSACTIONAL_ID]}-{number}",
            }
        }
    )


# ---------- The consumer groups of a trial: each is shown the whole topic, and none knows of the others.


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

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> tuple[GroupEnd, ...]:
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
