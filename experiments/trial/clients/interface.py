"""The interface between a trial and its clients under test, and the kinds of clients.

A trial uses its clients only through the protocols here. They are implemented with librdkafka, in
compiled loops, and with programs: Kafka's own in Java, adapters, and an experiment's. What only one
kind can do returns `None` from the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.trial.clients.adapters import built_command
from ackbench.experiments.trial.clients.consumer.process import (
    ConsumerJob,
    ConsumerProcess,
    ConsumerResult,
)
from ackbench.experiments.trial.clients.group.application import ApplicationGroup
from ackbench.experiments.trial.clients.group.groups import ConsumerGroup, ConsumerGroups
from ackbench.experiments.trial.clients.group.jobs import MemberJob
from ackbench.experiments.trial.clients.group.member import MemberProcess
from ackbench.experiments.trial.clients.group.members import Member
from ackbench.experiments.trial.clients.java.dialect import (
    COPIER,
    TRANSACTIONAL_PRODUCER,
    JavaDialect,
)
from ackbench.experiments.trial.clients.java.transactional import JavaTransactionalProducer
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess
from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.programs.consumer import VerifiableConsumer
from ackbench.experiments.trial.clients.programs.member import ProgramMember
from ackbench.experiments.trial.clients.programs.producer import VerifiableProducer
from ackbench.experiments.trial.events.journal import Event


class TrialClient(Protocol):
    """What every client of a trial can do, group members included."""

    def events(self) -> Iterator[Event]:
        """Yield the events in the client's own log so far."""

    def delete_files(self) -> None:
        """Delete the files whose content is in the ledger's tables by now."""


class ClientIdentity(Protocol):
    """The process that a client runs in now."""

    @property
    def name(self) -> str:
        """The client in messages: `producer 0`."""

    @property
    def pid(self) -> int:
        """Its process; after a restart, another one."""

    def is_held(self) -> bool:
        """Return whether a fault keeps the process stopped now."""


class Producer(TrialClient, ClientIdentity, Protocol):
    """A producer in its own process, which ends with the producer's context."""

    hung: str | None
    """The sentence that its client hung and was killed; `None`: it did not hang."""

    def wait_ready(self) -> None:
        """Wait until the producer is warm and only needs `begin` to send.

        Raises:
            HarnessError: it did not start; the message has the reason.
        """

    def begin(self, start_ns: int) -> None:
        """Start the schedule: the first record is due at `start_ns`, since the epoch.

        Raises:
            HarnessError: the process has exited.
        """

    def began_ns(self) -> int:
        """Return when the first record was due, as the producer reports it; wait until it does.

        Raises:
            HarnessError: the process exited before.
        """

    def acked_records(self) -> int:
        """Return how many records were acknowledged so far; valid after a crash too."""

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Wait until every record is settled, or its delivery timeout has passed.

        Raises:
            HarnessError: the process exited early, or was not done in time.
        """

    def unexpected_exit(self) -> str | None:
        """Return how the process has exited before it was done: `producer 0 exited by SIGKILL`.

        `None`: it runs, is done, or was killed by the trial.
        """

    def effective_settings(self) -> dict[str, str]:
        """Return the settings in effect, at least those that were passed."""

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return the records that the producer attempted, crashed or not; schema `ATTEMPTS`.

        Args:
            log: the final read, for what only the stored records show.
        """

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return how the transactions ended, crashed or not; schema `TRANSACTIONS`.

        Args:
            attempts: this producer's attempts.
        """

    def complete_summary(self, summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return the summary with the values that need the final read."""

    def sent(self) -> pa.Table | None:
        """Return the digests of the records' fields as sent; schema `SENT`.

        `None`: this kind of client does not record them.
        """

    def served(self) -> pa.Table | None:
        """Return which broker acknowledged the records; schema `SERVED`.

        `None`: this kind of client does not record it.
        """

    @property
    def restartable(self) -> ProducerProcess | None:
        """The process that a fault can kill and restart; `None`: its attempts would be lost."""


class ConcurrentConsumer(TrialClient, ClientIdentity, Protocol):
    """A consumer that reads in parallel with the load, in its own process."""

    def wait_ready(self) -> None:
        """Wait until the consumer fetches every partition.

        Raises:
            HarnessError: it did not start; the message has the reason.
        """

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> ConsumerResult:
        """Have the consumer read to these offsets, exclusive, and wait until it has exited.

        Raises:
            HarnessError: the process exited early.
        """

    def unexpected_exit(self) -> str | None:
        """Return how the process has exited before it was done, as `Producer`'s does."""

    def expired_records(self, begin_offsets: Mapping[int, int]) -> pa.Table:
        """Return the received records below these offsets, where partitions begin; schema `LOG`.

        Empty if this kind of client does not report enough of a record.
        """

    def effective_settings(self) -> dict[str, str]:
        """Return the settings in effect, at least those that were passed."""

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the received records; schema `READS`.

        Args:
            attempts: of all producers, for what a record does not carry itself.
        """

    def served(self) -> pa.Table | None:
        """Return which broker the records were fetched from; schema `SERVED`.

        `None`: this kind of client does not record it.
        """


class ClientFactory(Protocol):
    """Starts the clients of one kind; each ends with its context."""

    def producer(self, job: ProducerJob) -> AbstractContextManager[Producer]:
        """Start a producer."""

    def consumer(self, job: ConsumerJob) -> AbstractContextManager[ConcurrentConsumer]:
        """Start a concurrent consumer."""

    def member(self, job: MemberJob) -> AbstractContextManager[Member]:
        """Start a member of a consumer group."""


class LibrdkafkaClientFactory:
    """librdkafka's clients in compiled loops, each forked from one warm process."""

    @staticmethod
    def producer(job: ProducerJob) -> ProducerProcess:
        """Start a producer."""
        return ProducerProcess(job)

    @staticmethod
    def consumer(job: ConsumerJob) -> ConsumerProcess:
        """Start a concurrent consumer."""
        return ConsumerProcess(job)

    @staticmethod
    def member(job: MemberJob) -> MemberProcess:
        """Start a member of a consumer group, or a copier."""
        return MemberProcess(job)


@dataclass(frozen=True)
class JavaClientFactory:
    """Kafka's own Java clients, in the programs of its jars that report each record."""

    version: str
    """Kafka's version, of the jars and so of the clients."""
    cache: Path
    """The cache folder with the jars."""

    def producer(self, job: ProducerJob) -> VerifiableProducer:
        """Start a producer, with transactions if its job has any."""
        if job.transaction_records:
            return JavaTransactionalProducer(
                job, JavaDialect(self.version, self.cache, TRANSACTIONAL_PRODUCER)
            )
        return VerifiableProducer(job, JavaDialect(self.version, self.cache))

    def consumer(self, job: ConsumerJob) -> VerifiableConsumer:
        """Start a concurrent consumer."""
        return VerifiableConsumer(job, JavaDialect(self.version, self.cache))

    def member(self, job: MemberJob) -> ProgramMember:
        """Start a member of a consumer group, or a copier."""
        source = COPIER if job.output else None
        return ProgramMember(job, JavaDialect(self.version, self.cache, source))


@dataclass(frozen=True)
class ProgramClientFactory:
    """A client that is a program of an adapter or of the experiment."""

    dialect: CommandDialect

    def producer(self, job: ProducerJob) -> VerifiableProducer:
        """Start a producer."""
        return VerifiableProducer(job, self.dialect)

    def consumer(self, job: ConsumerJob) -> VerifiableConsumer:
        """Start a concurrent consumer."""
        return VerifiableConsumer(job, self.dialect)

    def member(self, job: MemberJob) -> ProgramMember:
        """Start a member of a consumer group."""
        return ProgramMember(job, self.dialect)


def client_factory(spec: TrialSpec, cache: Path) -> ClientFactory:
    """Return the factory of a trial's clients.

    Args:
        spec: the trial.
        cache: the home's cache folder, with jars and built adapters.

    Raises:
        MachineError, ClientLibraryError: an adapter is not in the cache and cannot be built.
    """
    if traits_of(spec.client).comes_with_kafka:
        return JavaClientFactory(spec.java_version, cache)
    if not traits_of(spec.client).is_program:
        return LibrdkafkaClientFactory()
    command = spec.client_command or built_command(cache, spec.client, spec.client_version)
    return ProgramClientFactory(CommandDialect(spec.client, command, spec.client_version))


@dataclass(frozen=True)
class ClientProcesses:
    """The processes of a trial's clients that a fault can kill, pause and restart.

    The trial starts and ends them; a fault only uses them.
    """

    producers: tuple[ProducerProcess, ...]
    """The restartable ones: those whose attempts survive their process."""
    groups: ConsumerGroups
    transactional_ids: tuple[str, ...] = ()
    """Of all producers, by their numbers, restartable or not; empty without transactions."""

    def first_producer(self) -> ProducerProcess | None:
        """Return producer 0; `None`: it is not restartable."""
        return next((producer for producer in self.producers if producer.job.producer == 0), None)

    def owner_of(self, partition: int) -> Member | None:
        """Return the first group's member that owns a partition; `None`: no member does."""
        group = self.first_group()
        return group.owner_of(partition) if group else None

    def application(self) -> ApplicationGroup | None:
        """Return the user's program that copies; `None`: the trial has none."""
        return self.groups.application()

    def first_group(self) -> ConsumerGroup | None:
        """Return the group that faults act on; `None`: the trial has no group."""
        return self.groups.first()
