"""How fast the generator is beside Kafka's own, how late against its schedule, and how fast a log is read; on one cluster, in one run.

Rates are each tool's own count, from its first record to its last acknowledgement: what a JVM or an interpreter needs to
start is in none of them. Settings are the same for all: RF 3, acks=all, idempotent, 6 partitions, values of 100 bytes.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from experiments.clients.consumer.final_read import read_log
from experiments.clients.librdkafka import topics
from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.process import ProducerProcess, attempts_table
from experiments.clients.settings.librdkafka import consumer_settings, producer_settings
from experiments.events.clock import now_ns
from experiments.ledger.record import ProducerSummary
from infra.cluster.interface import Cluster
from infra.jvm.runtime import java_binary, java_environment
from infra.kafka.jars import kafka_jars
from infra.machine.home import Home

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
VERIFIABLE_SHARE: Final = 5
"""VerifiableProducer writes a line a record and is several times slower: it gets one record in so many."""
LATENESS_S: Final = 10.0
LATENESS_RATES: Final = (10_000, 50_000, 100_000)
_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True)
class Rates:
    """One generator's rounds."""

    generator: str
    records_per_s: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.records_per_s)

    def times(self, other: Rates) -> float:
        """How many times as fast as another: the middle one of the rounds' ratios, for a round's weather is the same for both."""
        return statistics.median(
            own / theirs
            for own, theirs in zip(self.records_per_s, other.records_per_s, strict=True)
        )


@dataclass(frozen=True)
class FinalRead:
    """Reading a whole log."""

    records: int
    seconds: tuple[float, ...]

    @property
    def records_per_s(self) -> float:
        """Of the middle round."""
        return self.records / statistics.median(self.seconds)


def compare(cluster: Cluster, rounds: int = 5, records: int = 1_000_000) -> tuple[Rates, ...]:
    """Return the generators' rates, ours first; every one of them runs in each round, and each begins a round in its turn."""
    generators: dict[str, Callable[[Cluster, int], float]] = {
        "ackbench, full ledger": ackbench_rate,
        "ProducerPerformance": producer_performance_rate,
        "VerifiableProducer": verifiable_producer_rate,
    }
    found: dict[str, list[float]] = {name: [] for name in generators}
    for number in range(rounds):
        turn = number % len(generators)
        for name in [*generators][turn:] + [*generators][:turn]:
            found[name].append(generators[name](cluster, records))
    return tuple(Rates(name, tuple(rates)) for name, rates in found.items())


def ackbench_rate(cluster: Cluster, records: int) -> float:
    """Return records/s from the first record sent to the last acknowledgement, by the ledger."""
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        job = _job(cluster, topic, Path(folder), records, 0)
        _run(job)
        attempts = attempts_table(job)
        if pc.sum(pc.equal(attempts["outcome"], "acked")).as_py() != records:
            raise RuntimeError(
                f"not all of {records} records were acknowledged: {attempts['outcome'].value_counts()}"
            )
        took_ns: int = pc.max(attempts["settled_ns"]).as_py() - pc.min(attempts["sent_ns"]).as_py()
        return records / (took_ns / 1e9)


def lateness(
    cluster: Cluster, rates: Sequence[int] = LATENESS_RATES, seconds: float = LATENESS_S
) -> tuple[tuple[int, ProducerSummary], ...]:
    """Return, for each rate in records/s, how far the generator was behind its schedule."""
    return tuple((rate, _lateness(cluster, rate, seconds)) for rate in rates)


def final_read(cluster: Cluster, records: int = 1_000_000, rounds: int = 3) -> FinalRead:
    """Return how long it takes to read a log whole, to its end; the first read, which loads compiled code, is not counted."""
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        _run(_job(cluster, topic, Path(folder), records, 0))
        ends = topics.end_offsets(cluster.bootstrap_servers, topic)
        seconds = [_seconds_to_read(cluster, topic, ends) for _ in range(rounds + 1)]
        return FinalRead(sum(ends.values()), tuple(seconds[1:]))


def producer_performance_rate(cluster: Cluster, records: int) -> float:
    """Return what `org.apache.kafka.tools.ProducerPerformance` says of itself, records/s."""
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
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
        said = _tool(
            cluster,
            "ProducerPerformance",
            ["--topic", topic, *size, "--command-property", *settings],
            Path(folder),
        )
        found = re.findall(rf"^{records} records sent, ([0-9.]+) records/sec", said, re.MULTILINE)
        return float(found[-1])


def verifiable_producer_rate(cluster: Cluster, records: int) -> float:
    """Return what `org.apache.kafka.tools.VerifiableProducer` says of itself, records/s; for a share of the records."""
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "producer.properties"
        retrying = {
            **SAME_SETTINGS,
            "retries": "2147483647",
        }  # the tool sets 0, with which no producer is idempotent
        config.write_text("".join(f"{name}={value}\n" for name, value in retrying.items()))
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
        return float(
            json.loads(
                _tool(cluster, "VerifiableProducer", arguments, Path(folder)).splitlines()[-1]
            )["avg_throughput"]
        )


def _lateness(cluster: Cluster, rate: int, seconds: float) -> ProducerSummary:
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        return _run(_job(cluster, topic, Path(folder), round(rate * seconds), rate))


def _seconds_to_read(cluster: Cluster, topic: str, ends: dict[int, int]) -> float:
    began_s = time.perf_counter()
    read_log(cluster.bootstrap_servers, topic, ends, TOKEN, consumer_settings({}), _TIMEOUT_S)
    return time.perf_counter() - began_s


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
        keys=KEYS,
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
    """Run one of Kafka's own tools; return what it said."""
    jars = kafka_jars(Home.from_environment().cache, cluster.spec.kafka_version)
    command = [
        str(java_binary()),
        "-cp",
        os.pathsep.join(map(str, jars)),
        "-Xmx512m",
        f"org.apache.kafka.tools.{tool}",
        *arguments,
    ]
    with (folder / "said").open("w+") as said, (folder / "errors").open("w+") as errors:
        ended = subprocess.run(
            command,
            stdout=said,
            stderr=errors,
            env=java_environment(),
            timeout=_TIMEOUT_S,
            check=False,
        )
        if ended.returncode != 0:
            raise RuntimeError(
                f"{tool} ended with {ended.returncode}: {(folder / 'errors').read_text()[-2000:]}"
            )
    return (folder / "said").read_text()
