"""The runs of a program on a broker of its own, which the checks judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.programs.dialect import Role
from ackbench.experiments.trial.clients.programs.program import EXIT_TIMEOUT_S, VerifiableProgram
from ackbench.experiments.trial.clients.programs.tables import SUCCESS
from ackbench.experiments.trial.conformance.checks import KEYS, PARTITIONS, RATE_RECORDS_PER_S
from ackbench.experiments.trial.conformance.reports import (
    Run,
    Stored,
    partition_numbers,
    read_lines,
)
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.samples import ProcessSampler
from ackbench.infra.process.waiting import sleep_until, wait_until

if TYPE_CHECKING:
    from confluent_kafka import Message

    from ackbench.infra.cluster.local import LocalCluster

_RECORDS: Final = 400
_MORE_RECORDS: Final = 100
_REFUSED_RECORDS: Final = 20
_LONG_RECORDS: Final = 10_000
"""More than are sent until the program is ended."""
_UNTIL_ENDED_S: Final = 1.5
_PAUSE_S: Final = 6.0
_IN_FLIGHT_S: Final = 0.5
_RUN_TIMEOUT_S: Final = 90.0
_READ_TIMEOUT_S: Final = 60.0
_PRODUCER: Final[Mapping[str, str]] = {"acks": "all", "enable.idempotence": "false"}
_CONSUMER: Final[Mapping[str, str]] = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
}
_SHORT_TIMEOUTS: Final[Mapping[str, str]] = {
    "delivery.timeout.ms": "3000",
    "request.timeout.ms": "1000",
    "linger.ms": "0",
}
_NO_SUCH_PROPERTY: Final[Mapping[str, str]] = {"ackbench.no.such.property": "1"}
_USAGE: Final = 2
Say = Callable[[str], object]


@dataclass
class Scenarios:
    """Runs a program as producer and consumer, and returns what it printed and what is stored.

    Args:
        command: without the role.
        cluster: one broker, healthy, of nobody else.
        folder: an empty one, for the program's output.
        say: gets a line before each run.
    """

    command: Sequence[str]
    cluster: LocalCluster
    folder: Path
    say: Say

    def __post_init__(self) -> None:
        """Start to count the runs: each has its own prefix of values, topic and folder."""
        self._runs = 0

    def producer(self) -> dict[str, Run]:
        """Return the runs of the producer by their names."""
        self.say(f"producer: {_RECORDS} records at {RATE_RECORDS_PER_S}/s")
        runs = {"steady": self._to_the_end(self._topic("steady"), _RECORDS, keys=KEYS)}
        self.say("producer: records that are too large for the topic")
        refused = self._topic("refused", {"max.message.bytes": "10"})
        runs["refused"] = self._to_the_end(refused, _REFUSED_RECORDS)
        self.say("producer: SIGTERM while the broker is paused, so that records are in flight")
        runs["stopped"] = self._until(self._terminate_with_records_in_flight, "stopped")
        self.say(f"producer: SIGKILL after {_UNTIL_ENDED_S:g} s")
        runs["killed"] = self._until(VerifiableProgram.kill, "killed")
        self.say("producer: an unknown property")
        runs["unknown"] = self._refusal()
        return runs

    def consumer(self) -> dict[str, Run]:
        """Return the runs of the consumer by their names."""
        self.say("consumer: reads, commits and stops")
        topic, group = self._topic("read"), "readers"
        self._fill(topic, _RECORDS)
        runs = {"reading": self._read_to_end(topic, group)}
        self.say("consumer: the next member of its group, and a second one")
        prefix = self._fill(topic, _MORE_RECORDS)
        runs["continued"] = replace(
            self._read_to_end(topic, group, records=_MORE_RECORDS), prefix=prefix
        )
        runs["shared"] = self._shared(self._topic("shared"))
        return runs

    def outage(self, *, produces: bool, consumes: bool) -> dict[str, Run]:
        """Return the runs of an outage: the broker is paused for some seconds under load.

        Args:
            produces: whether the program is to be the producer.
            consumes: whether it is to be the consumer.
        """
        self.say(f"the broker is paused for {_PAUSE_S:g} s")
        topic = self._topic("outage")
        runs: dict[str, Run] = {}
        if consumes:
            self._fill(topic, _MORE_RECORDS)
            with self._program("consumer", _consumer_options(topic, "outage"), _CONSUMER) as reader:
                self._await(reader, lambda: len(self._lines(reader, "record_data")) > 0)
                self._pause()
                self._fill(topic, _MORE_RECORDS)
                runs["outage"] = self._finish_reading(reader, topic, 2 * _MORE_RECORDS)
        if produces:
            runs["paused"] = self._paused(self._topic("paused"))
        return runs

    def _paused(self, topic: str) -> Run:
        settings: Mapping[str, str] = {**_PRODUCER, **_SHORT_TIMEOUTS}
        notes: tuple[str, ...] = ()
        refused = self._to_the_end(topic, 1, settings=settings)
        if refused.exit_code == _USAGE:
            settings, notes = _PRODUCER, ("with its own time-outs: it refuses shorter ones",)
        records = round(RATE_RECORDS_PER_S * (_PAUSE_S - 2))
        prefix, options = self._producer_options(topic, records)
        with self._program("producer", options, settings) as program:
            self._await(program, lambda: len(self._lines(program, SUCCESS)) > 0)
            self._pause()
            run = self._end_of(program, topic, prefix, records)
        return replace(run, notes=notes)

    def _pause(self) -> None:
        with self._paused_broker():
            sleep_until(time.monotonic() + _PAUSE_S)

    @contextmanager
    def _paused_broker(self) -> Iterator[None]:
        (node,) = self.cluster.node_ids()
        self.cluster.pause(node)
        try:
            yield
        finally:
            self.cluster.resume(node)
        self.cluster.wait_until_healthy()

    def _terminate_with_records_in_flight(self, program: VerifiableProgram) -> None:
        """The broker goes on once the program has had the time to exit without them."""
        with self._paused_broker():
            sleep_until(time.monotonic() + _IN_FLIGHT_S)
            program.request_exit()
            program.wait(_IN_FLIGHT_S)
        if not program.wait(EXIT_TIMEOUT_S):
            program.kill()

    def _to_the_end(
        self, topic: str, records: int, *, keys: int = 0, settings: Mapping[str, str] = _PRODUCER
    ) -> Run:
        prefix, options = self._producer_options(topic, records, keys)
        with self._program("producer", options, settings) as program:
            return self._end_of(program, topic, prefix, records)

    def _end_of(self, program: VerifiableProgram, topic: str, prefix: int, records: int) -> Run:
        sampler, waited_ns = ProcessSampler.of(program.pid), 0

        def has_exited() -> bool:
            nonlocal waited_ns
            sample = sampler.sample() if sampler else None
            waited_ns += (sample and sample.waited_ns) or 0
            return program.has_exited()

        self._await(program, has_exited, quietly=True)
        if sampler:
            sampler.close()
        exit_code = program.exit_code()
        program.terminate()
        return replace(
            self._run_of(program, exit_code),
            stored=self._stored(topic),
            prefix=prefix,
            asked_records=records,
            waited_for_cpu_ms=waited_ns / 1e6,
        )

    def _until(self, end: Callable[[VerifiableProgram], None], name: str) -> Run:
        topic = self._topic(name)
        prefix, options = self._producer_options(topic, _LONG_RECORDS)
        with self._program("producer", options, _PRODUCER) as program:
            self._await(program, lambda: len(self._lines(program, SUCCESS)) > 0)
            sleep_until(time.monotonic() + _UNTIL_ENDED_S)
            end(program)
            return replace(
                self._run_of(program, program.exit_code()),
                stored=self._stored(topic),
                prefix=prefix,
                asked_records=_LONG_RECORDS,
            )

    def _refusal(self) -> Run:
        _, options = self._producer_options(self._topic("unknown"), 1)
        with self._program("producer", options, {**_PRODUCER, **_NO_SUCH_PROPERTY}) as program:
            self._await(program, program.has_exited, quietly=True)
            return self._run_of(program, program.exit_code())

    def _read_to_end(self, topic: str, group: str, records: int | None = None) -> Run:
        with self._program("consumer", _consumer_options(topic, group), _CONSUMER) as reader:
            return self._finish_reading(reader, topic, records)

    def _finish_reading(
        self, reader: VerifiableProgram, topic: str, records: int | None = None
    ) -> Run:
        """Wait until the consumer has reported all records and a commit, and end it."""
        stored = self._stored(topic)
        wanted = len(stored) if records is None else records
        self._await(reader, lambda: len(self._lines(reader, "record_data")) >= wanted, quietly=True)
        self._await(
            reader,
            lambda: len(self._lines(reader, "offsets_committed")) > 0,
            quietly=True,
            timeout_s=10,
        )
        reader.terminate()
        return replace(self._run_of(reader, reader.exit_code()), stored=stored)

    def _shared(self, topic: str) -> Run:
        """Return the run of a member whom a second one joins."""
        self._fill(topic, _MORE_RECORDS)
        options = _consumer_options(topic, "members")
        with self._program("consumer", options, _CONSUMER) as first:
            self._await(first, lambda: self._owned(first) == PARTITIONS, quietly=True)
            with self._program("consumer", options, _CONSUMER) as second:
                self._await(second, lambda: 0 < self._owned(second) < PARTITIONS, quietly=True)
                self._await(
                    first, lambda: 0 < self._owned(first) < PARTITIONS, quietly=True, timeout_s=10
                )
                first.terminate()
                return self._run_of(first, first.exit_code())

    def _owned(self, member: VerifiableProgram) -> int:
        owned: set[int] = set()
        for line in self._lines(member, "partitions_assigned", "partitions_revoked"):
            numbers = partition_numbers(line)
            owned = owned | numbers if line["name"] == "partitions_assigned" else owned - numbers
        return len(owned)

    @contextmanager
    def _program(
        self, role: Role, options: Sequence[str], settings: Mapping[str, str]
    ) -> Iterator[VerifiableProgram]:
        """Start the program and give it its settings; leaving the context kills it."""
        self._runs += 1
        folder = self.folder / f"run-{self._runs:02}"
        folder.mkdir()
        arguments = ["--bootstrap-server", self.cluster.bootstrap_servers, *options]
        dialect = CommandDialect("client", self.command)
        with VerifiableProgram(role, dialect, role, arguments, settings, {}, folder) as program:
            program.wait_started()
            program.send_settings()
            yield program

    def _await(
        self,
        program: VerifiableProgram,
        condition: Callable[[], bool],
        *,
        quietly: bool = False,
        timeout_s: float = _RUN_TIMEOUT_S,
    ) -> None:
        """Wait for a condition, or for the program's exit; quietly, a time-out is no error."""
        try:
            wait_until(
                lambda: condition() or program.has_exited(),
                awaiting=f"the first reports of the {program.name}",
                timeout_s=timeout_s,
                every_s=0.05,
                seen=program.log_excerpt,
            )
        except WaitTimeout:
            if not quietly:
                raise

    def _lines(self, program: VerifiableProgram, *names: str) -> list[Mapping[str, object]]:
        lines, _ = read_lines(program.output)
        return [line for line in lines if line.get("name") in names]

    @staticmethod
    def _run_of(program: VerifiableProgram, exit_code: int | None) -> Run:
        lines, malformed = read_lines(program.output)
        log = program.log.read_text(errors="replace").strip().splitlines()
        return Run(lines, malformed, exit_code, one_line(log[-1])[:200] if log else "")

    def _producer_options(self, topic: str, records: int, keys: int = 0) -> tuple[int, list[str]]:
        self._runs += 1
        options = {
            "--topic": topic,
            "--max-messages": records,
            "--throughput": RATE_RECORDS_PER_S,
            "--value-prefix": self._runs,
            **({"--repeating-keys": keys} if keys else {}),
        }
        return self._runs, [str(word) for option in options.items() for word in option]

    def _topic(self, name: str, config: Mapping[str, str] | None = None) -> str:
        topics.create_topic(
            self.cluster.bootstrap_servers,
            name,
            partitions=PARTITIONS,
            replication_factor=1,
            config=config or {},
        )
        return name

    def _fill(self, topic: str, records: int) -> int:
        """Write records with confluent-kafka; return the prefix of their values."""
        from confluent_kafka import Producer

        self._runs += 1
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers})
        for number in range(records):
            producer.produce(topic, f"{self._runs}.{number}", partition=number % PARTITIONS)
        if left := producer.flush(_READ_TIMEOUT_S):
            raise HarnessError(f"{left} of {records} records were not written to {topic}")
        return self._runs

    def _stored(self, topic: str) -> tuple[Stored, ...]:
        """Return all records of a topic, read to its end."""
        from confluent_kafka import Consumer, TopicPartition

        ends = topics.end_offsets(self.cluster.bootstrap_servers, topic)
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "ackbench-check"}
        )
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in ends])
            found: list[Stored] = []
            deadline = time.monotonic() + _READ_TIMEOUT_S
            while len(found) < sum(ends.values()):
                if time.monotonic() > deadline:
                    raise HarnessError(f"{topic} was not read to its end: {len(found)} records")
                message = consumer.poll(0.2)
                if message is not None and not message.error():
                    found.append(_stored_record(message))
            return tuple(found)
        finally:
            consumer.close()


def _consumer_options(topic: str, group: str) -> list[str]:
    return ["--topic", topic, "--group-id", group, "--verbose"]


def _stored_record(message: Message) -> Stored:
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise HarnessError("a record was read without its place")
    key, value = message.key(), message.value()
    return Stored(
        partition=partition,
        offset=offset,
        key=None if key is None else _text(key),
        value="" if value is None else _text(value),
        timestamp_ms=message.timestamp()[1],
    )


def _text(data: str | bytes) -> str:
    return data if isinstance(data, str) else data.decode(errors="replace")
