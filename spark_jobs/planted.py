"""Planted ledgers: built by hand with known content, so that measured values can be verified.

They use the real schemas and the real seal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from ackbench.experiments.ledger.planned import EQUAL, JAVA, UNKNOWN_VERSION, read_planned
from ackbench.experiments.ledger.schema import OPTIONAL_TABLES, OUTPUT, TABLES
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.terms import ACKED, COMMITTED, Source
from ackbench.experiments.ledger.trial_manifest import (
    Cell,
    FaultEvidence,
    KeyOptions,
    Phases,
    ProducerSummary,
    Replay,
    Status,
    TrialManifest,
)
from ackbench.spark_jobs.io.ledgers import Ledger
from ackbench.spark_jobs.io.units import UnitRows

QUIET = Phases(load_begin_ns=0, load_end_ns=10**10, settled_ns=10**10, healthy_ns=10**10)
"""Ten seconds of load without a fault."""
NO_FAULT = FaultEvidence(kind="none", took_effect=True)


class PlantedAttempt(NamedTuple):
    """One row of `attempts.parquet`."""

    producer: int
    seq: int
    outcome: str = ACKED
    intended_ns: int = 0
    settled_ns: int | None = 1_000_000
    partition: int | None = 0
    key: int | None = None
    sent_ns: int | None = 0
    error: int = 0
    offset: int | None = None
    transaction: int | None = None


class PlantedTransaction(NamedTuple):
    """One row of `transactions.parquet`."""

    producer: int
    transaction: int
    outcome: str = COMMITTED
    records: int = 1
    begin_ns: int = 0
    end_ns: int | None = 1_000_000
    error: int = 0


class PlantedLogRow(NamedTuple):
    """One row of `log.parquet`."""

    producer: int | None
    seq: int | None
    offset: int
    partition: int = 0
    intact: bool = True
    timestamp_ms: int = 0
    leader_epoch: int | None = 0
    visible: bool = True


class PlantedRead(NamedTuple):
    """One row of `reads.parquet`."""

    producer: int | None
    seq: int | None
    offset: int
    intended_ns: int | None = 0
    received_ns: int = 2_000_000
    partition: int = 0
    consumer: int = 0
    generation: int = 0


class PlantedEvent(NamedTuple):
    """One row of `events.parquet`."""

    at_ns: int
    kind: str
    node: int | None = None
    partition: int | None = None
    leader_epoch: int | None = None
    offset: int | None = None
    source: str = Source.TRIAL
    resolution_ns: int | None = None
    detail: str = ""


class PlantedSentRow(NamedTuple):
    """One row of `sent.parquet`."""

    producer: int
    seq: int
    timestamp_ms: int = 0
    key_digest: int = 1
    value_digest: int = 2
    headers_digest: int = 3


class PlantedReplayRow(NamedTuple):
    """One row of `replays.parquet`."""

    replay: int
    offset: int
    producer: int | None = 0
    seq: int | None = 0
    partition: int = 0
    timestamp_ms: int = 0
    key_digest: int = 1
    value_digest: int = 2
    headers_digest: int = 3


class PlantedBatch(NamedTuple):
    """One row of `batches.parquet`."""

    first_offset: int
    last_offset: int
    producer_epoch: int = 0
    producer_id: int = 1000
    base_sequence: int = 0
    partition: int = 0


class PlantedEpoch(NamedTuple):
    """One row of `epochs.parquet`."""

    node: int
    partition: int
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True)
class PlantedTrial:
    """A trial with known content."""

    trial_id: str
    attempts: Sequence[PlantedAttempt]
    log: Sequence[PlantedLogRow] = ()
    reads: Sequence[PlantedRead] = ()
    phases: Phases = QUIET
    status: Status = Status.SEALED
    fault: FaultEvidence = NO_FAULT
    cell: Cell = field(
        default_factory=lambda: {"acks": "all", "enable.idempotence": False, "fault": "none"}
    )
    repeat: int = 0
    events: Sequence[PlantedEvent] = ()
    epochs: Sequence[PlantedEpoch] = ()
    transactions: Sequence[PlantedTransaction] = ()
    sent: Sequence[PlantedSentRow] = ()
    replayed: Sequence[PlantedReplayRow] = ()
    replays: Sequence[Replay] = ()
    """Where each replay began; without any, the tables `sent` and `replays` do not exist."""
    keying: KeyOptions | None = None
    isolation: str = "read_uncommitted"
    """The consumers' `isolation.level`."""
    cleanup: str = "delete"
    """The topic's `cleanup.policy`."""
    batches: Sequence[PlantedBatch] | None = None
    """`None`: the producers are not idempotent, and there is no such table."""
    output: Sequence[PlantedLogRow] | None = None
    """The rows that copiers wrote; `None`: the trial has no copiers."""
    begin_offsets: Mapping[int, int] = field(default_factory=dict)
    """The first offset of each partition whose first records had expired at the final read."""
    partitions: int | None = None
    """The topic's partitions when the load began; `None`: as many as the rows use."""

    def plant(self, sweep: Path) -> Path:
        """Write and seal the trial in a sweep's folder, and return the trial's folder.

        What the sweep's plan says of the trial wins.
        """
        sealed = sweep / "trials" / self.trial_id
        partial = sealed.with_name(f"{self.trial_id}.partial")
        partial.mkdir(parents=True)
        seal(partial, sealed, _as_planned(self.record(sweep.name), sweep), self.tables())
        return sealed

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables of the trial's ledger."""
        planted = {
            "attempts": self.attempts,
            "log": self.log,
            "reads": self.reads,
            "events": self.events,
            "epochs": self.epochs,
        }
        planted["transactions"] = self.transactions
        optional: dict[str, Sequence[Any]] = {} if self.output is None else {OUTPUT: self.output}
        optional |= {"sent": self.sent, "replays": self.replayed} if self.replays else {}
        optional |= {} if self.batches is None else {"batches": self.batches}
        return {
            name: _table(rows, {**TABLES, **OPTIONAL_TABLES}[name])
            for name, rows in (planted | optional).items()
        }

    def ledger(self) -> Ledger:
        """Return the trial as if its files had been checked; it has none."""
        return Ledger(
            self.record("planted"),
            self.trial_id,
            len(self.attempts),
            len(self.log),
            len(self.reads),
            len(self.transactions),
        )

    def rows(self) -> UnitRows:
        """Return the trial's rows as a unit."""
        return UnitRows.of_tables(self.ledger(), self.tables())

    def _partitions(self) -> int:
        """Return the number of partitions that the rows use."""
        partitions = [row.partition for row in self.attempts if row.partition is not None]
        return 1 + max(
            [
                *partitions,
                *(row.partition for row in self.log),
                *(row.partition for row in self.reads),
            ],
            default=0,
        )

    def record(self, sweep_id: str) -> TrialManifest:
        """Return the trial's `trial.json`."""
        ends = Counter(row.partition for row in self.log)
        return TrialManifest(
            sweep_id=sweep_id,
            trial_id=self.trial_id,
            experiment="planted",
            cell=self.cell,
            label=" ".join(f"{axis}={value}" for axis, value in self.cell.items()),
            repeat=self.repeat,
            order=0,
            seed=0,
            token=0,
            status=self.status,
            topic="planted",
            kafka_version="none",
            client="none",
            producer_settings={},
            consumer_settings={"isolation.level": self.isolation},
            topic_settings={"cleanup.policy": self.cleanup},
            broker_settings={},
            replication_factor=1,
            partitions=self.partitions or self._partitions(),
            rate_records_per_s=1,
            record_size_bytes=100,
            duration_s=10,
            fault=self.fault,
            phases=self.phases,
            producers=tuple(
                _summary(producer, records)
                for producer, records in sorted(
                    Counter(row.producer for row in self.attempts).items()
                )
            ),
            end_offsets={
                partition: max(end, self.begin_offsets.get(partition, 0) + len(self.log))
                for partition, end in sorted(ends.items())
            },
            begin_offsets=dict(self.begin_offsets),
            replays=tuple(self.replays),
            record_batches=self.batches is not None,
            output_end_offsets=None
            if self.output is None
            else dict(sorted(Counter(row.partition for row in self.output).items())),
            keying=self.keying,
            stages_s={},
        )


def _as_planned(manifest: TrialManifest, sweep: Path) -> TrialManifest:
    """Return a record as the plan of a sweep has the trial, if there is one."""
    plan = read_planned(pafs.LocalFileSystem(), str(sweep))
    planned = plan.trials and plan.trials.get(manifest.trial_id)
    if not planned:
        return manifest
    said: dict[str, Any] = {
        **{name: getattr(planned, name) for name in EQUAL},
        **dict(planned.workload),
        "cell": planned.cell,
        "sweep_id": planned.sweep_id,
        "kafka_version": planned.cluster.kafka_version,
        "topic_settings": planned.topic,
        "client": f"{JAVA} {UNKNOWN_VERSION}" if planned.client == JAVA else None,
        "fault": planned.fault
        and manifest.fault.model_copy(
            update={"kind": planned.fault.kind, "parameters": planned.fault.all_parameters()}
        ),
    }
    return manifest.model_copy(
        update={name: value for name, value in said.items() if value is not None}
    )


def _summary(producer: int, records: int) -> ProducerSummary:
    return ProducerSummary(
        producer=producer,
        records=records,
        version="none",
        lateness_us_p50=0,
        lateness_us_p99=0,
        lateness_us_max=0,
    )


def _table(rows: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Return named tuples as a table of the ledger, with the schema's order of columns."""
    return pa.table(
        [pa.array([getattr(row, column.name) for row in rows], column.type) for column in schema],
        schema=schema,
    )
