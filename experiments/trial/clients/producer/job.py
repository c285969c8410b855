"""The job description of a producer, for both kinds of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.sweep.workload import Identity, Transactions
from ackbench.experiments.trial.clients.process.client_job import ClientJob
from ackbench.experiments.trial.clients.record.layout import MAX_PRODUCER
from ackbench.experiments.trial.clients.settings.librdkafka import delivery_timeout_ms


class ProducerJob(ClientJob):
    """The job description of a producer."""

    producer: Annotated[int, Field(ge=0, le=MAX_PRODUCER)]
    warm_up_topic: str
    """An existing topic with partitions on all brokers of the trial's topic, to connect to them."""
    create_time: bool = True
    """Whether a stored record's timestamp is its create time (`message.timestamp.type`)."""
    records: Annotated[int, Field(gt=0)]
    rate_records_per_s: Annotated[float, Field(ge=0)]
    """The rate of this producer; 0: as fast as possible."""
    record_size_bytes: Annotated[int, Field(gt=0)]
    """The size of a value: ackbench's own with its header, or as the Java program writes it."""
    keys: Keys
    """Of 8 bytes each. By default, the key of a record is seq % count."""
    round_robin_partitions: Annotated[int, Field(ge=0)] = 0
    """Assign partitions round robin over this many; 0: the client's partitioner chooses."""
    headers: Annotated[int, Field(ge=0, le=9)] = 0
    """Headers per record; if not 0, digests of each record's fields are recorded, see `fields`.

    A header's name ends with its number, one digit.
    """
    identity: Identity = "value"
    """Where the records have their identity."""
    value: str | None = None
    """The value of each record, with `layout.IDENTITY_PLACE` for its identity.

    `None`: ackbench's own.
    """
    record_serving_brokers: bool = False
    """Whether to record which broker acknowledged each record, see `serving`."""
    transactions: Transactions | None = None
    """If there are any, `settings` has a `transactional.id`."""
    warm_up_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    generation: Annotated[int, Field(ge=0)] = 0
    """How many processes have followed this schedule before; each replaces one that crashed."""
    resend: bool = False
    """Whether a later generation resends the records that were sent and never settled.

    An application with an outbox does this.
    """

    @model_validator(mode="after")
    def _require_delivery_timeout(self) -> Self:
        if delivery_timeout_ms(self.settings) == 0:
            raise ValueError(
                "invalid value for delivery.timeout.ms: 0 (allowed: above 0; with 0, records never "
                "time out and the trial may not end)"
            )
        return self

    @property
    def transaction_records(self) -> int:
        """Records per transaction; 0: no transactions."""
        return self.transactions.records if self.transactions else 0

    @property
    def abort_every(self) -> int:
        """Every n-th transaction is aborted on purpose; 0: none."""
        return self.transactions.abort_every if self.transactions else 0

    @property
    def stem(self) -> str:
        """The beginning of the names of its files."""
        return f"producer-{self.producer}"

    @property
    def ledger(self) -> Path:
        """The mapped file with the attempts (`producer.attempts`)."""
        return self.file("attempts")

    @property
    def fields(self) -> Path:
        """The mapped file with the digests of the records' fields, if recorded."""
        return self.file("fields")

    @property
    def serving(self) -> Path:
        """The mapped file with the brokers that acknowledged the records, if recorded."""
        return self.file("serving")

    @property
    def transactions_file(self) -> Path:
        """The mapped file with its transactions, if it has any (`producer.transactions_file`)."""
        return self.file("transactions")

    @property
    def duration_s(self) -> float:
        """The length of the schedule in seconds; 0 without a rate."""
        return self.records / self.rate_records_per_s if self.rate_records_per_s else 0.0
