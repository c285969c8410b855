"""The load generator's throughput and lateness, and the throughput of the final read.

The throughput is compared to Kafka's own tools on one cluster, in one run. Each tool counts from
its first record to its last acknowledgement, so the start of a JVM or an interpreter is excluded.
All use the same settings: RF 3, acks=all, idempotent, 6 partitions, values of 100 bytes.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow.compute as pc
from perf.bare_client import BareJob
from perf.replay import Replayed, ReplayJob

from ackbench.experiments.ledger.trial_manifest import Keys, ProducerSummary
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.jvm.runtime import java_binary, java_environment
from ackbench.infra.kafka.jars import kafka_jars
from ackbench.infra.kafka.replica_files import RecordBatch, read_batches_of_file
from ackbench.infra.machine.home import Home

PARTITIONS: Final = 6
REPLICAS: Final = 3
RECORD_BYTES: Final = 100
KEYS: Final = 64
TOKEN: Final = 1
WARM_UP_TOPIC: Final = "perf-warm-up"
SAME_SETTINGS: Final[dict[str, str]] = {
    "acks": "all",
    "enable.idempotence": "true",
    "linger.ms": "5",
    "batch.size": "131072",
    "compression.type": "none",
}
MILLION: Final = 1_000_000
MOST_OTHER_SHARE: Final = 0.1
"""Of the CPU time of a round, for its figures to count."""
FEWEST_ROUNDS: Final = 3
_ENCODED_BYTES: Final = 117
"""Of a record with a value of 100 bytes and a key of 8, encoded in a batch."""
_BUSY: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The first times of /proc/stat; the others are parts of `user` and `nice`."""
VERIFIABLE_SHARE: Final = 5
"""VerifiableProducer gets 1/5 of the records: it prints a line per record and is far slower."""
LATENESS_S: Final = 10.0
LATENESS_RATES: Final = (10_000, 50_000, 100_000)
_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True)
class Sent:
    """The cost of one generator in one round."""

    records_per_s: float
    client_cpu_s: float
    """Per million records; of a JVM, with its start."""
    brokers_cpu_s: float
    """Per million records, of all brokers together."""
    batch_bytes: float
    """Mean size of the batches in the log."""
    other_share: float
    """Of the machine's CPU time meanwhile, the share of other processes and of other machines."""

    @property
    def is_quiet(self) -> bool:
        """`True`: the figures are of this machine at rest, as far as its CPUs say."""
        return self.other_share <= MOST_OTHER_SHARE


@dataclass(frozen=True)
class Rates:
    """One generator in all rounds; `None`: other processes took too much of that round."""

    generator: str
    rounds: tuple[Sent | None, ...]

    def median(self, figure: Callable[[Sent], float]) -> float:
        """Return the median of a figure over the rounds that are kept."""
        return statistics.median(figure(one) for one in self.rounds if one)

    @property
    def records_per_s(self) -> float:
        """The median rate."""
        return self.median(lambda one: one.records_per_s)

    def ratio_to(self, other: Rates) -> float:
        """Return the median of the rounds' ratios; other load affects both in one round."""
        return statistics.median(
            own.records_per_s / others.records_per_s
            for own, others in zip(self.rounds, other.rounds, strict=True)
            if own and others
        )


class NotQuiet(Exception):
    """Other processes took so much of the CPUs that the figures are not worth printing."""


@dataclass(frozen=True)
class FinalRead:
    """The times of the final read of one log, per round."""

    records: int
    seconds: tuple[float, ...]

    @property
    def records_per_s(self) -> float:
        """Of the median round."""
        return self.records / statistics.median(self.seconds)


def warm(cluster: Cluster, rounds: int = 5, records: int = 1_000_000) -> tuple[Rates, ...]:
    """Return the generators' rates on one cluster that is warm, the replay first.

    Each generator runs in every round, and the rounds start with different ones. A round before
    them is not counted: it warms up the cluster, and shows the size of ackbench's batches.

    Raises:
        NotQuiet: the machine did other work in so many rounds that fewer than three are left.
    """
    batch_bytes = measure(cluster, send_by_ackbench, records).batch_bytes
    return _compare(
        lambda name: measure(cluster, GENERATORS[name](batch_bytes), records), rounds, FEWEST_ROUNDS
    )


def cold(
    provide: Callable[[], AbstractContextManager[Cluster]],
    batch_bytes: float,
    rounds: int = 3,
    records: int = 1_000_000,
) -> tuple[Rates, ...]:
    """Return the generators' rates, each on a cluster of its own that has just been started.

    Raises:
        NotQuiet: as `warm`, if no round is left.
    """

    def on_new_cluster(name: str) -> Sent:
        with provide() as cluster:
            return measure(cluster, GENERATORS[name](batch_bytes), records)

    return _compare(on_new_cluster, rounds, fewest=1)


def _compare(sent_by: Callable[[str], Sent], rounds: int, fewest: int) -> tuple[Rates, ...]:
    """Return each generator's rounds, without those in which the machine did other work."""
    names = [*GENERATORS]
    kept: list[Mapping[str, Sent] | None] = []
    for number in range(rounds):
        first = number % len(names)
        sent = {name: sent_by(name) for name in names[first:] + names[:first]}
        kept.append(sent if all(one.is_quiet for one in sent.values()) else None)
    quiet = sum(one is not None for one in kept)
    if quiet < fewest:
        raise NotQuiet(
            f"other processes took more than {MOST_OTHER_SHARE:.0%} of the CPUs in all but {quiet} "
            f"of {rounds} rounds"
        )
    return tuple(Rates(name, tuple(one[name] if one else None for one in kept)) for name in names)


@dataclass(frozen=True)
class _Window:
    """The CPU time of a client, and what the others took meanwhile."""

    records: int
    seconds: float
    client_cpu_s: float
    brokers_cpu_s: float
    other_share: float


Send = Callable[[Cluster, str, int], _Window]
"""Send a number of records to a topic of the cluster, and return what it took."""


def measure(cluster: Cluster, send: Send, records: int) -> Sent:
    """Send records to a new topic, and return what that took."""
    with _fresh_topic(cluster) as topic:
        window = send(cluster, topic, records)
        batches = list(_batches(cluster, topic))
    millions = window.records / MILLION
    return Sent(
        records_per_s=window.records / window.seconds,
        client_cpu_s=window.client_cpu_s / millions,
        brokers_cpu_s=window.brokers_cpu_s / millions,
        batch_bytes=statistics.fmean(batch.size_bytes for batch in batches),
        other_share=window.other_share,
    )


def _batches(cluster: Cluster, topic: str) -> Iterator[RecordBatch]:
    """Yield the batches of a topic, of one replica per partition."""
    for partition in range(PARTITIONS):
        replica = next(cluster.folder.glob(f"**/{topic}-{partition}"))
        for segment in replica.glob("*.log"):
            yield from read_batches_of_file(segment)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Usage:
    """The CPU time of a client, of the brokers and of the machine since this was made."""

    def __init__(
        self, cluster: Cluster, client_cpu_s: Callable[[], float] = _children_cpu_s
    ) -> None:
        pids = [node.pid for node in cluster.status() if node.pid]
        self._brokers = [psutil.Process(pid) for pid in pids]
        self._client_cpu_s = client_cpu_s
        self._begin = self._now()

    def _now(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return seconds: of the clock, the client, the brokers, this process, all processes."""
        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        return np.array(
            [
                time.monotonic(),
                self._client_cpu_s(),
                sum(map(_cpu_s, self._brokers)),
                own.user + own.system,
                sum(times[: len(_BUSY)]) - times.idle - times.iowait,
            ]
        )

    def window(self, records: int, seconds: float) -> _Window:
        """Return the window that ends now; what neither client nor brokers took, others did."""
        wall_s, client_s, brokers_s, own_s, busy_s = map(float, self._now() - self._begin)
        others_s = max(busy_s - client_s - brokers_s - own_s, 0)
        share = others_s / (wall_s * (psutil.cpu_count() or 1))
        return _Window(records, seconds, client_s, brokers_s, share)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def send_by_ackbench(cluster: Cluster, topic: str, records: int) -> _Window:
    """Send by ackbench's producer; from the first sent record to the last acknowledgement."""
    with tempfile.TemporaryDirectory() as folder:
        job = _job(cluster, topic, Path(folder), records, 0)
        with ProducerProcess(job) as producer:
            producer.wait_ready()
            usage = _Usage(cluster, partial(_cpu_s, psutil.Process(producer.pid)))
            producer.begin(now_ns() + 100_000_000)
            producer.wait_done(_TIMEOUT_S)
            window = usage.window(records, 0)
        attempts = attempts_table(job)
        if pc.sum(pc.equal(attempts["outcome"], "acked")).as_py() != records:
            raise RuntimeError(
                f"not all of {records} records were acknowledged: "
                f"{attempts['outcome'].value_counts()}"
            )
        took_ns: int = pc.max(attempts["settled_ns"]).as_py() - pc.min(attempts["sent_ns"]).as_py()
        return replace(window, seconds=took_ns / 1e9)


def send_by_replay(batch_bytes: float) -> Send:
    """Return a replay of encoded requests with batches of about this size."""

    def send(cluster: Cluster, topic: str, records: int) -> _Window:
        ports = {node.node_id: (node.host, node.client_port) for node in cluster.status()}
        job = ReplayJob(
            topic=topic,
            leaders={
                str(one.partition): ports[one.leader]
                for one in cluster.describe([topic]).of(topic)
                if one.leader is not None
            },
            records=records,
            record_bytes=RECORD_BYTES,
            batch_records=max(round(batch_bytes / _ENCODED_BYTES), 1),
        )
        return _run_program(cluster, "replay.py", job.to_json())

    return send


def send_by_bare_client(cluster: Cluster, topic: str, records: int) -> _Window:
    """Send by librdkafka without a ledger."""
    job = BareJob(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=topic,
        settings=producer_settings(SAME_SETTINGS),
        records=records,
        record_bytes=RECORD_BYTES,
        keys=KEYS,
    )
    return _run_program(cluster, "bare_client.py", job.to_json())


def _run_program(cluster: Cluster, program: str, job: str) -> _Window:
    """Run a program of this folder, which says what its load took."""
    usage = _Usage(cluster)
    command = [sys.executable, str(Path(__file__).with_name(program)), job]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    took = Replayed(**json.loads(output))
    return replace(usage.window(took.records, took.seconds), client_cpu_s=took.cpu_s)


def lateness(
    cluster: Cluster, rates: Sequence[int] = LATENESS_RATES, seconds: float = LATENESS_S
) -> tuple[tuple[int, ProducerSummary], ...]:
    """Return, for each rate in records/s, how far the generator fell behind its schedule."""
    return tuple((rate, _lateness(cluster, rate, seconds)) for rate in rates)


def final_read(cluster: Cluster, records: int = 1_000_000, rounds: int = 3) -> FinalRead:
    """Return the times of final reads; the first read loads compiled code and is not counted."""
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        _run(_job(cluster, topic, Path(folder), records, 0))
        ends = topics.end_offsets(cluster.bootstrap_servers, topic)
        seconds = [_seconds_to_read(cluster, topic, ends) for _ in range(rounds + 1)]
        return FinalRead(sum(ends.values()), tuple(seconds[1:]))


def send_by_producer_performance(cluster: Cluster, topic: str, records: int) -> _Window:
    """Send by `org.apache.kafka.tools.ProducerPerformance`; the rate is the one that it reports."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            f"{name}={value}"
            for name, value in {
                **SAME_SETTINGS,
                "bootstrap.servers": cluster.bootstrap_servers,
            }.items()
        ]
        size = [
            "--num-records",
            str(records),
            "--record-size",
            str(RECORD_BYTES),
            "--throughput",
            "-1",
        ]
        usage = _Usage(cluster)
        output = _tool(
            cluster,
            "ProducerPerformance",
            ["--topic", topic, *size, "--command-property", *settings],
            Path(folder),
        )
        rates = re.findall(rf"^{records} records sent, ([0-9.]+) records/sec", output, re.MULTILINE)
        return usage.window(records, records / float(rates[-1]))


def send_by_verifiable_producer(cluster: Cluster, topic: str, records: int) -> _Window:
    """Send by `org.apache.kafka.tools.VerifiableProducer`; the rate is the one that it reports.

    It sends 1 / `VERIFIABLE_SHARE` of the records.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "producer.properties"
        # The tool's default is retries=0, which an idempotent producer does not allow.
        settings = {**SAME_SETTINGS, "retries": "2147483647"}
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        size = [
            "--max-messages",
            str(records // VERIFIABLE_SHARE),
            "--throughput",
            "-1",
            "--acks",
            "-1",
        ]
        arguments = [
            "--bootstrap-server",
            cluster.bootstrap_servers,
            "--topic",
            topic,
            *size,
            "--command-config",
            str(config),
        ]
        usage = _Usage(cluster)
        output = _tool(cluster, "VerifiableProducer", arguments, Path(folder))
        rate = float(json.loads(output.splitlines()[-1])["avg_throughput"])
        own = records // VERIFIABLE_SHARE
        return usage.window(own, own / rate)


GENERATORS: Final[dict[str, Callable[[float], Send]]] = {
    "replay, almost no client": send_by_replay,
    "ackbench, full ledger": lambda _: send_by_ackbench,
    "librdkafka, no ledger": lambda _: send_by_bare_client,
    "ProducerPerformance": lambda _: send_by_producer_performance,
    "VerifiableProducer": lambda _: send_by_verifiable_producer,
}
"""Each generator by name, given the mean size of ackbench's batches."""


def _lateness(cluster: Cluster, rate: int, seconds: float) -> ProducerSummary:
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        return _run(_job(cluster, topic, Path(folder), round(rate * seconds), rate))


def _seconds_to_read(cluster: Cluster, topic: str, ends: dict[int, int]) -> float:
    begin_s = time.perf_counter()
    read_log(cluster.bootstrap_servers, topic, ends, TOKEN, consumer_settings({}), _TIMEOUT_S)
    return time.perf_counter() - begin_s


def _job(
    cluster: Cluster, topic: str, folder: Path, records: int, rate_records_per_s: float
) -> ProducerJob:
    topics.ensure_topic(
        cluster.bootstrap_servers, WARM_UP_TOPIC, partitions=PARTITIONS, replication_factor=1
    )
    return ProducerJob(
        producer=0,
        bootstrap_servers=cluster.bootstrap_servers,
        topic=topic,
        warm_up_topic=WARM_UP_TOPIC,
        settings=producer_settings(SAME_SETTINGS),
        records=records,
        rate_records_per_s=rate_records_per_s,
        record_size_bytes=RECORD_BYTES,
        keys=Keys(count=KEYS),
        token=TOKEN,
        folder=folder,
    )


def _run(job: ProducerJob) -> ProducerSummary:
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns() + 100_000_000)
        return producer.wait_done(_TIMEOUT_S)


@contextmanager
def _fresh_topic(cluster: Cluster) -> Iterator[str]:
    topic = f"perf-{uuid.uuid4().hex[:8]}"
    topics.create_topic(
        cluster.bootstrap_servers, topic, partitions=PARTITIONS, replication_factor=REPLICAS
    )
    yield topic
    topics.delete_topic(cluster.bootstrap_servers, topic)


def _tool(cluster: Cluster, tool: str, arguments: Sequence[str], folder: Path) -> str:
    """Run one of Kafka's own tools; return its output."""
    jars = kafka_jars(Home.from_environment().cache, cluster.spec.kafka_version)
    command = [
        str(java_binary()),
        "-cp",
        os.pathsep.join(map(str, jars)),
        "-Xmx512m",
        f"org.apache.kafka.tools.{tool}",
        *arguments,
    ]
    with (folder / "output").open("w+") as output, (folder / "errors").open("w+") as errors:
        process = subprocess.run(
            command,
            stdout=output,
            stderr=errors,
            env=java_environment(),
            timeout=_TIMEOUT_S,
            check=False,
        )
        if process.returncode != 0:
            raise RuntimeError(
                f"{tool} exited with status {process.returncode}: "
                f"{(folder / 'errors').read_text()[-2000:]}"
            )
    return (folder / "output").read_text()
