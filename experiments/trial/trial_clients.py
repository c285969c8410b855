"""The clients of one trial, working together: producers, concurrent consumer and consumer groups.

What each of them is to do is in `trial.jobs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import EPOCHS, LOG
from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.sweep.retention import retention_of
from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.process import ConsumerResult
from ackbench.experiments.trial.clients.group.groups import ConsumerGroups
from ackbench.experiments.trial.clients.group.jobs import GroupResult
from ackbench.experiments.trial.clients.interface import (
    ClientFactory,
    ClientIdentity,
    ClientProcesses,
    ConcurrentConsumer,
    Producer,
    TrialClient,
)
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.librdkafka.log import LEADER_LEARNED
from ackbench.experiments.trial.clients.record.layout import IDENTITY_HEADER
from ackbench.experiments.trial.clients.settings.librdkafka import (
    delivery_timeout_ms,
    transaction_timeout_ms,
)
from ackbench.experiments.trial.events.clock import monotonic_s, now_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.final_read import (
    READ_TIMEOUT_S,
    Acknowledged,
    FinalRead,
    FinalReader,
    ReplayResult,
    acknowledged_in,
    replay_log,
)
from ackbench.experiments.trial.jobs import (
    TrialNames,
    consumer_job,
    final_read_settings,
    group_jobs,
    producer_jobs,
    text_value_format,
)
from ackbench.experiments.trial.stall_sampler import WatchedProcess
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import sleep_until, wait_until

_PASSED_ON: Final[Mapping[Identity, str]] = MappingProxyType(
    {
        "value": "the values that it reads, unchanged",
        "header": f"the header {IDENTITY_HEADER.decode()}",
        "key": "the keys that it reads",
        "text": "the text that is {id} in copy.value, within its values",
    }
)
LEAD_NS: Final = 200_000_000
"""From the request to begin to the first intended time, so that every producer gets it in time."""
FLOW_TIMEOUT_S: Final = 30.0
SETTLE_MARGIN_S: Final = 20.0
TRANSACTION_CLEANUP_INTERVAL: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
DEFAULT_TRANSACTION_CLEANUP_INTERVAL_MS: Final = 10_000
"""Kafka's default interval at which a coordinator aborts transactions past their timeout."""


@dataclass(frozen=True)
class ClientResults:
    """What the clients and the final read of a trial returned."""

    producers: tuple[ProducerSummary, ...]
    end_offsets: dict[int, int]
    log: pa.Table
    epochs: pa.Table
    """Each replica's leader-epoch checkpoint after the final read; schema `EPOCHS`."""
    consumer: ConsumerResult
    """How far the concurrent consumer read; not reaching the end is a result, not an error."""
    producer_settings: dict[str, str]
    """Effective settings: those that were passed, and of the client's defaults what it reports."""
    consumer_settings: dict[str, str]
    output: FinalRead | None = None
    """The final read of the copiers' output topic; `None`: there are no copiers."""
    groups: tuple[GroupResult, ...] = ()
    """How far each consumer group committed."""
    crc_failed_offsets: dict[int, int] = field(default_factory=dict)
    """Where the first batch with a wrong CRC begins, of each partition that has one."""
    begin_offsets: dict[int, int] = field(default_factory=dict)
    """Where partitions begin whose first records have expired; the others begin at 0."""
    replays: ReplayResult | None = None
    """`None`: the trial does not check its records' fields."""
    hung: tuple[str, ...] = ()
    """The clients that hung, one sentence each; they were killed."""


@dataclass(frozen=True)
class TrialClients:
    """A topic with warm producers, a consumer that already fetches, and groups that have joined."""

    spec: TrialSpec
    names: TrialNames
    cluster: Cluster
    token: int
    """Identifies the trial's records."""
    producers: tuple[Producer, ...]
    consumer: ConcurrentConsumer
    groups: ConsumerGroups

    @classmethod
    @contextmanager
    def start(
        cls,
        spec: TrialSpec,
        names: TrialNames,
        cluster: Cluster,
        factory: ClientFactory,
        folder: Path,
        token: int,
    ) -> Iterator[TrialClients]:
        """Create the topic, start the clients, and yield once all are warm; end every client.

        The topics stay: `delete_topics` deletes them.

        Args:
            spec: the trial.
            names: of what it makes in the cluster.
            cluster: a healthy cluster.
            factory: starts the clients under test.
            folder: the trial's folder, where the clients write.
            token: identifies the trial's records.

        Raises:
            HarnessError: the topic or a client did not become ready.
        """
        folder = folder / "clients"
        folder.mkdir()
        servers = cluster.bootstrap_servers
        _create_topics(spec, names, cluster)
        with ExitStack() as running:
            producers = tuple(
                running.enter_context(factory.producer(job))
                for job in producer_jobs(spec, names, servers, token, folder)
            )
            consumer = running.enter_context(
                factory.consumer(consumer_job(spec, names, servers, token, folder))
            )
            groups = running.enter_context(
                ConsumerGroups.running(
                    tuple(group_jobs(spec, names, servers, token, folder)), factory.member
                )
            )
            consumer.wait_ready()
            for producer in producers:
                producer.wait_ready()
            groups.wait_ready()
            yield cls(spec, names, cluster, token, producers, consumer, groups)

    @property
    def topic(self) -> str:
        """The name of the trial's topic."""
        return self.names.topic

    def processes(self) -> ClientProcesses:
        """Return the client processes that a fault can act on."""
        processes = (producer.restartable for producer in self.producers)
        return ClientProcesses(
            tuple(process for process in processes if process is not None),
            self.groups,
            self.names.transactional_ids,
        )

    def watched_processes(self) -> tuple[WatchedProcess, ...]:
        """Return the processes that the clients run in now; those that have ended as well."""
        clients: tuple[ClientIdentity, ...] = (*self.producers, self.consumer, *self.groups.members)
        return tuple(WatchedProcess(client.name, client.pid, client.is_held) for client in clients)

    def begin(self) -> int:
        """Start the load; return the first record's intended time, nanoseconds since the epoch."""
        begin_ns = now_ns() + LEAD_NS
        for number, producer in enumerate(self.producers):
            producer.begin(begin_ns + round(number * 1e9 / self.spec.workload.rate_records_per_s))
        return min(producer.began_ns() for producer in self.producers)

    def wait_until_flowing(self) -> None:
        """Wait until every producer has had a record acknowledged.

        Raises:
            WaitTimeout: a producer has none within `FLOW_TIMEOUT_S`.
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
        """Wait until the end of the schedule."""
        sleep_until(monotonic_s(load_begin_ns) + self.spec.workload.duration_s)

    def wait_until_settled(self) -> tuple[ProducerSummary, ...]:
        """Wait until every record is settled, or its delivery timeout has passed.

        Raises:
            HarnessError: a producer exited early, or was not done in time.
        """
        timeout_s = delivery_timeout_ms(self.spec.producer) / 1000 + SETTLE_MARGIN_S
        if self.spec.workload.transactions:
            timeout_s += 2 * transaction_timeout_ms(self.spec.producer) / 1000
        return tuple(producer.wait_done(timeout_s) for producer in self.producers)

    def unexpected_exits(self) -> tuple[str, ...]:
        """Return which client processes have exited before they were done, and how."""
        exits = (
            *(producer.unexpected_exit() for producer in self.producers),
            self.consumer.unexpected_exit(),
            *(member.unexpected_exit() for member in self.groups.members),
        )
        return tuple(filter(None, exits))

    def events(self) -> Iterator[Event]:
        """Yield the events in the clients' own logs so far.

        A consumer of the copiers' output learns the leaders of that topic, not of the trial's:
        these events are left out.
        """
        reads_output = self.names.output is not None
        for client in self._all():
            for event in client.events():
                if not (reads_output and client is self.consumer and event.kind == LEADER_LEARNED):
                    yield event

    def read_results(self, summaries: Sequence[ProducerSummary]) -> ClientResults:
        """Fix the end offsets, let consumers and groups reach them, and read the entire log.

        Args:
            summaries: of `wait_until_settled`.

        Raises:
            HarnessError: a partition was not read to its end.
        """
        final = self._read_topic(
            self.topic, in_transactions=self.spec.workload.transactions is not None
        )
        producers = tuple(
            producer.complete_summary(summary, final.log)
            for producer, summary in zip(self.producers, summaries, strict=True)
        )
        groups = self.groups.finish(final.visible_end_offsets, READ_TIMEOUT_S)
        output = self._read_output()
        consumer = self.consumer.finish(self._consumer_ends(output or final), READ_TIMEOUT_S)
        if final.begin_offsets and output is None:
            final = final.with_expired(self.consumer.expired_records(final.begin_offsets))
        return ClientResults(
            producers=producers,
            end_offsets=final.end_offsets,
            log=final.log,
            epochs=self._epochs(),
            consumer=consumer,
            producer_settings=self.producers[0].effective_settings(),
            consumer_settings=(
                self.groups.effective_settings() or self.consumer.effective_settings()
            ),
            output=output,
            groups=groups,
            crc_failed_offsets=final.crc_failed_offsets,
            begin_offsets=final.begin_offsets,
            replays=self._replay(final),
            hung=(
                *filter(None, (producer.hung for producer in self.producers)),
                *chain.from_iterable(group.hung for group in groups),
            ),
        )

    def tables(self, results: ClientResults) -> dict[str, pa.Table]:
        """Return the ledger's tables without the events, and delete the clients' own files."""
        attempts_by_producer = [producer.attempts(results.log) for producer in self.producers]
        attempts = pa.concat_tables(attempts_by_producer)
        tables = {
            "attempts": attempts,
            "log": results.log,
            "epochs": results.epochs,
            "reads": pa.concat_tables([self.consumer.reads(attempts), self.groups.reads(attempts)]),
        }
        if results.replays is not None:
            tables["replays"] = results.replays.table
            tables["sent"] = _concat_recorded(producer.sent() for producer in self.producers)
        if self.spec.workload.record_serving_brokers:
            served = [producer.served() for producer in self.producers]
            tables["served"] = _concat_recorded([*served, self.consumer.served()])
        if results.output is not None:
            tables["output"] = results.output.log
        tables["transactions"] = pa.concat_tables(
            [
                producer.transactions(own)
                for producer, own in zip(self.producers, attempts_by_producer, strict=True)
            ]
        )
        for client in self._all():
            client.delete_files()  # the tables have the same content in a tenth of the space
        return tables

    def delete_topics(self) -> None:
        """Delete the trial's topics, once its clients have ended.

        Raises:
            HarnessError: Kafka refused, with its text, or did not answer.
        """
        for name in self.names.topics:
            topics.delete_topic(self.cluster.admin_servers, name)

    def _all(self) -> tuple[TrialClient, ...]:
        return (*self.producers, self.consumer, self.groups)

    def _consumer_ends(self, final: FinalRead) -> dict[int, int]:
        """Return up to where the concurrent consumer has to read.

        A program that reports records never reports an offset behind a transaction's marker.
        """
        load = self.spec.workload
        ends_in_markers = load.commits == "within" if load.copies else load.transactions is not None
        if traits_of(self.spec.client).reports_in_text and ends_in_markers:
            return final.end_of_visible_records()
        return final.visible_end_offsets

    def _read_output(self) -> FinalRead | None:
        if self.names.output is None:
            return None
        read = self._read_topic(
            self.names.output, in_transactions=self.spec.workload.commits == "within"
        )
        _require_identities(self.spec, read)
        return read

    def _read_topic(self, topic: str, *, in_transactions: bool) -> FinalRead:
        """Return the final read of a topic, after any open transaction has timed out."""
        reader = FinalReader(
            self.cluster,
            topic,
            self.token,
            final_read_settings(self.spec, self.names),
            text_value_format(self.spec, self.token),
            self.spec.workload.identity,
        )
        if topic == self.topic:
            reader = replace(reader, acknowledged=self._acknowledged)
        if retention_of(self.spec).can_expire:
            reader = reader.without_retention()
        if not in_transactions:
            return reader.read()
        cleanup_interval_ms = int(
            self.cluster.broker_settings.get(
                TRANSACTION_CLEANUP_INTERVAL, DEFAULT_TRANSACTION_CLEANUP_INTERVAL_MS
            )
        )
        return reader.read_transactional(
            (transaction_timeout_ms(self.spec.producer) + cleanup_interval_ms) / 1000
        )

    def _acknowledged(self) -> Acknowledged:
        """Return what was acknowledged so far; the log is not needed for it."""
        unread = LOG.empty_table()
        return acknowledged_in(pa.concat_tables(one.attempts(unread) for one in self.producers))

    def _replay(self, final: FinalRead) -> ReplayResult | None:
        """Replay the log if the trial checks its records' fields.

        The third replay begins at the timestamp in the middle of the load.
        """
        if not self.spec.workload.headers:
            return None
        at_ms = self.producers[0].began_ns() // 1_000_000 + round(
            self.spec.workload.duration_s * 500
        )
        return replay_log(
            self.cluster.bootstrap_servers,
            self.topic,
            final,
            self.token,
            final_read_settings(self.spec, self.names),
            at_ms,
        )

    def _epochs(self) -> pa.Table:
        epochs = self.cluster.leader_epochs(self.topic)
        columns = [
            [epoch.node_id for epoch in epochs],
            [epoch.partition for epoch in epochs],
            [epoch.leader_epoch for epoch in epochs],
            [epoch.start_offset for epoch in epochs],
        ]
        return pa.table(columns, schema=EPOCHS)


def _create_topics(spec: TrialSpec, names: TrialNames, cluster: Cluster) -> None:
    """Create the warm-up topic if it is missing, and the trial's topics."""
    topics.ensure_topic(
        cluster.admin_servers,
        names.warm_up,
        partitions=2 * len(cluster.node_ids()),
        # A managed cluster may refuse any other factor than its own.
        replication_factor=topics.BROKER_DEFAULT if spec.cluster.traits.shared else 1,
    )
    for name in names.topics:
        topics.create_topic(
            cluster.admin_servers,
            name,
            partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            config=spec.topic,
        )


def _require_identities(spec: TrialSpec, output: FinalRead) -> None:
    """Check that the application passed on the identity of what it read.

    A batch with a wrong CRC was damaged where it is stored, so the program is not to blame.

    Raises:
        HarnessError: it wrote records without one; which ones it copied is unknown.
    """
    copies, without = spec.workload.copies, output.log["seq"].null_count
    if copies is None or not copies.command or not without or output.crc_failed_offsets:
        return
    raise HarnessError(
        f"{without} of {output.log.num_rows} records that the application wrote have no identity: "
        f"copy.identity is {copies.identity}, so it has to pass on {_PASSED_ON[copies.identity]}"
    )


def _concat_recorded(tables: Iterable[pa.Table | None]) -> pa.Table:
    """Concatenate the tables of the clients that recorded one."""
    return pa.concat_tables([table for table in tables if table is not None])
