"""librdkafka's clients under test: compiled loops, each in a copy of one warm process; see `nursery`."""

from __future__ import annotations

from experiments.clients.producer import ProducerProcess
from experiments.clients.producer_job import ProducerJob
from experiments.clients.reader import ReaderJob, ReaderProcess


class LibrdkafkaClients:
    """Implements `under_test.Clients`."""

    @staticmethod
    def producer(job: ProducerJob) -> ProducerProcess:
        """Start a producer."""
        return ProducerProcess(job)

    @staticmethod
    def reader(job: ReaderJob) -> ReaderProcess:
        """Start a consumer that reads along."""
        return ReaderProcess(job)
