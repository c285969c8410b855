"""The clients of one trial: producers, the reader along, and the final read. What to judge lies elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.clients import admin
from experiments.clients.at_hand import ClientsAtHand
from experiments.clients.client_log import LEARNED
from experiments.clients.expiry import expires
from experiments.clients.group import GroupEnding
from experiments.clients.groups import ConsumerGroups
from experiments.clients.producer import ProducerProcess
from experiments.clients.reader import Ending, ReaderProcess
from experiments.clients.settings import delivery_timeout_ms, transaction_timeout_ms
from experiments.clients.under_test import Clients, ProducerUnderTest, ReaderUnderTest
from experiments.clock import monotonic_s, now_ns
from experiments.jobs import WARM_UP_TOPIC, group_jobs, output_of, producer_jobs, reader_job, reading_of, topic_of
from experiments.journal import Event
from experiments.ledger.record import ProducerSummary
from experiments.ledger.schema import EPOCHS
from experiments.plan import TrialSpec
from experiments.reading_back import READ_TIMEOUT_S, ReadBack, Reading
from experiments.replaying import Replays, replays_of
from infra.cluster import Cluster
from infra.waiting import pause_until, wait_until

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
    output: ReadBack | None = None
    """What copiers made of the log; `None`: nothing was copied."""
    groups: tuple[GroupEnding, ...] = ()
    """How far each consumer group came."""
    refused_offsets: dict[int, int] = field(default_factory=dict)
    """Of each partition that has one, where the first batch begins that a reader who checks CRCs is refused."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions began at the end, of which the first records had expired."""
    replays: Replays | None = None
    """`None`: nothing is asked of the records' fields."""


@dataclass(frozen=True)
class Bench:
    """A topic with warm producers and a reader that fetches already."""

    spec: TrialSpec
    cluster: Cluster
    topic: str
    token: int
    producers: tuple[ProducerUnderTest, ...]
    reader: ReaderUnderTest
    groups: ConsumerGroups

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
        topics = (topic, *filter(None, [output_of(spec)]))
        for name in topics:
            admin.create_topic(cluster.admin_servers, name, partitions=spec.partitions, replication_factor=spec.replication_factor, config=spec.topic)
        with ExitStack() as running:
            producers = tuple(running.enter_context(clients.producer(job)) for job in producer_jobs(spec, servers, topic, token, folder))
            reader = running.enter_context(clients.reader(reader_job(spec, servers, topic, token, folder)))
            groups = running.enter_context(ConsumerGroups.running(tuple(group_jobs(spec, servers, topic, token, folder))))
            reader.wait_ready()
            for producer in producers:
                producer.wait_ready()
            groups.wait_ready()
            yield cls(spec, cluster, topic, token, producers, reader, groups)
        for name in topics:
            admin.delete_topic(cluster.admin_servers, name)

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
        return ClientsAtHand(tuple(producer for producer in self.producers if isinstance(producer, ProducerProcess)), self.groups)

    def client_events(self) -> Iterator[Event]:
        """Give what the clients' own logs tell so far; a reader of copies learns who leads another topic, which is no matter of the trial's."""
        for client in self._clients():
            of_others = {LEARNED} if client is self.reader and output_of(self.spec) else set()
            yield from (event for event in client.events() if event.kind not in of_others)

    def _clients(self) -> tuple[ProducerUnderTest | ReaderUnderTest | ConsumerGroups, ...]:
        return (*self.producers, self.reader, self.groups)

    def read_to_the_end(self, producers: tuple[ProducerSummary, ...]) -> Measured:
        """Fix the end offsets, let the reader along get there, and read the whole log.

        Raises:
            HarnessError: a partition could not be read to its end.
        """
        back = self._read_back()
        told = tuple(producer.completed(summary, back.log) for producer, summary in zip(self.producers, producers, strict=True))
        groups = self.groups.finish(back.shown_offsets, READ_TIMEOUT_S)
        output = self._read_output()
        reader = self.reader.finish((output or back).shown_offsets, READ_TIMEOUT_S)
        if back.begin_offsets and output is None:
            back = back.with_expired(self.reader.logged_before(back.begin_offsets))
        settings = (self.producers[0].effective_settings(), self.groups.effective_settings() or self.reader.effective_settings())
        measured = Measured(told, back.end_offsets, back.log, self._epochs(), reader, *settings, output, groups, back.refused_offsets)
        return replace(measured, begin_offsets=back.begin_offsets, replays=self._replays(back))

    def _replays(self, back: ReadBack) -> Replays | None:
        """Replay the log where it is noted what records are made of; the third time from the middle of the load on."""
        if not self.spec.workload.headers:
            return None
        at_ms = self.producers[0].began_ns() // 1_000_000 + round(self.spec.workload.duration_s * 500)
        return replays_of(self.cluster.bootstrap_servers, self.topic, back, self.token, reading_of(self.spec, self.token)[0], at_ms)

    def _read_back(self) -> ReadBack:
        return self._read(self.topic, in_transactions=self.spec.workload.transaction_records > 0)

    def _read_output(self) -> ReadBack | None:
        output = output_of(self.spec)
        return None if output is None else self._read(output, in_transactions=self.spec.workload.commits == "within")

    def _read(self, topic: str, *, in_transactions: bool) -> ReadBack:
        """Read a log; of transactions also what of it is shown, once the coordinator had the time to decide on each."""
        reading = Reading(self.cluster, topic, self.token, *reading_of(self.spec, self.token))
        if expires(self.spec.topic, self.cluster.broker_settings):
            reading = reading.held()
        if not in_transactions:
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
        tables["reads"] = pa.concat_tables([self.reader.reads(attempts), self.groups.reads()])
        if measured.replays is not None:
            sent = [producer.sent() for producer in self.producers if isinstance(producer, ProducerProcess)]
            tables |= {"replays": measured.replays.table, "sent": pa.concat_tables(sent)}
        if self.spec.workload.tells_serving:
            telling = [client for client in (*self.producers, self.reader) if isinstance(client, ProducerProcess | ReaderProcess)]
            tables["served"] = pa.concat_tables([client.served() for client in telling])
        if measured.output is not None:
            tables["output"] = measured.output.log
        tables["transactions"] = pa.concat_tables([producer.transactions(table) for producer, table in attempted])
        for client in self._clients():
            client.forget()  # the tables hold all of it, in a tenth of the room
        return tables
