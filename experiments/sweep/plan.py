"""What a sweep is going to run, as data: `plan.json`. Pure; `experiments.planning` makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from experiments.errors import ExperimentError
from experiments.ledger.record import Cell, Frozen, KeyOptions, Role, Scalar
from experiments.ledger.schema import LEDGER_VERSION
from experiments.messages.phrases import format_count, format_list
from infra.kafka.broker_settings import shared_properties
from infra.kafka.spec import ClusterSpec, Coordination, DiskKind, NetworkKind

# ---------- What a lesson claims about Kafka, as the experiment that tests it puts it, and when an experiment cannot test it any more. Pure.


NO_FAULT = "none"

ClaimText = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]


class Claim(Frozen):
    """A claim of the lessons, and what is done about it."""

    lesson: int = Field(ge=1, strict=True)
    """Number of the lesson."""
    finding: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]*$")]
    """The module of `experiments.lessons.findings` that computes the finding."""
    says: ClaimText
    """The claim."""
    mechanism: ClaimText
    """How Kafka does it."""
    method: ClaimText
    """What is done, and what is measured."""
    refuted_by: ClaimText
    """What would have to be seen for the claim to fall."""
    in_production: ClaimText | None = None
    """What to set where it matters."""
    varies: tuple[str, ...] = ()
    """Axes of which at least two values must be left, for there is nothing to compare without."""
    needs_fault: bool = False
    """Whether a fault must strike in some cell."""
    min_nodes: int = Field(default=1, ge=1, strict=True)


def check_claim(claim: Claim, cells: Sequence[Cell], nodes: int) -> None:
    """See that what is left of an experiment still tests its claim.

    Args:
        claim: the experiment's.
        cells: its own cells, with every override in them.
        nodes: how many brokers it has where a cell does not say it.

    Raises:
        ExperimentError: an override took away what the question is about; one line with the reason.
    """
    if claim.needs_fault and all(cell.get("fault", NO_FAULT) == NO_FAULT for cell in cells):
        raise ExperimentError(
            "fault is none in every cell, and the question is what a fault does: leave it a fault, or ask another experiment"
        )
    for axis in claim.varies:
        values = {str(cell.get(axis)): None for cell in cells}
        if len(values) < 2:  # noqa: PLR2004 - a comparison has two sides
            raise ExperimentError(
                f"{axis} is {format_list(list(values))} in every cell, and the question compares: give it two values or more"
            )
    most = max(int(str(cell.get("nodes", nodes))) for cell in cells)
    if most < claim.min_nodes:
        raise ExperimentError(
            f"nodes is {most}; the question needs at least {format_count(claim.min_nodes, 'node')}"
        )


Composition = Literal["&", ">>"]
ClientKind = Literal["librdkafka", "java"]
AutoOffsetReset = Literal["earliest", "latest", "none"]
"""`auto.offset.reset` as Kafka has it: where a member reads on of which the offset is not there any more; `none`: nowhere, it is told an error."""
Commit = Literal["before", "after", "within"]
"""When a member of a group commits: before it processes a record, after, or in one transaction with what it produces."""
Delivery = Literal["at-most-once", "at-least-once", "exactly-once"]
COMMITS: Final[Mapping[Delivery, Commit]] = MappingProxyType(
    {"at-most-once": "before", "at-least-once": "after", "exactly-once": "within"}
)


class ClusterNeed(Frozen):
    """The cluster a trial needs, as `infra.cluster.interface.ClusterSpec` has it; trials with equal needs share one."""

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
    """Where clients come to a cluster that is somebody else's; then `broker` is what it told of itself, and its version is not known."""
    security: dict[str, str] = Field(default_factory=dict)
    """How clients prove there who they are; of a secret, `$NAME` of the environment variable that holds it."""

    def spec(self) -> ClusterSpec:
        """Return it for `infra`."""
        return ClusterSpec(**self.model_dump(exclude={"external", "security"}))

    def settings(self) -> dict[str, str]:
        """Return the effective settings of its brokers, as far as they are known before it runs."""
        known = ClusterSpec(nodes=self.nodes) if self.external else self.spec()
        return {**shared_properties(known), **self.broker}


class Workload(Frozen):
    """The load of a trial: open loop, so the schedule does not wait for the cluster."""

    rate_records_per_s: float
    """Of all producers together."""
    record_size_bytes: int
    """The value's size; the record's own header is inside it."""
    duration_s: float
    keys: int
    """Distinct keys, drawn in turn; 0: no key."""
    pairs: Literal["none", "own", "common"] = "none"
    """Whether a producer's records come in pairs, a first and a second one that follows from it: each with a key of its own, or both with one."""
    pair_apart_records: int = 1
    """By how many records of its producer the second one of a pair comes behind the first one."""
    hot_key_share: float = 0.0
    """This share of the records has one key, and the others take turns with the rest; 0: all keys take turns."""
    round_robin: bool = False
    """The producer names the partition itself, in turn: librdkafka has no such partitioner."""
    placement: bool = False
    """Whether it is asked where each key went, and how the load was spread over the partitions."""
    producers: int
    transaction_records: int = 0
    """So many records a transaction, of each producer; 0: no transactions."""
    abort_every: int = 0
    """Each so-many-th transaction is aborted on purpose; 0: none."""
    consumers: int = 0
    """Members of a consumer group that shares the topic; 0: none, the reader along is alone."""
    headers: int = 0
    """That each record carries; with any it is noted what each is made of, and the log is replayed at the end. 0: none, and nothing of it."""
    record_serving_brokers: bool = False
    """Whether it is noted which broker served each record of the producers and of the reader along."""
    groups: int = 1
    """How many such groups there are, each of so many members; a fault of a member is one of the first group."""
    slow_members: int = 0
    """So many members of each group, the first ones, are slow."""
    slow_records_per_s: float = 0
    """How fast each of these processes, at the most, while the load lasts; 0: none is slow."""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """Where a member reads on, of which the log does not hold the offset any more: its `auto.offset.reset`."""
    commit: Literal["before", "after"] = "after"
    """When a member commits: before it processes a record, or after."""
    commit_every_records: int = 500
    """How many records a member has in hand at most, about, when it commits."""
    kind: Literal["produce", "copy"] = "produce"
    """Whether what the producers write is also copied to another topic (consume-process-produce), which is then what is read along."""
    copiers: int = 0
    """Members of the consumer group that copies."""
    delivery: Delivery = "at-least-once"
    """How a copier copies: it commits before, after, or in one transaction with it."""

    @property
    def members(self) -> int:
        """How many there are in the consumer group, whatever they do with a record."""
        return self.copiers if self.kind == "copy" else self.consumers

    @property
    def commits(self) -> Commit:
        """When its members commit."""
        return COMMITS[self.delivery] if self.kind == "copy" else self.commit

    @property
    def records(self) -> int:
        """How many records the schedule holds."""
        return round(self.rate_records_per_s * self.duration_s)


class FaultRequest(Frozen):
    """Which fault, and its parameters as `experiments.faults` names them; or several faults, beside or after each other."""

    kind: str
    """Of several: as `experiments.faults.composition.notation` writes them."""
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    """Of one fault; several have them in their parts."""
    joined: Composition | None = None
    """How the parts stand to each other: `&` at the same time, `>>` each after the heal of the one before."""
    parts: tuple[FaultRequest, ...] = ()
    """Two or more, or none: then it is one fault."""

    def leaves(self) -> tuple[FaultRequest, ...]:
        """Return the single faults, in the order in which they are written."""
        return (
            tuple(leaf for part in self.parts for leaf in part.leaves()) if self.parts else (self,)
        )

    def with_leaves(self, changed: Callable[[FaultRequest], FaultRequest]) -> FaultRequest:
        """Return the request with each single fault changed."""
        return (
            self.model_copy(
                update={"parts": tuple(part.with_leaves(changed) for part in self.parts)}
            )
            if self.parts
            else changed(self)
        )

    def all_parameters(self) -> dict[str, Scalar]:
        """Return the parameters; of several faults each one's name stands in front, with its place: `2.leader-pause.at_s`."""
        if not self.parts:
            return self.parameters
        return {
            f"{place}.{leaf.kind}.{name}": value
            for place, leaf in enumerate(self.leaves(), 1)
            for name, value in leaf.parameters.items()
        }


class PassedSettings(Frozen):
    """What clients are given that keep their own defaults; the addresses come on top."""

    producer: dict[str, str]
    consumer: dict[str, str]


class TrialSpec(Frozen):
    """All that one trial needs to know, resolved: nothing is looked up later."""

    sweep_id: str
    trial_id: str
    """Unique in the sweep and fit for a file and a topic name: `007-a1b2c3`."""
    experiment: str
    cell: Cell
    label: str
    """The cell for a person, short: `acks=1 idem=off RF=3 P=6 leader-crash`."""
    role: Role = Role.CELL
    added: bool = False
    """Not of the experiment's axes: planned as a control only."""
    repeat: int
    order: int
    """Place in the shuffled order, from 0."""
    seed: int
    cluster: ClusterNeed
    needs_own_cluster: bool = False
    """What its fault does can outlive it: it gets a cluster of its own, and nobody gets that after it."""
    replication_factor: int
    partitions: int
    client: ClientKind = "librdkafka"
    """Whose producer and consumer are under test."""
    producer: dict[str, str]
    """The client's properties that bear on correctness, `acks` and `enable.idempotence` among them: what holds, passed or its own default."""
    consumer: dict[str, str]
    passed: PassedSettings | None = None
    """With `client.defaults`: what the clients are given of it. `None`: all of it."""
    topic: dict[str, str]
    """Topic properties; `min.insync.replicas` is a number by now."""
    workload: Workload
    fault: FaultRequest

    def keying(self) -> KeyOptions | None:
        """Return what the trial's record says of its keys; `None`: nothing is asked of them."""
        load = self.workload
        if not load.placement and load.pairs == "none":
            return None
        return KeyOptions(
            text=self.client == "java", **load.model_dump(include=set(KeyOptions.model_fields))
        )


class RefusedCell(Frozen):
    """A cell that no client accepts."""

    trial_id: str
    cell: Cell
    label: str
    reason: str
    """The client's own words."""


class Plan(Frozen):
    """A sweep before it runs."""

    ledger_version: int = LEDGER_VERSION
    sweep_id: str
    experiment: str
    question: str
    claim: Claim | None = None
    """What the lessons say, where the experiment tests it."""
    seed: int
    repeats: int
    trials: tuple[TrialSpec, ...]
    """In the order they run."""
    refused: tuple[RefusedCell, ...]

    def trial(self, trial_id: str) -> TrialSpec:
        """Return the trial of that id.

        Raises:
            KeyError: the plan holds none.
        """
        for trial in self.trials:
            if trial.trial_id == trial_id:
                return trial
        raise KeyError(trial_id)
