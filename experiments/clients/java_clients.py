"""Kafka's own Java clients under test, through the programs that its jars bring: they report each record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.clients.java_producer import JavaProducer
from experiments.clients.java_reader import JavaReader
from experiments.clients.producer_job import ProducerJob
from experiments.clients.reader import ReaderJob


@dataclass(frozen=True)
class JavaClients:
    """Implements `under_test.Clients`."""

    version: str
    """Of Kafka: of the jars, and so of the clients."""
    cache: Path

    def producer(self, job: ProducerJob) -> JavaProducer:
        """Start a producer."""
        return JavaProducer(job, self.version, self.cache)

    def reader(self, job: ReaderJob) -> JavaReader:
        """Start a consumer that reads along."""
        return JavaReader(job, self.version, self.cache)
