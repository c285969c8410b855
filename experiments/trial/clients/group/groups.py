"""The consumer groups of a trial: their members, their committed offsets, and what they processed.

Each group reads the entire topic, independently of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import READS
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.trial.clients.group.application import (
    ApplicationGroup,
    ApplicationProcess,
)
from ackbench.experiments.trial.clients.group.jobs import (
    TRANSACTIONAL_ID,
    CopyTarget,
    GroupJob,
    GroupResult,
    MemberJob,
)
from ackbench.experiments.trial.clients.group.member import ClientHangs, MemberProcess
from ackbench.experiments.trial.clients.group.members import Member, MemberStarter
from ackbench.experiments.trial.clients.group.messages import ASSIGNED, OUT_OF_RANGE, REVOKED
from ackbench.experiments.trial.clients.group.offsets import committed_offsets, wait_until_committed
from ackbench.experiments.trial.clients.settings.group_members import (
    member_settings,
    program_member_settings,
)
from ackbench.experiments.trial.clients.settings.librdkafka import admin_settings
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.process.waiting import wait_until

JOIN_TIMEOUT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 0.1


@dataclass
class ConsumerGroup:
    """The members that share a topic's partitions."""

    job: GroupJob
    members: tuple[Member, ...]
    _running: ExitStack
    _start: MemberStarter

    @classmethod
    @contextmanager
    def running(
        cls, job: GroupJob, start: MemberStarter = MemberProcess
    ) -> Iterator[ConsumerGroup]:
        """Start the members; they end with the context.

        Args:
            job: of the group.
            start: starts a member.

        Raises:
            HarnessError: a member could not be started.
        """
        if job.load.auto_offset_reset != "earliest":
            _commit_first_offsets(job)
        with ExitStack() as running:
            members = tuple(
                running.enter_context(start(_member_job(job, index)))
                for index in range(job.load.members)
            )
            yield cls(job, members, running, start)

    def add_member(self) -> Member:
        """Start one more member, which joins the group on its own.

        Raises:
            HarnessError: it could not be started.
        """
        member = self._running.enter_context(self._start(_member_job(self.job, len(self.members))))
        self.members = (*self.members, member)
        return member

    def wait_ready(self) -> None:
        """Wait until the group has accepted every member, and they share the partitions evenly.

        Before, the group rebalances because it was just formed: with KIP-848 some heartbeats long,
        which are 5 s apart by default.

        Raises:
            HarnessError: a member exited before.
            WaitTimeout: a member was not accepted in time, or the partitions are not shared evenly.
        """
        for member in self.members:
            member.start_client()
        for member in self.members:
            member.wait_in_group(JOIN_TIMEOUT_S)
        wait_until(
            self._is_balanced,
            awaiting=f"the members of {self.job.group} to share {self.job.partitions} partitions",
            timeout_s=JOIN_TIMEOUT_S,
            every_s=_POLL_INTERVAL_S,
            seen=self._owned,
        )

    def _is_balanced(self) -> bool:
        owned = [len(partitions) for partitions in self._owned().values()]
        return sum(owned) == self.job.partitions and max(owned) - min(owned) <= 1

    def _owned(self) -> dict[str, list[int]]:
        """Return the partitions of each member, as far as the members themselves know."""
        owned: dict[str, list[int]] = {member.name: [] for member in self.members}
        for partition, owner in self._owners().items():
            owned[owner.name].append(partition)
        return owned

    def owner_of(self, partition: int) -> Member | None:
        """Return the member that owns a partition, as far as the members themselves know.

        That is the one it was assigned to last, unless that member gave it up since; `None`: no
        member.
        """
        return self._owners().get(partition)

    def _owners(self) -> dict[int, Member]:
        changes = [
            (event.at_ns, event.kind, event.partition, member)
            for member in self.members
            for event in member.own_events()
            if event.partition is not None and event.kind in {ASSIGNED, REVOKED}
        ]
        owners: dict[int, Member] = {}
        for _, kind, partition, member in sorted(changes, key=itemgetter(0)):
            if kind == ASSIGNED:
                owners[partition] = member
            elif owners.get(partition) is member:
                del owners[partition]
        return owners

    def unthrottle(self) -> None:
        """Let the slow members process as fast as they can.

        Raises:
            HarnessError: a member has exited.
        """
        for member in self.members:
            member.unthrottle()

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> GroupResult:
        """Have the group read and commit up to these offsets, exclusive; then members leave.

        Raises:
            HarnessError: a member exited early, or no coordinator answers.
        """
        at_end = wait_until_committed(
            self.job, self.members, end_offsets, timeout_s, self._out_of_range
        )
        hung = tuple(sentence for member in self.members if (sentence := _finish(member)))
        return GroupResult(
            committed=self.committed(end_offsets),
            at_end=at_end,
            group=self.job.number,
            consumers=tuple(member.job.consumer for member in self.members),
            hung=hung,
        )

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the committed offsets of partitions; see `committed_offsets`."""
        return committed_offsets(self.job, partitions)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings of the members."""
        return self.members[0].effective_settings()

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the records that the members processed; schema `READS`; see `Member.reads`."""
        return pa.concat_tables(
            [READS.empty_table(), *(member.reads(attempts) for member in self.members)]
        )

    def events(self) -> Iterator[Event]:
        """Yield the members' events."""
        for member in self.members:
            yield from member.events()

    def delete_files(self) -> None:
        """Delete the members' mapped files."""
        for member in self.members:
            member.delete_files()

    def _out_of_range(self) -> set[int | None]:
        """Return the partitions that a member reported as out of range; nobody waits for them."""
        return {
            event.partition
            for member in self.members
            for event in member.own_events()
            if event.kind == OUT_OF_RANGE
        }


def _finish(member: Member) -> str | None:
    """Have a member leave; return how its client hung, and was killed; `None`: it did not."""
    try:
        member.finish()
    except ClientHangs as hangs:
        return str(hangs)
    return None


def _commit_first_offsets(job: GroupJob) -> None:
    """Commit offset 0 of each partition before a member joins.

    Without a committed offset a member would apply its `auto.offset.reset` at the start too.

    Raises:
        WaitTimeout: no coordinator accepted the commit.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        confluent_settings(
            {
                **admin_settings(),
                "group.id": job.group,
                **connection_settings(job.bootstrap_servers),
            }
        )
    )
    errors: list[str] = []

    def commit() -> bool:
        try:
            consumer.commit(
                offsets=[TopicPartition(job.topic, number, 0) for number in range(job.partitions)],
                asynchronous=False,
            )
        except KafkaException as error:
            errors.append(str(error))
            return False
        return True

    try:
        wait_until(
            commit,
            awaiting=f"the first commit of group {job.group}",
            timeout_s=JOIN_TIMEOUT_S,
            every_s=_POLL_INTERVAL_S,
            seen=lambda: errors[-1:],
        )
    finally:
        consumer.close()


def _member_job(job: GroupJob, index: int) -> MemberJob:
    """Return the job of the member at this index of its group.

    The first members are numbered group by group; members that are added later come after those of
    all groups.
    """
    load = job.load
    first = (job.number - 1) * load.members
    number = first + index + 1 if index < load.members else load.groups * index + job.number
    return MemberJob(
        consumer=number,
        client_version=job.client_version,
        bootstrap_servers=job.bootstrap_servers,
        topic=job.topic,
        partitions=job.partitions,
        settings=_member_settings(job, f"{job.group}-{number}" if load.static else None),
        warm_up_records=job.warm_up_records,
        load=load,
        records_per_s=load.slow_records_per_s if index < load.slow_members else 0,
        token=job.token,
        folder=job.folder,
        output=_member_output(job.output, number),
    )


def _member_settings(job: GroupJob, instance: str | None) -> dict[str, str]:
    load = job.load
    if traits_of(job.client).reports_in_text:
        return program_member_settings(
            job.settings,
            job.group,
            load.auto_offset_reset,
            load.commits,
            load.commit_every_records if job.limits_polls else None,
            instance,
        )
    return member_settings(job.settings, job.group, load.auto_offset_reset, load.commits, instance)


def _member_output(output: CopyTarget | None, number: int) -> CopyTarget | None:
    """Return a member's output with its own `transactional.id`: two with one would be fenced."""
    if output is None or TRANSACTIONAL_ID not in output.settings:
        return output
    own_id = f"{output.settings[TRANSACTIONAL_ID]}-{number}"
    return output.model_copy(update={"settings": {**output.settings, TRANSACTIONAL_ID: own_id}})


@dataclass(frozen=True)
class ConsumerGroups:
    """All consumer groups of a trial; there may be none."""

    groups: tuple[ConsumerGroup | ApplicationGroup, ...]

    @classmethod
    @contextmanager
    def running(cls, jobs: Sequence[GroupJob], start: MemberStarter) -> Iterator[ConsumerGroups]:
        """Start all members of all groups; they end with the context.

        Args:
            jobs: of the groups.
            start: starts a member.

        Raises:
            HarnessError: a member could not be started.
        """
        with ExitStack() as running:
            yield cls(
                tuple(
                    running.enter_context(ApplicationGroup.running(job))
                    if job.command
                    else running.enter_context(ConsumerGroup.running(job, start))
                    for job in jobs
                )
            )

    @property
    def members(self) -> tuple[Member | ApplicationProcess, ...]:
        """The members of all groups."""
        return tuple(member for group in self.groups for member in group.members)

    def first(self) -> ConsumerGroup | None:
        """Return the group that faults act on; `None`: there is no group of ackbench's members."""
        first = next(iter(self.groups), None)
        return first if isinstance(first, ConsumerGroup) else None

    def first_id(self) -> str | None:
        """Return the `group.id` of the first group; `None`: there is no group."""
        return self.groups[0].job.group if self.groups else None

    def application(self) -> ApplicationGroup | None:
        """Return the instances of the user's program; `None`: there are none."""
        first = next(iter(self.groups), None)
        return first if isinstance(first, ApplicationGroup) else None

    def wait_ready(self) -> None:
        """Wait until each group has accepted its members; see `ConsumerGroup.wait_ready`."""
        for group in self.groups:
            group.wait_ready()

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> tuple[GroupResult, ...]:
        """Have each group read and commit up to these offsets, at full speed.

        See `ConsumerGroup.finish`.
        """
        for group in self.groups:
            group.unthrottle()
        return tuple(group.finish(end_offsets, timeout_s) for group in self.groups)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings of the members; empty if there are none."""
        return self.groups[0].effective_settings() if self.groups else {}

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the records that the members processed; schema `READS`; see `Member.reads`."""
        return pa.concat_tables(
            [READS.empty_table(), *(group.reads(attempts) for group in self.groups)]
        )

    def events(self) -> Iterator[Event]:
        """Yield the members' events."""
        for group in self.groups:
            yield from group.events()

    def delete_files(self) -> None:
        """Delete the members' mapped files."""
        for group in self.groups:
            group.delete_files()
