"""The plan of a sweep (`plan.json`): its trials and everything that each of them needs to know.

`experiments.planning` makes the plan; this module only defines it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from ackbench.experiments.errors import ExperimentError, LedgerError
from ackbench.experiments.ledger.planned import Composition, FaultRequest
from ackbench.experiments.ledger.schema import LEDGER_VERSION
from ackbench.experiments.ledger.trial_manifest import (
    Boolean,
    Cell,
    Frozen,
    KeyOptions,
    Number,
    Role,
    Scalar,
    WholeNumber,
)
from ackbench.experiments.messages.phrases import format_count, format_list, format_value
from ackbench.experiments.sweep.client_kinds import CLIENTS, DEFAULT_CLIENT, ClientKind
from ackbench.infra.kafka.broker_settings import shared_properties
from ackbench.infra.kafka.spec import ClusterSpec, Coordination, DiskKind, NetworkKind

__all__ = [
    "COMMIT_BY_DELIVERY",
    "NO_FAULT",
    "AutoOffsetReset",
    "Claim",
    "ClaimText",
    "ClusterNeed",
    "Commit",
    "Composition",
    "Delivery",
    "FaultRequest",
    "PassedSettings",
    "Plan",
    "RefusedCell",
    "TrialSpec",
    "Workload",
    "check_claim",
    "external_prefix",
]

NO_FAULT: Final = "none"

ClaimText = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]


class Claim(Frozen):
    """A lesson's claim about Kafka, and how its experiment tests it."""

    lesson: int = Field(ge=1, strict=True)
    """Number of the lesson."""
    finding: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]*$")]
    """The file in `experiments/results/lessons/findings` that the finding is computed from."""
    says: ClaimText
    """The claim, as the lesson states it."""
    mechanism: ClaimText
    """How Kafka works in this respect, with sources."""
    method: ClaimText
    """What the experiment does and measures."""
    refuted_by: ClaimText
    """Observations that would refute the claim."""
    in_production: ClaimText | None = None
    """Recommended settings for production."""
    quick: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    """Values by axis that a quick tour tests instead of the experiment's own."""
    varies: tuple[str, ...] = ()
    """Axes that need at least two values: the claim compares them."""
    needs_fault: bool = False
    """Whether at least one cell must have a fault."""
    min_nodes: int = Field(default=1, ge=1, strict=True)


def check_claim(claim: Claim, cells: Sequence[Cell], nodes: int) -> None:
    """Check that an experiment still tests its claim after its overrides.

    Args:
        claim: the experiment's claim.
        cells: the experiment's own cells, overrides included.
        nodes: number of brokers where a cell does not specify it.

    Raises:
        ExperimentError: an override removed what the claim is about; one line with the reason.
    """
    if claim.needs_fault and all(cell.get("fault", NO_FAULT) == NO_FAULT for cell in cells):
        raise ExperimentError(
            "fault is none in every cell, but the claim is about the effect of a fault: "
            "keep a fault, or run another experiment"
        )
    for axis in claim.varies:
        values = {str(cell.get(axis)): None for cell in cells}
        if len(values) < 2:  # noqa: PLR2004 - a comparison has two sides
            raise ExperimentError(
                f"{axis} is {format_list(list(values))} in every cell, but the claim compares its "
                "values: set at least two"
            )
    most = max(int(str(cell.get("nodes", nodes))) for cell in cells)
    if most < claim.min_nodes:
        raise ExperimentError(
            f"nodes is {most}; the claim needs at least {format_count(claim.min_nodes, 'node')}"
        )


AutoOffsetReset = Literal["earliest", "latest", "none"]
"""Kafka's `auto.offset.reset`: where a member continues whose next offset is not available.

With `none` it gets an error instead.
"""
Commit = Literal["before", "after", "within"]
"""When a member of a group commits: before or after it processes a record.

`within`: in one transaction with the record that it produces.
"""
Delivery = Literal["at-most-once", "at-least-once", "exactly-once"]
COMMIT_BY_DELIVERY: Final[Mapping[Delivery, Commit]] = MappingProxyType(
    {"at-most-once": "before", "at-least-once": "after", "exactly-once": "within"}
)


def external_prefix(sweep_id: str) -> str:
    """Return how the names of all begin that a sweep makes in an external cluster.

    Topics, groups and transactional ids: what has another name there belongs to others.
    """
    return f"ackbench-{sweep_id}-"


class ClusterNeed(Frozen):
    """The cluster that a trial needs. Trials with equal needs share one.

    The fields are those of `infra.kafka.spec.ClusterSpec`.
    """

    nodes: int = 3
    kafka_version: str
    broker: dict[str, str] = Field(default_factory=dict)
    network: NetworkKind = "loopback"
    disk: DiskKind = "folder"
    coordination: Coordination = "kraft"
    controllers: int = 0
    zookeepers: int = 0
    features: dict[str, int] = Field(default_factory=dict)
    external: str | None = None
    """Addresses of an external cluster, `host:port,...`; `None`: a cluster of this machine.

    `broker` then holds the settings that the cluster reports, and its version is unknown.
    """
    external_id: str | None = None
    """The id that the external cluster reported when the sweep was planned."""
    java_client_version: str | None = None
    """Kafka's version whose Java clients connect to an external cluster; `None`: the brokers'."""
    security: dict[str, str] = Field(default_factory=dict)
    """The clients' security properties for an external cluster.

    A secret is the name of an environment variable, as in `$NAME`.
    """

    def spec(self) -> ClusterSpec:
        """Return the specification from which `infra` starts the cluster."""
        others = {"external", "external_id", "java_client_version", "security"}
        return ClusterSpec(**self.model_dump(exclude=others))

    @property
    def version_of_java_clients(self) -> str:
        """Kafka's version whose Java clients connect to this cluster."""
        return self.java_client_version or self.kafka_version

    def settings(self) -> dict[str, str]:
        """Return the brokers' effective settings, as far as they are known before the start."""
        known = ClusterSpec(nodes=self.nodes) if self.external else self.spec()
        return {**shared_properties(known), **self.broker}


class Workload(Frozen):
    """The load of a trial. It is open-loop: the schedule does not wait for the cluster."""

    rate_records_per_s: Number = Field(default=10_000.0, gt=0, le=10_000_000)
    """Rate of all producers together."""
    record_size_bytes: WholeNumber = Field(default=100, ge=1, le=1_000_000)
    """Size of a record's value, including ackbench's header."""
    duration_s: Number = Field(default=10.0, gt=0, le=86_400)
    keys: WholeNumber = Field(default=64, ge=0, le=2**31 - 1)
    """Number of distinct keys, used in turn; 0: records have no key."""
    pairs: Literal["none", "own", "common"] = "none"
    """Whether a producer's records come in pairs: a record and one that depends on it.

    `own`: each record has its own key; `common`: both have the same key.
    """
    pair_apart_records: WholeNumber = Field(default=1, ge=1, le=1_000_000)
    """Distance of the two records of a pair, in records of their producer."""
    hot_key_share: Number = Field(default=0.0, ge=0, lt=1)
    """Share of the records with one and the same key; the others use the remaining keys in turn.

    0: all keys are used in turn.
    """
    round_robin: Boolean = False
    """Whether the producer sets the partition, in turn; librdkafka has no such partitioner."""
    placement: Boolean = False
    """Whether the partitions of the keys and the load of each partition are measured."""
    producers: WholeNumber = Field(default=1, ge=1, le=64)
    transaction_records: WholeNumber = Field(default=0, ge=0, le=1_000_000)
    """Records per transaction of each producer; 0: no transactions."""
    abort_every: WholeNumber = Field(default=0, ge=0, le=1_000_000)
    """Every n-th transaction is aborted on purpose; 0: none."""
    consumers: WholeNumber = Field(default=0, ge=0, le=64)
    """Members of each consumer group; 0: only the concurrent consumer reads the topic."""
    headers: WholeNumber = Field(default=0, ge=0, le=9)
    """Headers of each record.

    With at least one, digests of each record's fields are recorded, and the log is replayed at the
    end. 0: none of this.
    """
    record_serving_brokers: Boolean = False
    """Whether the broker is recorded that served each record.

    Applies to the producers and the concurrent consumer.
    """
    groups: WholeNumber = Field(default=1, ge=1, le=16)
    """Number of consumer groups of that size; faults of members affect the first group."""
    slow_members: WholeNumber = Field(default=0, ge=0, le=64)
    """Number of slow members of each group; they are its first members."""
    slow_records_per_s: Number = Field(default=0.0, ge=0, le=10_000_000)
    """Maximum rate of each slow member during the load; 0: no member is slow."""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """The members' `auto.offset.reset`."""
    commit: Literal["before", "after"] = "after"
    """When a member commits: before or after it processes a record."""
    commit_every_records: WholeNumber = Field(default=500, ge=1, le=100_000)
    """Approximate maximum number of records between two commits of a member."""
    kind: Literal["produce", "copy"] = "produce"
    """`copy`: the records are also copied to another topic (consume-process-produce).

    The concurrent consumer then reads that topic.
    """
    copiers: WholeNumber = Field(default=0, ge=0, le=64)
    """Members of the consumer group that copies the records."""
    delivery: Delivery = "at-least-once"
    """Delivery semantics of the copiers: commit before, after, or in one transaction."""

    @property
    def members(self) -> int:
        """Number of members of the consumer group, copiers or not."""
        return self.copiers if self.kind == "copy" else self.consumers

    @property
    def commits(self) -> Commit:
        """When the members of the consumer group commit."""
        return COMMIT_BY_DELIVERY[self.delivery] if self.kind == "copy" else self.commit

    @property
    def records(self) -> int:
        """Number of records in the schedule."""
        return round(self.rate_records_per_s * self.duration_s)


class PassedSettings(Frozen):
    """Properties that are passed to clients that keep their own defaults, without addresses."""

    producer: dict[str, str]
    consumer: dict[str, str]


TrialId = Annotated[str, StringConstraints(pattern=r"^[0-9]{3,}-[A-Za-z0-9]{1,20}$")]
"""Unique in the sweep, and valid in the name of a file and a topic: `007-a1b2c3`."""


class TrialSpec(Frozen):
    """Everything that one trial needs to know, resolved: no defaults apply later."""

    sweep_id: str
    trial_id: TrialId
    experiment: str
    cell: Cell
    label: str
    """The cell's short name: `acks=1 idem=off RF=3 P=6 leader-crash`."""
    role: Role = Role.CELL
    added: bool = False
    """Whether the trial is only a control, and not one of the experiment's cells."""
    repeat: int
    order: int
    """Place in the shuffled order, from 0."""
    seed: int
    cluster: ClusterNeed
    needs_own_cluster: bool = False
    """Whether no other trial uses the cluster, as the fault can have lasting effects."""
    replication_factor: int
    partitions: int
    client: ClientKind = DEFAULT_CLIENT
    """The client under test."""
    client_version: str | None = None
    """The client's version, if the cell sets it.

    `None`: of librdkafka the installed one, of Java's client that of the cluster.
    """
    producer: dict[str, str]
    """Effective values of the producer's properties that affect correctness.

    They include `acks` and `enable.idempotence`, whether passed or the client's default.
    """
    consumer: dict[str, str]
    passed: PassedSettings | None = None
    """With `client.defaults`: the properties that are passed. `None`: all of them."""
    topic: dict[str, str]
    """Topic properties; `min.insync.replicas` is resolved to a number."""
    workload: Workload
    fault: FaultRequest

    @property
    def java_version(self) -> str:
        """Kafka's version whose Java clients the trial runs, if it tests them."""
        return self.client_version or self.cluster.version_of_java_clients

    def keying(self) -> KeyOptions | None:
        """Return the key options of the trial's manifest; `None` if keys are not measured."""
        load = self.workload
        if not load.placement and load.pairs == "none":
            return None
        return KeyOptions(
            text=CLIENTS[self.client].reports_in_text,
            **load.model_dump(include=set(KeyOptions.model_fields)),
        )


class RefusedCell(Frozen):
    """A cell whose settings the client rejects."""

    trial_id: TrialId
    cell: Cell
    label: str
    reason: str
    """The client's error message."""


class Plan(Frozen):
    """Everything that a sweep will run."""

    ledger_version: int = LEDGER_VERSION
    sweep_id: str
    experiment: str
    question: str
    construction: str | None = None
    """Where the experiment's own construction decides the outcome; None: it does not say."""
    claim: Claim | None = None
    """The lesson's claim that the experiment tests, if it tests one."""
    seed: int
    repeats: int
    trials: tuple[TrialSpec, ...]
    """In the order in which they run."""
    refused: tuple[RefusedCell, ...]

    def require_sweep(self, sweep_id: str) -> None:
        """Check that the plan and its trials are those of a sweep, before they are run.

        Raises:
            LedgerError: they are another sweep's, whose clusters and topics they would use.
        """
        for planned in {self.sweep_id, *(trial.sweep_id for trial in self.trials)} - {sweep_id}:
            raise LedgerError(
                f"the plan of sweep {sweep_id} is that of {format_value(planned)}: restore it from "
                "a copy"
            )

    def trial(self, trial_id: str) -> TrialSpec:
        """Return the trial with an id.

        Raises:
            KeyError: the plan has no such trial.
        """
        for trial in self.trials:
            if trial.trial_id == trial_id:
                return trial
        raise KeyError(trial_id)
