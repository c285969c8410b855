"""The plan of a sweep (`plan.json`): its trials and everything that each of them needs to know.

`experiments.planning` makes the plan; this module only defines it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic.dataclasses import dataclass

from ackbench.experiments.ledger.moved import lift_cluster
from ackbench.experiments.ledger.planned import Composition, FaultRequest
from ackbench.experiments.ledger.terms import LEDGER_VERSION
from ackbench.experiments.ledger.trial_manifest import Cell, Frozen, KeyOptions, Label, Role, Scalar
from ackbench.experiments.messages.errors import ExperimentError, LedgerError
from ackbench.experiments.messages.phrases import format_count, format_list, format_value
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, ClientKind, traits_of
from ackbench.experiments.sweep.cluster_kinds import CLUSTER_KINDS, ClusterTraits
from ackbench.experiments.sweep.expectations import Expectation
from ackbench.experiments.sweep.workload import Workload
from ackbench.infra.kafka.broker_settings import shared_properties
from ackbench.infra.kafka.spec import ClusterSpec

__all__ = [
    "NO_FAULT",
    "Claim",
    "ClaimText",
    "ClusterNeed",
    "Composition",
    "ExternalAccess",
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


def external_prefix(sweep_id: str) -> str:
    """Return how the names of all begin that a sweep makes in an external cluster.

    Topics, groups and transactional ids: what has another name there belongs to others.
    """
    return f"ackbench-{sweep_id}-"


class ExternalAccess(Frozen):
    """How clients reach a cluster that ackbench did not start."""

    addresses: str
    """`host:port,...`"""
    cluster_id: str | None = None
    """The id that the cluster reported when the sweep was planned."""
    java_client_version: str | None = None
    """Kafka's version whose Java clients connect to it; `None`: the brokers'."""
    security: dict[str, str] = Field(default_factory=dict)
    """The clients' security properties.

    A secret is the name of an environment variable, as in `$NAME`.
    """


@dataclass(frozen=True, config=ConfigDict(extra="forbid", defer_build=True))
class ClusterNeed(ClusterSpec):
    """The cluster that a trial needs. Trials with equal needs share one."""

    external: ExternalAccess | None = None
    """`None`: a cluster of this machine.

    `broker` holds the settings that an external cluster reports, and its version may be unknown.
    """

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, need: Any) -> Any:
        return lift_cluster(need)

    @property
    def traits(self) -> ClusterTraits:
        """The traits of the kind of cluster."""
        return CLUSTER_KINDS["external" if self.external else "local"]

    def spec(self) -> ClusterSpec:
        """Return the specification from which `infra` starts the cluster."""
        return ClusterSpec(**{part.name: getattr(self, part.name) for part in fields(ClusterSpec)})

    @property
    def security(self) -> dict[str, str]:
        """The clients' security properties; none for a cluster of this machine."""
        return self.external.security if self.external else {}

    @property
    def version_of_java_clients(self) -> str:
        """Kafka's version whose Java clients connect to this cluster."""
        return (self.external and self.external.java_client_version) or self.kafka_version

    def settings(self) -> dict[str, str]:
        """Return the brokers' effective settings, as far as they are known before the start."""
        known = self if self.traits.planned else ClusterSpec(nodes=self.nodes)
        return {**shared_properties(known), **self.broker}


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
    label: Label
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

    `None`: of librdkafka the installed one, of Java's client that of the cluster, of an adapter
    that of its lock.
    """
    client_command: tuple[str, ...] = ()
    """The command of a client that is a program of the experiment's own."""
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
        keys = self.workload.keys
        if not keys.placement and keys.pairs == "none":
            return None
        return KeyOptions(text=traits_of(self.client).reports_in_text, **keys.model_dump())


class RefusedCell(Frozen):
    """A cell whose settings the client rejects."""

    trial_id: TrialId
    cell: Cell
    label: Label
    reason: str
    """The client's error message."""


class Plan(Frozen):
    """Everything that a sweep will run."""

    ledger_version: int = LEDGER_VERSION
    sweep_id: str
    experiment: str
    title: str | None = None
    """The question in one line; None: the plan is of an older version."""
    question: str
    experiment_commit: str | None = None
    """The commit of the git repository that has the experiment's file as it was read; None: no
    commit has it."""
    construction: str | None = None
    """Where the experiment's own construction decides the outcome; None: it does not say."""
    claim: Claim | None = None
    """The lesson's claim that the experiment tests, if it tests one."""
    expectations: tuple[Expectation, ...] = ()
    """What the experiment expects of its cells."""
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
