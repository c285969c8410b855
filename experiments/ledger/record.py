"""`trial.json`: what a trial was, what was done to it, and whether that bit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from experiments.ledger.schema import LEDGER_VERSION

Scalar = str | int | float | bool | None
Cell = dict[str, Scalar]
"""The axes as the YAML names them (`acks`, `enable.idempotence`, ...) and this cell's value of each, in the YAML's order."""


class Status(StrEnum):
    """How a trial ended. Only SEALED ones are judged."""

    SEALED = "sealed"
    VOID = "void"
    """Sealed, but its fault did not bite: says nothing about the fault."""
    REFUSED = "refused"
    """No client accepts these settings; never run."""
    FAILED = "failed"
    """The harness failed; says nothing about Kafka."""


class Role(StrEnum):
    """What a trial is in its sweep for."""

    CELL = "cell"
    """A point of the experiment's axes."""
    CONTROL = "control"
    """No fault: what is lost or repeated here is the harness's own error."""
    POSITIVE_CONTROL = "positive-control"
    """Settings and a fault that must lose: a harness that sees no loss here would see none anywhere."""


class Frozen(BaseModel):
    """A record: immutable, and strict about what it holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KeyOptions(Frozen):
    """Which keys the records have, and so what can be asked of where they went."""

    keys: int = 0
    """Distinct keys, from 0 on, drawn in turn; 0: no key."""
    pairs: Literal["none", "own", "common"] = "none"
    """Whether records come in pairs, a first and a second one that follows from it: each with a key of its own, or both with one."""
    pair_apart_records: int = 1
    """By how many records the second one of a pair comes behind the first one."""
    hot_key_share: float = 0.0
    """This share of the records has key 0, and the others take turns; 0: all keys take turns."""
    text: bool = False
    """A key's bytes are its number in decimal digits, as Kafka's own programs write it; else 8 bytes, the highest first."""
    placement: bool = False
    """Whether it is asked where each key went, and how the load was spread over the partitions."""


class FaultEvidence(Frozen):
    """What the fault did, and how we know."""

    kind: str
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    """As they were asked for."""
    targets: tuple[int, ...] = ()
    """Node ids, resolved when the fault struck."""
    took_effect: bool
    evidence: tuple[str, ...] = ()
    """One sentence each, with figures; also why it did not bite."""


class Phases(Frozen):
    """The trial's marks, nanoseconds since the epoch, all on one host's clock."""

    load_begin_ns: int
    """The first record's intended time; warm-up lies before."""
    load_end_ns: int
    """The last record's intended time."""
    fault_begin_ns: int | None = None
    fault_effective_ns: int | None = None
    """The first effect was seen: the process gone or stopped."""
    fault_end_ns: int | None = None
    """The heal was done: the process runs again (its ISR may not be full yet)."""
    settled_ns: int
    """Every record settled, or its delivery timeout over."""
    healthy_ns: int
    """The full ISR was seen again."""


class ProducerSummary(Frozen):
    """One producer process."""

    producer: int
    records: int
    version: str
    """The client's own version: librdkafka's such as `2.16.0`, of the Java client `java 4.3.1`."""
    lateness_us_p50: float | None
    lateness_us_p99: float | None
    lateness_us_max: float | None
    """sent - intended: how far the generator itself fell behind its schedule; null: not known."""


class ClusterAssignment(Frozen):
    """Which cluster a trial ran on, and how it came by it."""

    cluster: str
    """Its name; trials of the same name shared it."""
    made: bool
    """It was made for this trial; false: an earlier trial had used it, and it had proved itself whole since."""
    why: str
    """Why it was made, or why it could be shared, as a clause."""


class Replay(Frozen):
    """Where the log was read once more from, after all was over."""

    number: int
    """From 1 on."""
    begin_offsets: dict[int, int]
    """Of each partition that was read; to the same ends as the final read."""
    at_ms: int | None = None
    """The timestamp from which on it was asked for; null: from the offsets themselves."""


class TrialRecord(Frozen):
    """One trial, as `trial.json` holds it."""

    ledger_version: int = LEDGER_VERSION
    sweep_id: str
    trial_id: str
    experiment: str
    cell: Cell
    label: str
    role: Role = Role.CELL
    repeat: int
    order: int
    seed: int
    token: int
    """Every record of the trial carries it, so a stranger's record is never taken for ours."""
    status: Status
    reason: str | None = None
    topic: str
    cluster_assignment: ClusterAssignment | None = None
    """`None`: nobody wrote it down, as where a trial is run by hand."""
    kafka_version: str
    client: str
    producer_settings: dict[str, str]
    """Effective: what was passed, all of it."""
    consumer_settings: dict[str, str]
    topic_settings: dict[str, str]
    broker_settings: dict[str, str]
    replication_factor: int
    partitions: int
    rate_records_per_s: float
    record_size_bytes: int
    duration_s: float
    fault: FaultEvidence
    phases: Phases
    producers: tuple[ProducerSummary, ...]
    end_offsets: dict[int, int]
    """The partition's end at the final read; the read went from its begin to here, or the trial would not be sealed."""
    begin_offsets: dict[int, int] = Field(default_factory=dict)
    """Of each partition whose first records had expired, where it began at the final read; the others began at 0."""
    replays: tuple[Replay, ...] = ()
    """None: nothing is asked of the records' fields, and there are no tables `sent` and `replays`."""
    record_serving_brokers: bool = False
    """Whether there is a table `served`."""
    keying: KeyOptions | None = None
    """`None`: nothing is asked of keys, pairs and partitions."""
    output_end_offsets: dict[int, int] | None = None
    """The same of the topic that was copied to; null: nothing was copied, and there is no table `output`."""
    stages_s: dict[str, float]
    """What each stage of the trial cost, seconds."""


def read_record(trial_folder: Path) -> TrialRecord:
    """Read `trial.json`.

    Raises:
        pydantic.ValidationError, OSError: it is not there or not of this version; callers name the trial.
    """
    return TrialRecord.model_validate_json((trial_folder / "trial.json").read_bytes())
