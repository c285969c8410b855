"""The load generator's throughput and lateness, and the throughput of the final read.

The throughput is compared to Kafka's own tools on one cluster, in one run. Each tool counts from
its first record to its last acknowledgement, so the start of a JVM or an interpreter is excluded.
All use the same settings: RF 3, acks=all, idempotent, 6 partitions, values of 100 bytes.
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
VERIFIABLE_SHARE: Final = 5
"""VerifiableProducer gets 1/5 of the records: it prints a line per record and is far slower."""
LATENESS_S: Final = 10.0
LATENESS_RATES: Final = (10_000, 50_000, 100_000)
_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True)
class Rates:
    """One generator's throughput per round."""

    generator: str
    records_per_s: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.records_per_s)

    def ratio_to(self, other: Rates) -> float:
        """Return the median of the rounds' ratios; other load affects both in one round."""
        return statistics.median(
            own / others
            for own, others in zip(self.records_per_s, other.records_per_s, strict=True)
        )


@dataclass(frozen=True)
class FinalRead:
    """The times of the final read of one log, per round."""

    records: int
    seconds: tuple[float, ...]

    @property
    def records_per_s(self) -> float:
        """Of the median round."""
        return self.records / statistics.median(self.seconds)


def compare(cluster: Cluster, rounds: int = 5, records: int = 1_000_000) -> tuple[Rates, ...]:
    """Return the generators' rates, ackbench's first.

    Each generator runs in every round, and the rounds start with different ones.
    """
    generators: dict[str, Callable[[Cluster, int], float]] = {
        "ackbench, full ledger": ackbench_rate,
        "ProducerPerformance": producer_performance_rate,
        "VerifiableProducer": verifiable_producer_rate,
    }
    rates: dict[str, list[float]] = {name: [] for name in generators}
    for number in range(rounds):
        first = number % len(generators)
        for name in [*generators][first:] + [*generators][:first]:
            rates[name].append(generators[name](cluster, records))
    return tuple(Rates(name, tuple(rounds)) for name, rounds in rates.items())


def ackbench_rate(cluster: Cluster, records: int) -> float:
    """Return records/s from the first sent record to the last acknowledgement, from the ledger."""
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
        job = _job(cluster, topic, Path(folder), records, 0)
        _run(job)
        attempts = attempts_table(job)
        if pc.sum(pc.equal(attempts["outcome"], "acked")).as_py() != records:
            raise RuntimeError(
                f"not all of {records} records were acknowledged: "
                f"{attempts['outcome'].value_counts()}"
            )
        took_ns: int = pc.max(attempts["settled_ns"]).as_py() - pc.min(attempts["sent_ns"]).as_py()
        return records / (took_ns / 1e9)


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


def producer_performance_rate(cluster: Cluster, records: int) -> float:
    """Return the records/s that `org.apache.kafka.tools.ProducerPerformance` reports."""
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
        output = _tool(
            cluster,
            "ProducerPerformance",
            ["--topic", topic, *size, "--command-property", *settings],
            Path(folder),
        )
        rates = re.findall(rf"^{records} records sent, ([0-9.]+) records/sec", output, re.MULTILINE)
        return float(rates[-1])


def verifiable_producer_rate(cluster: Cluster, records: int) -> float:
    """Return the records/s that `org.apache.kafka.tools.VerifiableProducer` reports.

    It sends 1 / `VERIFIABLE_SHARE` of the records.
    """
    with _fresh_topic(cluster) as topic, tempfile.TemporaryDirectory() as folder:
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
        return float(
            json.loads(
                _tool(cluster, "VerifiableProducer", arguments, Path(folder)).splitlines()[-1]
            )["avg_throughput"]
        )


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
