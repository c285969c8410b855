"""A planted crash, and the explanations of planted anomalies by its evidence.

Leader 2 acknowledges in epoch 5, leader 1 takes over at offset 80, and leader 2 truncates its log.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from ackbench.experiments.ledger.result_tables import ANOMALIES
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Phases
from ackbench.spark_jobs.causes.anomalous_records import ANOMALOUS_RECORDS, APPENDED_RANGES
from ackbench.spark_jobs.causes.evidence import trial_evidence
from ackbench.spark_jobs.causes.explanations import explained_parts
from ackbench.spark_jobs.planted import PlantedEpoch, PlantedEvent, PlantedTrial

MS = 1_000_000
_ORDER = ("partition", "kind", "producer", "seq", "offset", "at_ns")
PHASES = Phases(
    load_begin_ns=0,
    load_end_ns=900 * MS,
    fault_begin_ns=100 * MS,
    fault_end_ns=500 * MS,
    settled_ns=900 * MS,
    healthy_ns=900 * MS,
)
LEADER_2 = PlantedEvent(
    0,
    "became_leader",
    node=2,
    partition=0,
    leader_epoch=5,
    offset=0,
    source="broker",
    resolution_ns=MS,
)
LEADER_1 = PlantedEvent(
    300 * MS,
    "became_leader",
    node=1,
    partition=0,
    leader_epoch=6,
    offset=80,
    source="broker",
    resolution_ns=MS,
)
IN_SYNC = PlantedEvent(0, "isr", partition=0, leader_epoch=5, source="metadata", detail="1,2")
SHRUNK = PlantedEvent(310 * MS, "isr", partition=0, leader_epoch=6, source="metadata", detail="1")
TRUNCATED_BY_2 = PlantedEvent(
    600 * MS,
    "truncated",
    node=2,
    partition=0,
    offset=80,
    source="broker",
    resolution_ns=MS,
    detail="node 2: Truncating to offset 80",
)
CRASH = (LEADER_2, LEADER_1, IN_SYNC, SHRUNK, TRUNCATED_BY_2)
LINEAGE = (
    PlantedEpoch(1, 0, 5, 0),
    PlantedEpoch(1, 0, 6, 80),
    PlantedEpoch(2, 0, 5, 0),
    PlantedEpoch(2, 0, 6, 80),
)


class AnomalousRecord(NamedTuple):
    """One row of the schema `ANOMALOUS_RECORDS`."""

    kind: str = "LOST"
    seq: int | None = 0
    offset: int | None = None
    at_ns: int | None = 150 * MS
    sent_ns: int | None = 140 * MS
    first_offset: int | None = None
    producer: int | None = 0
    partition: int | None = 0
    bumped_epoch: int | None = None


class Appended(NamedTuple):
    """The sequence numbers that a leader epoch appended, of one producer."""

    leader_epoch: int | None
    first_seq: int
    last_seq: int
    partition: int = 0
    producer: int = 0


def attributed(*records: AnomalousRecord, **changes: Any) -> list[dict[str, Any]]:
    """Return the rows of the table `anomalies`, with the arguments of `anomalies_table`."""
    return anomalies_table(*records, **changes).to_pylist()  # type: ignore[no-any-return]


def anomalies_table(
    *records: AnomalousRecord,
    events: tuple[PlantedEvent, ...] = CRASH,
    epochs: tuple[PlantedEpoch, ...] = LINEAGE,
    appended: tuple[Appended, ...] = (),
    phases: Phases = PHASES,
) -> pa.Table:
    """Return the table `anomalies` of planted records and a planted trial's evidence."""
    trial = PlantedTrial(
        "t",
        (),
        events=events,
        epochs=epochs,
        phases=phases,
        fault=FaultEvidence(kind="leader-crash-behind", targets=(2, 1), took_effect=True),
    )
    tables = trial.tables()
    explained = explained_parts(
        pa.Table.from_pylist([row._asdict() for row in records], schema=ANOMALOUS_RECORDS),
        pa.Table.from_pylist([row._asdict() for row in appended], schema=APPENDED_RANGES),
        trial_evidence(trial.record("planted"), tables["events"], tables["epochs"]),
    )
    schema = pa.schema([field for field in ANOMALIES if field.name != "trial_id"])
    return pa.concat_tables([schema.empty_table(), *explained]).sort_by(
        [(name, "ascending") for name in _ORDER]
    )


def causes(*records: AnomalousRecord, **changes: Any) -> list[str]:
    """Return the causes of planted records, by kind and sequence number."""
    return [row["cause"] for row in attributed(*records, **changes)]
