"""A producer under test: what it is to do, its process as the parent sees it, and what it attempted.

The process itself is `producer_main`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import pyarrow as pa
from pydantic import Field, model_validator

from experiments.clients.attempts import AttemptsFile
from experiments.clients.child import BEGIN, DONE, Child
from experiments.clients.nursery import Birth
from experiments.clients.settings import delivery_timeout_ms
from experiments.clients.value import HEADER_BYTES, MAX_PRODUCER
from experiments.clock import anchor_ns
from experiments.ledger.record import Frozen, ProducerSummary


class ProducerJob(Frozen):
    """All that one producer is to do."""

    producer: Annotated[int, Field(ge=0, le=MAX_PRODUCER)]
    bootstrap_servers: str
    topic: str
    warm_up_topic: str
    """Exists, and has partitions on all brokers that the trial's topic is on: warming up connects to them."""
    settings: dict[str, str]
    """As `settings.producer_settings` returns them; passed as they are."""
    records: Annotated[int, Field(gt=0)]
    rate_records_per_s: Annotated[float, Field(ge=0)]
    """Of this producer; 0: as fast as it goes."""
    record_size_bytes: Annotated[int, Field(ge=HEADER_BYTES)]
    keys: Annotated[int, Field(ge=0)]
    """Distinct keys, drawn in turn: the key of a record is seq % keys, as 8 bytes; 0: no key."""
    token: Annotated[int, Field(ge=0, lt=2**63)]
    folder: Path
    """Where its ledger, log and errors are written."""
    warm_up_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    anchor_ns: int = Field(default_factory=anchor_ns)
    """The parent's: all processes of a trial count time from one anchor."""

    @model_validator(mode="after")
    def _settles(self) -> Self:
        if delivery_timeout_ms(self.settings) == 0:
            raise ValueError("delivery.timeout.ms is 0: records would never be given up, and the trial would not end")
        return self

    @property
    def ledger(self) -> Path:
        """The mapping; see `attempts`."""
        return self.folder / f"producer-{self.producer}.attempts"

    @property
    def log(self) -> Path:
        """What librdkafka has to say."""
        return self.folder / f"producer-{self.producer}.log"

    @property
    def duration_s(self) -> float:
        """From the first record's intended time to the last one's; 0 without a rate."""
        return self.records / self.rate_records_per_s if self.rate_records_per_s else 0.0


@dataclass(frozen=True)
class ProducerProgress:
    """How far a producer is, in records."""

    accepted: int
    settled: int
    acked: int


class ProducerProcess(Child):
    """A producer in a process of its own: it warms up by itself; wait until ready, begin, wait until done."""

    def __init__(self, job: ProducerJob) -> None:
        self.job = job
        self._ledger = AttemptsFile.create(job.ledger, job.records)
        path = job.folder / f"producer-{job.producer}.json"
        path.write_text(job.model_dump_json())
        super().__init__(f"producer {job.producer}", Birth(role="producer", job=path), job.folder / f"producer-{job.producer}.errors")

    def begin(self, start_ns: int) -> None:
        """Tell it when its first record is due, nanoseconds since the epoch by `experiments.clock`.

        Raises:
            HarnessError: it has ended.
        """
        self.tell(f"{BEGIN} {start_ns}")

    def progress(self) -> ProducerProgress:
        """Return how far it is, alive or dead."""
        header = self._ledger.header[0]
        return ProducerProgress(int(header["accepted"]), int(header["settled"]), int(header["acked"]))

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Return when every record is settled, or its delivery timeout has passed.

        Raises:
            HarnessError: it ended on the way.
            WaitTimeout: it was not done in time.
        """
        summary = ProducerSummary.model_validate_json(self.hear(DONE, timeout_s))
        self.wait(timeout_s)
        return summary


def attempts_table(job: ProducerJob) -> pa.Table:
    """Return what the producer attempted, whether it ended by itself or was killed; schema `ATTEMPTS`.

    Raises:
        HarnessError: it left no ledger.
    """
    from experiments.clients.attempts_table import table_of

    ledger = AttemptsFile.open(job.ledger)
    return table_of(ledger.rows, ledger.latency_us, job.producer, job.keys)
