"""What a trial asks of its clients, whichever they are: librdkafka's in compiled loops, or Kafka's own Java programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from experiments.clients.consumer.process import ConsumerEnd, ConsumerJob, ConsumerProcess
from experiments.clients.group.groups import ConsumerGroup, ConsumerGroups
from experiments.clients.group.member import MemberProcess
from experiments.clients.java.consumer import JavaConsumer
from experiments.clients.java.producer import JavaProducer
from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.process import ProducerProcess
from experiments.events.journal import Event
from experiments.ledger.record import ProducerSummary

# ---------- Kafka's own Java clients under test, through the programs that its jars bring: they report each record.


@dataclass(frozen=True)
class JavaClients:
    """Implements `under_test.Clients`."""

    version: str
    """Of Kafka: of the jars, and so of the clients."""
    cache: Path

    def producer(self, job: ProducerJob) -> JavaProducer:
        """Start a producer."""
        return JavaProducer(job, self.version, self.cache)

    def reader(self, job: ConsumerJob) -> JavaConsumer:
        """Start a consumer that reads along."""
        return JavaConsumer(job, self.version, self.cache)


# ---------- librdkafka's clients under test: compiled loops, each in a copy of one warm process; see `nursery`.


class LibrdkafkaClients:
    """Implements `under_test.Clients`."""

    @staticmethod
    def producer(job: ProducerJob) -> ProducerProcess:
        """Start a producer."""
        return ProducerProcess(job)

    @staticmethod
    def reader(job: ConsumerJob) -> ConsumerProcess:
        """Start a consumer that reads along."""
        return ConsumerProcess(job)


class Producer(Protocol):
    """A producer in a process of its own; its context ends it for certain."""

    def wait_ready(self) -> None:
        """Return when it only waits to be told to begin.

        Raises:
            HarnessError: it could not start; the text says why.
        """

    def begin(self, start_ns: int) -> None:
        """Tell it when its first record is due, nanoseconds since the epoch by `experiments.events.clock`.

        Raises:
            HarnessError: it has ended.
        """

    def began_ns(self) -> int:
        """Return when its first record was due by its own account; waits until it is known.

        Raises:
            HarnessError: it ended before.
        """

    def acked_records(self) -> int:
        """How many records it has seen acknowledged, alive or dead."""

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Return when every record is settled, or its delivery timeout has passed.

        Raises:
            HarnessError: it ended on the way, or was not done in time.
        """

    def events(self) -> Iterator[Event]:
        """Give what its own log tells so far: `learned`, `timed_out`, `disconnected`."""

    def effective_settings(self) -> dict[str, str]:
        """Return the settings it ran with, those that were passed at least."""

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return what it attempted, alive or dead; schema `ATTEMPTS`.

        Args:
            log: the final read, for what only the records themselves tell.
        """

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return how its transactions ended, alive or dead; schema `TRANSACTIONS`.

        Args:
            attempts: its own.
        """

    def completed(self, summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return its summary, with what only the final read could tell."""

    def forget(self) -> None:
        """Remove the files that the tables now hold."""


class ConcurrentConsumer(Protocol):
    """A consumer that reads along, in a process of its own; its context ends it for certain."""

    def wait_ready(self) -> None:
        """Return when it fetches every partition.

        Raises:
            HarnessError: it could not start; the text says why.
        """

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> ConsumerEnd:
        """Let it read on to these offsets, exclusive, for so long at most; return when it has ended.

        Raises:
            HarnessError: it ended on the way.
        """

    def logged_before(self, begins: Mapping[int, int]) -> pa.Table:
        """Return what it read of the log below these offsets, where partitions begin now; schema `LOG`. Nothing, where it does not tell enough of a record."""

    def events(self) -> Iterator[Event]:
        """Give what its own log tells so far."""

    def effective_settings(self) -> dict[str, str]:
        """Return the settings it ran with, those that were passed at least."""

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return what it read; schema `READS`.

        Args:
            attempts: of all producers, for what a record does not carry itself.
        """

    def forget(self) -> None:
        """Remove the files that the tables now hold."""


class Clients(Protocol):
    """One kind of client."""

    def producer(self, job: ProducerJob) -> AbstractContextManager[Producer]:
        """Start a producer."""

    def reader(self, job: ConsumerJob) -> AbstractContextManager[ConcurrentConsumer]:
        """Start a consumer that reads along."""


def clients_of(kind: str, version: str, cache: Path) -> Clients:
    """Return the clients of a kind.

    Args:
        kind: `librdkafka` or `java`.
        version: of the Kafka whose jars hold the Java programs.
        cache: the home's cache folder, where those jars lie.
    """
    if kind == "java":
        return JavaClients(version, cache)

    return LibrdkafkaClients()


# ---------- The trial's own clients, as a fault reaches them: processes of ours that can be killed, stopped and started again.


@dataclass(frozen=True)
class ClientProcesses:
    """A view for faults; the trial starts and ends them."""

    producers: tuple[ProducerProcess, ...]
    """Those whose ledger outlives them."""
    groups: ConsumerGroups

    def first_producer(self) -> ProducerProcess | None:
        """Return producer 0; `None`: it is none that can be started again."""
        return next((producer for producer in self.producers if producer.job.producer == 0), None)

    def holder_of(self, partition: int) -> MemberProcess | None:
        """Return the member of the first group that reads a partition; `None`: none does."""
        group = self.first_group()
        return group.holder_of(partition) if group else None

    def first_group(self) -> ConsumerGroup | None:
        """Return the group that something is done to; `None`: there is none."""
        return self.groups.first()
