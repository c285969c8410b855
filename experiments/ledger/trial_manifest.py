"""`trial.json`: a trial's parameters and settings, its fault, and whether that took effect."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import from_json

from ackbench.experiments.ledger.digests import FileDigest, InvalidLedger, without_digest
from ackbench.experiments.ledger.documents import why_unreadable
from ackbench.experiments.ledger.moved import lift_cell, lift_fault, lift_label
from ackbench.experiments.ledger.terms import LEDGER_VERSION, READABLE_VERSIONS, other_version

TRIAL_MANIFEST: Final = "trial.json"

WholeNumber = Annotated[int, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Boolean = Annotated[bool, Strict()]
"""Of a number that is given: no text, and `true` is no number."""
Scalar = str | int | float | bool | None
Cell = Annotated[dict[str, Scalar], BeforeValidator(lift_cell)]
"""A cell's value of each axis, by the YAML's names (`acks`, `enable.idempotence`), in its order."""
Label = Annotated[str, BeforeValidator(lift_label)]
"""The name of a cell, of all its axes with their values."""


class Status(StrEnum):
    """How a trial ended.

    Only a sealed trial can show that a guarantee held. Any trial with a complete ledger can show
    that one was violated, unless something else than its fault disturbed it.
    """

    SEALED = "sealed"
    VOID = "void"
    """Its ledger is sealed, but its fault had no observable effect, or something else disturbed the
    trial."""
    INCOMPLETE = "incomplete"
    """Its ledger is sealed, but its fault was carried out in part, or without the effect that it is
    meant to have."""
    REFUSED = "refused"
    """No client accepts these settings; the trial is never run."""
    FAILED = "failed"
    """The harness failed."""


SET_ASIDE: Final = (Status.VOID, Status.INCOMPLETE, Status.FAILED)
"""The statuses of trials that are in no share, and cannot show that a guarantee held."""


class Role(StrEnum):
    """The purpose of a trial in its sweep."""

    CELL = "cell"
    """A point of the experiment's axes."""
    CONTROL = "control"
    """No fault: a loss or a duplicate here is an error of the harness."""
    POSITIVE_CONTROL = "positive-control"
    """Settings and a fault that must lose records: a harness that finds no loss here is blind."""


class Frozen(BaseModel):
    """Base of immutable models that reject unknown fields and numbers that are not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Keys(Frozen):
    """The keys of a trial's records."""

    count: WholeNumber = Field(default=64, ge=0, le=2**31 - 1)
    """Number of distinct keys, numbered from 0, used in turn; 0: records have no key."""
    pairs: Literal["none", "own", "common"] = "none"
    """Whether a producer's records come in pairs: a record and one that depends on it.

    `own`: each record has its own key; `common`: both have the same key.
    """
    pair_apart_records: WholeNumber = Field(default=1, ge=1, le=1_000_000)
    """Distance of the two records of a pair, in records of their producer."""
    hot_key_share: Number = Field(default=0.0, ge=0, lt=1)
    """Share of the records with key 0; the others use the remaining keys in turn.

    0: all keys are used in turn.
    """
    round_robin: Boolean = False
    """Whether the producer sets the partition, in turn; librdkafka has no such partitioner."""
    placement: Boolean = False
    """Whether the partitions of the keys and the load of each partition are measured."""


class KeyOptions(Keys):
    """The keys of a trial's records, as its ledger has them."""

    text: bool = False
    """Whether a key is decimal digits, as Kafka's own programs write it, or 8 bytes big-endian."""

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, options: Any) -> Any:
        """Return the options of an earlier ledger, in which `count` was `keys`."""
        if not isinstance(options, dict) or "keys" not in options:
            return options
        return {"count" if name == "keys" else name: value for name, value in options.items()}


class FaultEvidence(Frozen):
    """What the fault did, with evidence."""

    kind: str
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    """As requested."""
    targets: tuple[int, ...] = ()
    """Node ids, resolved when the fault was injected."""
    took_effect: bool
    carried_out_in_part: bool = False
    """It did not take effect as requested, but something was done: a node had crashed."""
    evidence: tuple[str, ...] = ()
    """One sentence each, with figures; also what was not observed."""

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, fault: Any) -> Any:
        return lift_fault(fault)

    @property
    def status(self) -> Status:
        """The status of a trial with this fault and a complete ledger."""
        if self.took_effect:
            return Status.SEALED
        return Status.INCOMPLETE if self.carried_out_in_part else Status.VOID

    @property
    def why_not_sealed(self) -> str | None:
        """Why a trial with this fault is void or incomplete; `None`: it is sealed."""
        heads = {
            Status.VOID: "the fault had no observable effect",
            Status.INCOMPLETE: "the fault did not take full effect",
        }
        head = heads.get(self.status)
        return head and ": ".join([head, *(["; ".join(self.evidence)] if self.evidence else [])])


class Phases(Frozen):
    """The begin and end of a trial's phases, nanoseconds since the epoch, by one host's clock."""

    load_begin_ns: int
    """The first record's intended time, after the warm-up."""
    load_end_ns: int
    """The last record's intended time."""
    fault_begin_ns: int | None = None
    fault_effective_ns: int | None = None
    """When the first effect was observed: the process had exited or was stopped."""
    fault_end_ns: int | None = None
    """When the fault was healed: the process runs again (the ISR may not be full yet)."""
    settled_ns: int
    """When every record was settled, or its delivery timeout had passed."""
    healthy_ns: int
    """When the ISR was full again."""


class ProducerSummary(Frozen):
    """One producer."""

    producer: int
    records: int
    version: str
    """The client's version: `2.16.0` for librdkafka, `java 4.3.1` for the Java client."""
    lateness_us_p50: float | None
    lateness_us_p99: float | None
    lateness_us_max: float | None
    """Sent minus intended time: how late the load generator itself was; null: unknown."""
    lateness_is_without_transactions: bool = False
    """Whether records that were due while a transactional call waited are left out: that time is
    Kafka's."""
    realtime_pacing: bool = False
    """`True`: the thread that follows the schedule had a real-time priority, where that is allowed;
    without it, the producer is later on a busy machine."""


class Host(Frozen):
    """The host that ran a trial: figures of hosts that differ are not comparable."""

    name: str
    system: str
    """Operating system, kernel and architecture."""
    processor: str
    """The model of its first processor."""
    cores: int
    """On which the trial's processes may run."""
    memory_gib: int
    """Installed, not free."""
    disk: str
    """File system and device of the home, which the brokers write to."""


class ClusterAssignment(Frozen):
    """Which cluster a trial ran on, and why."""

    cluster: str
    """The cluster's name; trials with the same name shared it."""
    made: bool
    """Whether it was created for this trial; false: an earlier one used it, and it was healthy."""
    why: str
    """Why it was created, or why it could be shared, as a clause."""


class Replay(Frozen):
    """One replay: a read of the log after the final read."""

    number: int
    """From 1 on."""
    begin_offsets: dict[int, int]
    """Where each partition's replay began; it ended where the final read did."""
    at_ms: int | None = None
    """The timestamp that the replay began at; null: it began at offsets."""


class TrialManifest(Frozen):
    """The content of `trial.json`."""

    ledger_version: int = LEDGER_VERSION
    sweep_id: str
    trial_id: str
    experiment: str
    cell: Cell
    label: Label
    role: Role = Role.CELL
    repeat: int
    order: int
    seed: int
    token: int
    """Identifies the trial's records: each carries it, so no foreign record counts."""
    status: Status
    reason: str | None = None
    disturbances: tuple[str, ...] = ()
    """What else disturbed the trial, one sentence each, such as a broker that was killed by another
    program; such a trial is void."""
    hung_clients: tuple[str, ...] = ()
    """The clients that did not end, or of which a call had not returned, after their time-outs; one
    sentence each."""
    topic: str
    cluster_assignment: ClusterAssignment | None = None
    """`None`: not recorded, as for a trial outside a sweep."""
    host: Host | None = None
    """`None`: not recorded, as by ackbench before it recorded hosts."""
    kafka_version: str
    client: str
    producer_settings: dict[str, str]
    """The effective settings."""
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
    """The exclusive end of each partition at the final read, which read everything up to it."""
    begin_offsets: dict[int, int] = Field(default_factory=dict)
    """Where partitions began whose first records had expired; the others began at 0."""
    replays: tuple[Replay, ...] = ()
    """Empty: the records' fields are not checked; there are no tables `sent` and `replays`."""
    record_serving_brokers: bool = False
    """Whether the ledger has the table `served`."""
    record_batches: bool = False
    """Whether the ledger has the table `batches`."""
    keying: KeyOptions | None = None
    """`None`: keys, pairs and partitions are not measured."""
    output_end_offsets: dict[int, int] | None = None
    """`end_offsets` of the copiers' output topic; null: no copiers, and no table `output`."""
    stages_s: dict[str, float]
    """How long each stage of the trial took, seconds."""
    files: dict[str, FileDigest] | None = None
    """All other files of the trial, by their paths in its folder; `None`: not sealed yet, or by
    version 4."""

    @field_validator("files")
    @classmethod
    def _require_own_files(
        cls, files: dict[str, FileDigest] | None
    ) -> dict[str, FileDigest] | None:
        """Refuse names that lead out of the trial's folder: what they name would be read."""
        for name in files or ():
            if name.startswith("/") or ".." in name.split("/"):
                raise ValueError(f"{name!r} is no file of the trial")
        return files

    @property
    def compacted(self) -> bool:
        """Whether the topic is compacted; its own `cleanup.policy` wins over its brokers'."""
        policy = self.topic_settings.get("cleanup.policy") or self.broker_settings.get(
            "log.cleanup.policy", ""
        )
        return "compact" in policy

    @property
    def shows_aborted(self) -> bool:
        """Whether consumers may receive records of aborted transactions (`isolation.level`)."""
        return self.consumer_settings.get("isolation.level") != "read_committed"


def parse_trial_manifest(content: bytes, trial_id: str) -> TrialManifest:
    """Return the record in the content of a `trial.json`.

    Args:
        content: of the file.
        trial_id: the name of its folder.

    Raises:
        InvalidLedger: it is truncated, altered, of another version or of another trial.
    """
    file = f"trial {trial_id}: {TRIAL_MANIFEST}"
    try:
        document, has_digest = without_digest(content)
    except ValueError as error:
        raise InvalidLedger(f"{file} {error}") from error
    try:
        version = from_json(document).get("ledger_version")
        if version not in READABLE_VERSIONS:
            raise InvalidLedger(f"{file} {why_unreadable(content, other_version(version))}")
        if not has_digest and version == LEDGER_VERSION:
            raise InvalidLedger(
                f"{file} does not end with its SHA-256, as every ledger of version"
                f" {version} does: it was altered"
            )
        manifest = TrialManifest.model_validate_json(document)
    except (ValidationError, ValueError, AttributeError) as error:
        invalid = f"is not a valid trial manifest: {' '.join(str(error).split())}"
        raise InvalidLedger(f"{file} {why_unreadable(content, invalid)}") from error
    if manifest.trial_id != trial_id:
        raise InvalidLedger(f"{file} has trial_id {manifest.trial_id}")
    return manifest
