"""What one producer under test is to do, whichever client does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from experiments.clients.record.layout import MAX_PRODUCER
from experiments.clients.settings.librdkafka import delivery_timeout_ms
from experiments.events.clock import anchor_ns
from experiments.ledger.record import Frozen, KeyOptions


class ProducerJob(Frozen):
    """All that one producer is to do."""

    producer: Annotated[int, Field(ge=0, le=MAX_PRODUCER)]
    bootstrap_servers: str
    topic: str
    warm_up_topic: str
    """Exists, and has partitions on all brokers that the trial's topic is on: warming up connects to them."""
    settings: dict[str, str]
    """Those that hold, as far as they bear on correctness."""
    passed: dict[str, str] | None = None
    """What of them is passed, where the client is to keep its own defaults; `None`: all."""
    create_time: bool = True
    """Whether the records in the log tell when they were sent (`message.timestamp.type`)."""
    records: Annotated[int, Field(gt=0)]
    rate_records_per_s: Annotated[float, Field(ge=0)]
    """Of this producer; 0: as fast as it goes."""
    record_size_bytes: Annotated[int, Field(gt=0)]
    """Where we make the values ourselves, with their header; else what the client's own values come to."""
    keys: Annotated[int, Field(ge=0)]
    """Distinct keys, as 8 bytes each; 0: no key. What the four below do not say: the key of a record is seq % keys."""
    pairs: Literal["none", "own", "common"] = "none"
    pair_apart_records: Annotated[int, Field(gt=0)] = 1
    hot_key_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The last three as `Keying` has them."""
    round_robin_partitions: Annotated[int, Field(ge=0)] = 0
    """The producer names the partition itself, in turn over so many; 0: the client's partitioner does."""
    headers: Annotated[int, Field(ge=0, le=9)] = 0
    """Of each record; with any it is noted what every record is made of, see `fields`."""
    record_serving_brokers: bool = False
    """Whether it is noted which broker settled its records, see `serving`."""
    transaction_records: Annotated[int, Field(ge=0)] = 0
    """So many records a transaction; 0: none. With them the settings have a `transactional.id`."""
    abort_every: Annotated[int, Field(ge=0)] = 0
    """Each so-many-th transaction is aborted on purpose; 0: none."""
    token: Annotated[int, Field(ge=0, lt=2**63)]
    folder: Path
    """Where its ledger, log and errors are written."""
    warm_up_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    anchor_ns: int = Field(default_factory=anchor_ns)
    """The parent's: all processes of a trial count time from one anchor."""
    life: Annotated[int, Field(ge=0)] = 0
    """Which process it is of those that follow one schedule, each after the one before was killed."""
    resend: bool = False
    """Of a later life: whether it sends again what was sent before and of which nobody was told anything, as an application with an outbox does."""

    @model_validator(mode="after")
    def _settles(self) -> Self:
        if delivery_timeout_ms(self.settings) == 0:
            raise ValueError(
                "delivery.timeout.ms is 0: records would never be given up, and the trial would not end"
            )
        return self

    @property
    def keying(self) -> KeyOptions:
        """Which keys the records have."""
        return KeyOptions(
            keys=self.keys,
            pairs=self.pairs,
            pair_apart_records=self.pair_apart_records,
            hot_key_share=self.hot_key_share,
        )

    @property
    def given(self) -> dict[str, str]:
        """What the client is given, the addresses apart."""
        return self.settings if self.passed is None else self.passed

    @property
    def effective(self) -> Path:
        """All that the client says of its settings, as JSON."""
        return self.folder / f"producer-{self.producer}.effective.json"

    @property
    def ledger(self) -> Path:
        """The mapping; see `attempts`."""
        return self.folder / f"producer-{self.producer}.attempts"

    @property
    def fields(self) -> Path:
        """What its records are made of, where that is noted; see `fields`."""
        return self.folder / f"producer-{self.producer}.fields"

    @property
    def serving(self) -> Path:
        """Which brokers settled its records, where that is noted; see `serving`."""
        return self.folder / f"producer-{self.producer}.serving"

    @property
    def transactions(self) -> Path:
        """The mapping of its transactions, where it has any; see `transactions_file`."""
        return self.folder / f"producer-{self.producer}.transactions"

    @property
    def log(self) -> Path:
        """What librdkafka has to say."""
        return self.folder / f"producer-{self.producer}.log"

    @property
    def duration_s(self) -> float:
        """From the first record's intended time to the last one's; 0 without a rate."""
        return self.records / self.rate_records_per_s if self.rate_records_per_s else 0.0
