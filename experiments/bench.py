"""The clients of one trial: producers, the reader along, and the final read. What to judge lies elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.clients import admin
from experiments.clients.at_hand import ClientsAtHand
from experiments.clients.group import ConsumerGroup, GroupEnding, GroupJob
from experiments.clients.group_settings import alone
from experiments.clients.java_value import TextValues, run_in_records, tag_of
from experiments.clients.producer import ProducerProcess
from experiments.clients.producer_job import ProducerJob
from experiments.clients.reader import Ending, ReaderJob
from experiments.clients.settings import delivery_timeout_ms, transaction_timeout_ms
from experiments.clients.under_test import Clients, ProducerUnderTest, ReaderUnderTest
from experiments.clock import monotonic_s, now_ns
from experiments.journal import Event
from experiments.ledger.record import ProducerSummary
from experiments.ledger.schema import EPOCHS
from experiments.plan import TrialSpec
from experiments.reading_back import ISOLATION, READ_TIMEOUT_S, ReadBack, Reading
from infra.cluster import Cluster
from infra.waiting import pause_until, wait_until

WARM_UP_TOPIC: Final = "ackbench-warm-up"
LEAD_NS: Final = 200_000_000
"""From saying "begin" to the first intended time: every producer has heard it by then."""
FLOW_TIMEOUT_S: Final = 10.0
SETTLE_MARGIN_S: Final = 20.0
EXPIRY_INTERVAL: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY_INTERVAL_MS: Final = 10_000
"""Kafka's default of how often a coordinator looks for transactions that are past their timeout."""


@dataclass(frozen=True)
class Measured:
    """What the end of a trial gave."""

    producers: tuple[ProducerSummary, ...]
    end_offsets: dict[int, int]
    log: pa.Table
    epochs: pa.Table
    """Each replica's leader-epoch checkpoint, when the log had been read."""
    reader: Ending
    """How far the reader along came: that it did not come to the end is a finding."""
    producer_settings: dict[str, str]
    """Effective: what the clients were given, and of their own defaults what they tell."""
    consumer_settings: dict[str, str]
    group: GroupEnding | None = None
    """How far the consumer group came; `None`: there was none."""
    refused_offsets: dict[int, int] = field(default_factory=dict)
    """Of each partition that has one, where the first batch begins that a reader who checks CRCs is refused."""


@dataclass(frozen=True)
class Bench:
    """A topic with warm producers and a reader that fetches already."""

    spec: TrialSpec
    cluster: Cluster
    topic: str
    token: int
    producers: tuple[ProducerUnderTest, ...]
    reader: ReaderUnderTest
    group: ConsumerGroup

    @classmethod
    @contextmanager
    def prepared(cls, spec: TrialSpec, cluster: Cluster, clients: Clients, folder: Path, token: int) -> Iterator[Bench]:
        """Make the topic, start the clients, and return once all are warm; end every client on the way out.

        Args:
            spec: the trial.
            cluster: whole.
            clients: which clients are under test.
            folder: the trial's, where the clients write.
            token: whose records are ours.

        Raises:
            HarnessError: the topic or a client could not be made ready.
        """
        topic = topic_of(spec)
        folder = folder / "clients"
        folder.mkdir()
        servers = cluster.bootstrap_servers
        admin.ensure_topic(cluster.admin_servers, WARM_UP_TOPIC, partitions=2 * len(cluster.node_ids()), replication_factor=1)
        admin.create_topic(cluster.admin_servers, topic, partitions=spec.partitions, replication_factor=spec.replication_factor, config=spec.topic)
        with ExitStack() as running:
            producers = tuple(running.enter_context(clients.producer(job)) for job in _producer_jobs(spec, servers, topic, token, folder))
            reader = running.enter_context(clients.reader(_reader_job(spec, servers, topic, token, folder)))
            group = running.enter_context(ConsumerGroup.running(_group_job(spec, servers, topic, token, folder)))
            reader.wait_ready()
            for producer in producers:
                producer.wait_ready()
            group.wait_ready()
            yield cls(spec, cluster, topic, token, producers, reader, group)
        admin.delete_topic(cluster.admin_servers, topic)

    def begin(self) -> int:
        """Start the load; return the first record's intended time, nanoseconds since the epoch."""
        begin_ns = now_ns() + LEAD_NS
        for number, producer in enumerate(self.producers):
            producer.begin(begin_ns + round(number * 1e9 / self.spec.workload.rate_records_per_s))
        return min(producer.began_ns() for producer in self.producers)

    def wait_until_flowing(self) -> None:
        """Return when every producer has had a record acknowledged.

        Raises:
            WaitTimeout: nothing flows.
        """
        wait_until(
            lambda: all(producer.acked_records() for producer in self.producers),
            awaiting="the first acknowledgement of each producer",
            timeout_s=FLOW_TIMEOUT_S,
            seen=lambda: f"{[producer.acked_records() for producer in self.producers]} records acknowledged",
        )

    def wait_until_sent(self, load_begin_ns: int) -> None:
        """Return at the end of the schedule."""
        pause_until(monotonic_s(load_begin_ns) + self.spec.workload.duration_s)

    def wait_until_settled(self) -> tuple[ProducerSummary, ...]:
        """Return when every record is settled, or its delivery timeout has passed.

        Raises:
            HarnessError: a producer ended on the way, or was not done in time.
        """
        patience_s = delivery_timeout_ms(self.spec.producer) / 1000 + SETTLE_MARGIN_S
        if self.spec.workload.transaction_records:
            patience_s += 2 * transaction_timeout_ms(self.spec.producer) / 1000
        return tuple(producer.wait_done(patience_s) for producer in self.producers)

    def at_hand(self) -> ClientsAtHand:
        """Return the clients that a fault may be about."""
        return ClientsAtHand(tuple(producer for producer in self.producers if isinstance(producer, ProducerProcess)), self.group)

    def client_events(self) -> Iterator[Event]:
        """Give what the clients' own logs tell so far."""
        for client in self._clients():
            yield from client.events()

    def _clients(self) -> tuple[ProducerUnderTest | ReaderUnderTest | ConsumerGroup, ...]:
        return (*self.producers, self.reader, self.group)

    def read_to_the_end(self, producers: tuple[ProducerSummary, ...]) -> Measured:
        """Fix the end offsets, let the reader along get there, and read the whole log.

        Raises:
            HarnessError: a partition could not be read to its end.
        """
        back = self._read_back()
        told = tuple(producer.completed(summary, back.log) for producer, summary in zip(self.producers, producers, strict=True))
        reader = self.reader.finish(back.shown_offsets, READ_TIMEOUT_S)
        group = self.group.finish(back.shown_offsets, READ_TIMEOUT_S)
        settings = (self.producers[0].effective_settings(), self.group.effective_settings() or self.reader.effective_settings())
        return Measured(told, back.end_offsets, back.log, self._epochs(), reader, *settings, group, back.refused_offsets)

    def _read_back(self) -> ReadBack:
        """Read the log; of transactions also what of it is shown, once the coordinator had the time to decide on each."""
        reading = Reading(self.cluster, self.topic, self.token, *reading_of(self.spec, self.token))
        if not self.spec.workload.transaction_records:
            return reading.plain()
        looks_every_ms = int(self.cluster.broker_settings.get(EXPIRY_INTERVAL, EXPIRY_INTERVAL_MS))
        return reading.of_transactions((transaction_timeout_ms(self.spec.producer) + looks_every_ms) / 1000)

    def _epochs(self) -> pa.Table:
        told = self.cluster.leader_epochs(self.topic)
        columns = [[epoch.node_id for epoch in told], [epoch.partition for epoch in told], [epoch.leader_epoch for epoch in told]]
        return pa.table([*columns, [epoch.start_offset for epoch in told]], schema=EPOCHS)

    def tables(self, measured: Measured) -> dict[str, pa.Table]:
        """Return the ledger's tables, the events apart."""
        attempted = [(producer, producer.attempts(measured.log)) for producer in self.producers]
        attempts = pa.concat_tables([table for _, table in attempted])
        tables = {"attempts": attempts, "log": measured.log, "epochs": measured.epochs}
        tables["reads"] = pa.concat_tables([self.reader.reads(attempts), self.group.reads()])
        tables["transactions"] = pa.concat_tables([producer.transactions(table) for producer, table in attempted])
        for client in self._clients():
            client.forget()  # the tables hold all of it, in a tenth of the room
        return tables


def topic_of(spec: TrialSpec) -> str:
    """Return the name of the trial's own topic."""
    return f"trial-{spec.trial_id}"


def _producer_jobs(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> Iterator[ProducerJob]:
    """Share the schedule out: each producer has its part of the rate and of the records."""
    load = spec.workload
    for number in range(load.producers):
        yield ProducerJob(
            producer=number,
            bootstrap_servers=servers,
            topic=topic,
            warm_up_topic=WARM_UP_TOPIC,
            settings=_settings(spec.producer, spec, f"{topic}-{number}"),
            passed=_settings(spec.passed.producer, spec, f"{topic}-{number}") if spec.passed else None,
            create_time=spec.topic.get("message.timestamp.type", "CreateTime") == "CreateTime",
            records=load.records // load.producers + (number < load.records % load.producers),
            rate_records_per_s=load.rate_records_per_s / load.producers,
            record_size_bytes=load.record_size_bytes,
            keys=load.keys,
            pairs=load.pairs,
            pair_apart_records=load.pair_apart_records,
            hot_key_share=load.hot_key_share,
            round_robin_partitions=spec.partitions if load.round_robin else 0,
            transaction_records=load.transaction_records,
            abort_every=load.abort_every,
            token=token,
            folder=folder,
        )


def reading_of(spec: TrialSpec, token: int) -> tuple[dict[str, str], TextValues | None]:
    """Return the settings of the final read, and how the values look that it finds; it is librdkafka that reads, whoever wrote."""
    isolation = {ISOLATION: spec.consumer[ISOLATION]} if ISOLATION in spec.consumer else {}
    settings = spec.consumer if spec.client == "librdkafka" and not spec.passed else isolation
    return settings, text_values_of(spec, token)


def text_values_of(spec: TrialSpec, token: int) -> TextValues | None:
    """Return how the trial's values look where they are text."""
    rate = spec.workload.rate_records_per_s / spec.workload.producers
    return TextValues(tag_of(token), run_in_records(rate)) if spec.client == "java" else None


def _settings(given: Mapping[str, str], spec: TrialSpec, name: str) -> dict[str, str]:
    """Return what one producer is given: a `transactional.id` is its own, or it would fence the others."""
    ids = {"transactional.id": f"{spec.producer['transactional.id']}-{name}"} if spec.workload.transaction_records else {}
    return {**given, **ids}


def _reader_job(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> ReaderJob:
    text = text_values_of(spec, token)
    return ReaderJob(
        bootstrap_servers=servers,
        topic=topic,
        partitions=spec.partitions,
        settings=alone(spec.consumer),
        passed=alone(spec.passed.consumer) if spec.passed else None,
        run_in_records=text.run_in_records if text else 0,
        token=token,
        folder=folder,
    )


def _group_job(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> GroupJob:
    return GroupJob(
        group=f"{topic}-group",
        members=spec.workload.consumers,
        commit=spec.workload.commit,
        commit_every_records=spec.workload.commit_every_records,
        bootstrap_servers=servers,
        topic=topic,
        partitions=spec.partitions,
        settings=spec.passed.consumer if spec.passed else spec.consumer,
        token=token,
        folder=folder,
    )
