"""The clients of one trial: producers, the reader along, and the final read. What to judge lies elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.clients.consumer.expiry import expires
from experiments.clients.consumer.process import ConsumerEnd, ConsumerJob, ConsumerProcess
from experiments.clients.group.groups import ConsumerGroups, GroupEnd, GroupJob
from experiments.clients.group.member import Output
from experiments.clients.interface import ClientProcesses, Clients, ConcurrentConsumer, Producer
from experiments.clients.librdkafka import topics
from experiments.clients.librdkafka.log import LEARNED
from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.process import ProducerProcess
from experiments.clients.record.layout import TextValueFormat, run_in_records, tag_of
from experiments.clients.settings.group_members import alone
from experiments.clients.settings.librdkafka import (
    copier_settings,
    delivery_timeout_ms,
    transaction_timeout_ms,
)
from experiments.events.clock import monotonic_s, now_ns
from experiments.events.journal import Event
from experiments.ledger.record import KeyOptions, ProducerSummary
from experiments.ledger.schema import EPOCHS
from experiments.sweep.plan import TrialSpec
from experiments.trial.final_read import (
    ISOLATION,
    READ_TIMEOUT_S,
    FinalRead,
    FinalReader,
    ReplayResult,
    replays_of,
)
from infra.cluster.interface import Cluster
from infra.process.waiting import pause_until, wait_until

# ---------- What each of a trial's clients is to do, from its plan. Pure.


WARM_UP_TOPIC: Final = "ackbench-warm-up"
COPIERS_ID: Final = "ackbench-copier"
"""A copier's `transactional.id`: its trial's topic and its own number stand behind it."""


def topic_of(spec: TrialSpec) -> str:
    """Return the name of the trial's own topic."""
    return f"trial-{spec.trial_id}"


def output_of(spec: TrialSpec) -> str | None:
    """Return the name of the topic that is copied to; `None`: nothing is copied."""
    return f"{topic_of(spec)}-output" if spec.workload.kind == "copy" else None


def producer_jobs(
    spec: TrialSpec, servers: str, topic: str, token: int, folder: Path
) -> Iterator[ProducerJob]:
    """Share the schedule out: each producer has its part of the rate and of the records."""
    load = spec.workload
    for number in range(load.producers):
        yield ProducerJob(
            producer=number,
            bootstrap_servers=servers,
            topic=topic,
            warm_up_topic=WARM_UP_TOPIC,
            settings=_settings(spec.producer, spec, f"{topic}-{number}"),
            passed=_settings(spec.passed.producer, spec, f"{topic}-{number}")
            if spec.passed
            else None,
            create_time=spec.topic.get("message.timestamp.type", "CreateTime") == "CreateTime",
            records=load.records // load.producers + (number < load.records % load.producers),
            rate_records_per_s=load.rate_records_per_s / load.producers,
            record_size_bytes=load.record_size_bytes,
            keys=load.keys,
            pairs=load.pairs,
            pair_apart_records=load.pair_apart_records,
            hot_key_share=load.hot_key_share,
            round_robin_partitions=spec.partitions if load.round_robin else 0,
            headers=load.headers,
            record_serving_brokers=load.record_serving_brokers,
            transaction_records=load.transaction_records,
            abort_every=load.abort_every,
            token=token,
            folder=folder,
        )


def reading_of(spec: TrialSpec, token: int) -> tuple[dict[str, str], TextValueFormat | None]:
    """Return the settings of the final read, and how the values look that it finds; it is librdkafka that reads, whoever wrote."""
    isolation = {ISOLATION: spec.consumer[ISOLATION]} if ISOLATION in spec.consumer else {}
    settings = spec.consumer if spec.client == "librdkafka" and not spec.passed else isolation
    return settings, text_values_of(spec, token)


def text_values_of(spec: TrialSpec, token: int) -> TextValueFormat | None:
    """Return how the trial's values look where they are text."""
    rate = spec.workload.rate_records_per_s / spec.workload.producers
    return TextValueFormat(tag_of(token), run_in_records(rate)) if spec.client == "java" else None


def _settings(given: Mapping[str, str], spec: TrialSpec, name: str) -> dict[str, str]:
    """Return what one producer is given: a `transactional.id` is its own, or it would fence the others."""
    ids = (
        {"transactional.id": f"{spec.producer['transactional.id']}-{name}"}
        if spec.workload.transaction_records
        else {}
    )
    return {**given, **ids}


def reader_job(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> ConsumerJob:
    """Return what the reader along is to do: what is copied is read where it is copied to."""
    text = text_values_of(spec, token)
    return ConsumerJob(
        bootstrap_servers=servers,
        topic=output_of(spec) or topic,
        partitions=spec.partitions,
        settings=alone(spec.consumer),
        passed=alone(spec.passed.consumer) if spec.passed else None,
        record_serving_brokers=spec.workload.record_serving_brokers,
        run_in_records=text.run_in_records if text else 0,
        token=token,
        folder=folder,
    )


def group_jobs(
    spec: TrialSpec, servers: str, topic: str, token: int, folder: Path
) -> Iterator[GroupJob]:
    """Yield what each consumer group is to do: read, or copy."""
    load = spec.workload
    for number in range(1, load.groups + 1) if load.members else ():
        yield _group_job(spec, number, servers, topic, token, folder)


def _group_job(
    spec: TrialSpec, number: int, servers: str, topic: str, token: int, folder: Path
) -> GroupJob:
    load = spec.workload
    return GroupJob(
        group=f"{topic}-group-{number}",
        number=number,
        groups=load.groups,
        members=load.members,
        slow_members=load.slow_members,
        slow_records_per_s=load.slow_records_per_s,
        auto_offset_reset=load.auto_offset_reset,
        commit=load.commits,
        commit_every_records=load.commit_every_records,
        bootstrap_servers=servers,
        topic=topic,
        partitions=spec.partitions,
        settings=spec.passed.consumer if spec.passed else spec.consumer,
        token=token,
        folder=folder,
        output=_output(spec, topic),
    )


def _output(spec: TrialSpec, topic: str) -> Output | None:
    load, name = spec.workload, output_of(spec)
    if name is None:
        return None
    return Output(
        topic=name,
        partitions=spec.partitions,
        settings=copier_settings(
            spec.passed.producer if spec.passed else spec.producer,
            f"{COPIERS_ID}-{topic}" if load.commits == "within" else None,
        ),
        record_size_bytes=load.record_size_bytes,
        keying=KeyOptions(
            keys=load.keys,
            pairs=load.pairs,
            pair_apart_records=load.pair_apart_records,
            hot_key_share=load.hot_key_share,
        ),
    )


LEAD_NS: Final = 200_000_000
"""From saying "begin" to the first intended time: every producer has heard it by then."""
FLOW_TIMEOUT_S: Final = 10.0
SETTLE_MARGIN_S: Final = 20.0
EXPIRY_INTERVAL: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY_INTERVAL_MS: Final = 10_000
"""Kafka's default of how often a coordinator looks for transactions that are past their timeout."""


@dataclass(frozen=True)
class ClientOutput:
    """What the end of a trial gave."""

    producers: tuple[ProducerSummary, ...]
    end_offsets: dict[int, int]
    log: pa.Table
    epochs: pa.Table
    """Each replica's leader-epoch checkpoint, when the log had been read."""
    reader: ConsumerEnd
    """How far the reader along came: that it did not come to the end is a finding."""
    producer_settings: dict[str, str]
    """Effective: what the clients were given, and of their own defaults what they tell."""
    consumer_settings: dict[str, str]
    output: FinalRead | None = None
    """What copiers made of the log; `None`: nothing was copied."""
    groups: tuple[GroupEnd, ...] = ()
    """How far each consumer group came."""
    refused_offsets: dict[int, int] = field(default_factory=dict)
    """Of each partition that has one, where the first batch begins that a reader who checks CRCs is refused."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions began at the end, of which the first records had expired."""
    replays: ReplayResult | None = None
    """`None`: nothing is asked of the records' fields."""


@dataclass(frozen=True)
class TrialClients:
    """A topic with warm producers and a reader that fetches already."""

    spec: TrialSpec
    cluster: Cluster
    topic: str
    token: int
    producers: tuple[Producer, ...]
    reader: ConcurrentConsumer
    groups: ConsumerGroups

    @classmethod
    @contextmanager
    def prepared(
        cls, spec: TrialSpec, cluster: Cluster, clients: Clients, folder: Path, token: int
    ) -> Iterator[TrialClients]:
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
        topics.ensure_topic(
            cluster.admin_servers,
            WARM_UP_TOPIC,
            partitions=2 * len(cluster.node_ids()),
            replication_factor=1,
        )
        names = (topic, *filter(None, [output_of(spec)]))
        for name in names:
            topics.create_topic(
                cluster.admin_servers,
                name,
                partitions=spec.partitions,
                replication_factor=spec.replication_factor,
                config=spec.topic,
            )
        with ExitStack() as running:
            producers = tuple(
                running.enter_context(clients.producer(job))
                for job in producer_jobs(spec, servers, topic, token, folder)
            )
            reader = running.enter_context(
                clients.reader(reader_job(spec, servers, topic, token, folder))
            )
            groups = running.enter_context(
                ConsumerGroups.running(tuple(group_jobs(spec, servers, topic, token, folder)))
            )
            reader.wait_ready()
            for producer in producers:
                producer.wait_ready()
            groups.wait_ready()
            yield cls(spec, cluster, topic, token, producers, reader, groups)
        for name in names:
            topics.delete_topic(cluster.admin_servers, name)

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
            seen=lambda: (
                f"{[producer.acked_records() for producer in self.producers]} records acknowledged"
            ),
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

    def at_hand(self) -> ClientProcesses:
        """Return the clients that a fault may be about."""
        return ClientProcesses(
            tuple(producer for producer in self.producers if isinstance(producer, ProducerProcess)),
            self.groups,
        )

    def client_events(self) -> Iterator[Event]:
        """Give what the clients' own logs tell so far; a reader of copies learns who leads another topic, which is no matter of the trial's."""
        for client in self._clients():
            of_others = {LEARNED} if client is self.reader and output_of(self.spec) else set()
            yield from (event for event in client.events() if event.kind not in of_others)

    def _clients(self) -> tuple[Producer | ConcurrentConsumer | ConsumerGroups, ...]:
        return (*self.producers, self.reader, self.groups)

    def read_to_the_end(self, producers: tuple[ProducerSummary, ...]) -> ClientOutput:
        """Fix the end offsets, let the reader along get there, and read the whole log.

        Raises:
            HarnessError: a partition could not be read to its end.
        """
        back = self._read_back()
        told = tuple(
            producer.completed(summary, back.log)
            for producer, summary in zip(self.producers, producers, strict=True)
        )
        groups = self.groups.finish(back.shown_offsets, READ_TIMEOUT_S)
        output = self._read_output()
        reader = self.reader.finish((output or back).shown_offsets, READ_TIMEOUT_S)
        if back.begin_offsets and output is None:
            back = back.with_expired(self.reader.logged_before(back.begin_offsets))
        settings = (
            self.producers[0].effective_settings(),
            self.groups.effective_settings() or self.reader.effective_settings(),
        )
        measured = ClientOutput(
            told,
            back.end_offsets,
            back.log,
            self._epochs(),
            reader,
            *settings,
            output,
            groups,
            back.refused_offsets,
        )
        return replace(measured, begin_offsets=back.begin_offsets, replays=self._replays(back))

    def _replays(self, back: FinalRead) -> ReplayResult | None:
        """Replay the log where it is noted what records are made of; the third time from the middle of the load on."""
        if not self.spec.workload.headers:
            return None
        at_ms = self.producers[0].began_ns() // 1_000_000 + round(
            self.spec.workload.duration_s * 500
        )
        return replays_of(
            self.cluster.bootstrap_servers,
            self.topic,
            back,
            self.token,
            reading_of(self.spec, self.token)[0],
            at_ms,
        )

    def _read_back(self) -> FinalRead:
        return self._read(self.topic, in_transactions=self.spec.workload.transaction_records > 0)

    def _read_output(self) -> FinalRead | None:
        output = output_of(self.spec)
        return (
            None
            if output is None
            else self._read(output, in_transactions=self.spec.workload.commits == "within")
        )

    def _read(self, topic: str, *, in_transactions: bool) -> FinalRead:
        """Read a log; of transactions also what of it is shown, once the coordinator had the time to decide on each."""
        reading = FinalReader(self.cluster, topic, self.token, *reading_of(self.spec, self.token))
        if expires(self.spec.topic, self.cluster.broker_settings):
            reading = reading.held()
        if not in_transactions:
            return reading.plain()
        looks_every_ms = int(self.cluster.broker_settings.get(EXPIRY_INTERVAL, EXPIRY_INTERVAL_MS))
        return reading.of_transactions(
            (transaction_timeout_ms(self.spec.producer) + looks_every_ms) / 1000
        )

    def _epochs(self) -> pa.Table:
        told = self.cluster.leader_epochs(self.topic)
        columns = [
            [epoch.node_id for epoch in told],
            [epoch.partition for epoch in told],
            [epoch.leader_epoch for epoch in told],
        ]
        return pa.table([*columns, [epoch.start_offset for epoch in told]], schema=EPOCHS)

    def tables(self, measured: ClientOutput) -> dict[str, pa.Table]:
        """Return the ledger's tables, the events apart."""
        attempted = [(producer, producer.attempts(measured.log)) for producer in self.producers]
        attempts = pa.concat_tables([table for _, table in attempted])
        tables = {"attempts": attempts, "log": measured.log, "epochs": measured.epochs}
        tables["reads"] = pa.concat_tables([self.reader.reads(attempts), self.groups.reads()])
        if measured.replays is not None:
            sent = [
                producer.sent()
                for producer in self.producers
                if isinstance(producer, ProducerProcess)
            ]
            tables |= {"replays": measured.replays.table, "sent": pa.concat_tables(sent)}
        if self.spec.workload.record_serving_brokers:
            telling = [
                client
                for client in (*self.producers, self.reader)
                if isinstance(client, ProducerProcess | ConsumerProcess)
            ]
            tables["served"] = pa.concat_tables([client.served() for client in telling])
        if measured.output is not None:
            tables["output"] = measured.output.log
        tables["transactions"] = pa.concat_tables(
            [producer.transactions(table) for producer, table in attempted]
        )
        for client in self._clients():
            client.forget()  # the tables hold all of it, in a tenth of the room
        return tables
