"""The results of a sweep, as `ackbench show --json` prints them.

`ledger.quantities` declares what is measured, `docs/metrics.md` has the formula of every value, and
`docs/show-json.md` all keys. Values that
were not measured are null, never 0: those of a refused, failed or unmeasured trial, and those of a
consumer if the trial had none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from ackbench.experiments.ledger.quantities import CellQuantities, TrialQuantities
from ackbench.experiments.ledger.results_manifest import ResultsManifest
from ackbench.experiments.ledger.trial_manifest import (
    Cell,
    Frozen,
    Role,
    Scalar,
    Status,
    TrialManifest,
)
from ackbench.experiments.sweep.cell_names import fault_name
from ackbench.experiments.sweep.expectations import Expectation
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.judge import HarnessCheck, Judgement
from ackbench.experiments.verdicts.statistics import Estimate, Share


class Quantiles(Frozen):
    """Quantiles of a latency in milliseconds; nearest rank, exact to the microsecond."""

    records: int
    negative_records: int
    """Records with a negative latency, caused by clocks. They are not removed."""
    p50: float
    p90: float
    p99: float
    p99_9: float
    max: float


class Latencies(Frozen):
    """Latencies from the intended send time: to the acknowledgement, and to the consumer."""

    ack: Quantiles | None = None
    end_to_end: Quantiles | None = None


class PhaseLatencies(Frozen):
    """Latencies by the phase of the intended send time; all null in a trial without a fault."""

    before: Latencies = Latencies()
    during: Latencies = Latencies()
    after: Latencies = Latencies()


class Fates(Frozen):
    """The number of records with each fate; the first nine add up to the attempts."""

    delivered_once: int
    duplicated: int
    lost: int
    rejected: int
    rejected_present: int
    unknown_present: int
    unknown_absent: int
    aborted: int
    """Of a transaction that did not commit, and not visible."""
    aborted_visible: int
    """Of a transaction that did not commit, but visible."""
    phantom: int
    """Log rows that this trial did not send."""
    corrupt: int
    """Log rows with a wrong checksum."""


class Gap(Frozen):
    """A time of a partition without an acknowledgement while records were due."""

    partition: int
    """-1: of records that were given up before their client had chosen one."""
    acked: int
    """Records of the partition, in all."""
    gap_ms: float
    """Without the time in which no producer ran."""
    began_s: float
    """Since the start of the load."""
    stalled_ms: float = 0.0
    """The time in which no producer ran, because the harness kept them from running."""
    longest: bool = True
    """Whether it is its partition's longest."""


class FaultResult(Frozen):
    """What the fault did; what was requested, if the trial did not get that far."""

    kind: str | None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    targets: tuple[int, ...] = ()
    took_effect: bool | None = None
    carried_out_in_part: bool = False
    """It did not take effect as requested, but something was done: a node had crashed."""
    evidence: tuple[str, ...] = ()


class TrialStatus(Frozen):
    """Which trial it is, and how it ended."""

    trial_id: str
    cell: Cell
    label: str
    role: Role = Role.CELL
    added: bool = False
    """Planned only as a control, not as a cell of the experiment's axes."""
    repeat: int | None
    status: Status
    reason: str | None = None
    disturbances: tuple[str, ...] = ()
    """What else disturbed the trial, such as a broker that was killed by another program."""
    hung_clients: tuple[str, ...] = ()
    """The clients of which a call had not returned after its time-out."""
    fault: FaultResult


class TrialResult(TrialQuantities, TrialStatus):
    """One trial, whatever its status."""

    stalls: tuple[str, ...] = ()
    """What kept which process of the trial from running under load, and when; the longest first."""
    latency_ms: Latencies = Latencies()
    latency_by_phase_ms: PhaseLatencies = PhaseLatencies()
    fates: Fates | None = None
    gaps: tuple[Gap, ...] = ()
    host: str | None = None
    """The name of the host that ran the trial; null: not recorded, or the trial did not end."""
    client: str | None = None
    """The client's version: `2.16.0` of librdkafka, `java 4.3.1`; null: the trial did not end."""

    @property
    def judged(self) -> bool:
        """Whether the trial is sealed and measured; no share includes any other."""
        return self.status is Status.SEALED and self.is_measured


class MedianAndMax(Frozen):
    """Median and maximum of a value over a cell's sealed trials."""

    median: float
    max: float


class QuantileSpreads(Frozen):
    """Each latency quantile over a cell's sealed trials, in milliseconds."""

    p50: MedianAndMax | None = None
    p90: MedianAndMax | None = None
    p99: MedianAndMax | None = None
    p99_9: MedianAndMax | None = None
    max: MedianAndMax | None = None


class LatencySpreads(Frozen):
    """Both latencies over a cell's sealed trials."""

    ack: QuantileSpreads = QuantileSpreads()
    end_to_end: QuantileSpreads = QuantileSpreads()


class CellStatus(Frozen):
    """Which cell it is, and what became of its trials."""

    cell: Cell
    label: str
    role: Role = Role.CELL
    added: bool = False
    """Planned only as a control, not as a cell of the experiment's axes."""
    refused: str | None = None
    """The client's message, if no client accepts the cell."""
    planned_trials: int
    sealed_trials: int = 0
    void_trials: int = 0
    incomplete_trials: int = 0
    failed_trials: int = 0
    trials_with_loss: int | None = None
    trials_with_duplicates: int | None = None

    @property
    def fault_name(self) -> str:
        """The fault as in a sentence: `leader-crash`, or `no fault`."""
        return fault_name(self.cell)


class CellResult(CellQuantities[MedianAndMax], CellStatus):
    """A cell over its repeats. Values are over sealed trials, and null if there are none."""

    latency_ms: LatencySpreads = LatencySpreads()
    overloaded_trials: int | None = None
    """Sealed trials that were not measured under their own conditions."""
    late_trials: int | None = None
    """Sealed trials whose load generator was late."""
    stalled_trials: int | None = None
    """Sealed trials in which the harness kept a process from running under load."""
    loss: Share | None = None
    """Share of the sealed trials in which an acknowledged record was certainly lost."""
    duplication: Share | None = None
    reordering: Share | None = None
    outage_ms: Estimate | None = None
    """Of the longest gap per trial."""
    ack_p99_ms: Estimate | None = None
    clauses: tuple[ContractClause, ...] = ()
    """What Kafka guarantees to the cell, one clause per guarantee; also if nothing was measured."""
    judgements: tuple[Judgement, ...] = ()
    """A verdict per guarantee; empty if the cell was refused."""

    def judgement_on(self, guarantee: Guarantee) -> Judgement | None:
        """Return the verdict on a guarantee; `None`: the cell has none."""
        return next((one for one in self.judgements if one.guarantee is guarantee), None)


Interval = tuple[float, float]
"""The least and the greatest that a value can be; mostly equal."""


class ExpectationOutcome(StrEnum):
    """What the trials of a cell show of an expectation."""

    MET = "met"
    """Each trial met it, and there is one."""
    NOT_MET = "not met"
    """A trial did not."""
    UNKNOWN = "unknown"
    """No trial counts, or one cannot tell."""


class ExpectationResult(Frozen):
    """What the trials of a cell show of one expectation."""

    expectation: Expectation
    cell: Cell
    label: str
    outcome: ExpectationOutcome
    not_met_in: tuple[str, ...] = ()
    """The trials that did not meet it; also those that are set aside."""
    judged_trials: int = 0
    """The sealed trials that can tell."""
    unknown_trials: int = 0
    """The sealed trials that cannot."""
    worst: Interval | None = None
    """Of the trials that did not meet it, the value furthest from the bound."""


class HostDifference(Frozen):
    """A measure in which two hosts of a sweep differ within its cells."""

    measure: str
    """The name of the value in a trial of this JSON."""
    higher: str
    lower: str
    ratio: float | None
    """Of the medians of both hosts in a cell; the median over cells. Null: none can be computed."""
    cells: int
    """How many cells ran on more than one host and have the value."""
    p_value: float


class HostComparison(Frozen):
    """The hosts of a sweep that more than one has run, compared within its cells."""

    trials: dict[str, int]
    """How many sealed and measured trials each host has run."""
    cells: int
    """With such trials."""
    shared_cells: int
    """Of them, those that ran on more than one host."""
    compared: tuple[str, ...]
    """The measures in which a difference could have been significant."""
    differences: tuple[HostDifference, ...]


class ClientVersions(Frozen):
    """The versions of librdkafka in a sweep whose trials ran with more than one."""

    trials: dict[str, int]
    """How many sealed and measured trials ran with each version."""
    cells: int
    """With such trials."""
    mixed_cells: int
    """Of them, those whose trials ran with more than one version."""


class ChangedSetting(Frozen):
    """A setting that differs from the default of the client or of Kafka, and is no axis."""

    scope: str
    """`producer`, `consumer`, `topic`, `brokers` or `features`.

    Where a sweep compares clients, the scope begins with the client: `java producer`.
    """
    name: str
    values: tuple[str, ...]
    """One value, or several if it depends on the cell."""
    default: str | None
    """Null: Kafka does not document one."""


class SweepResults(Frozen):
    """What `ackbench show --json` prints of a sweep, and every page and table is made from."""

    sweep_id: str
    experiment: str
    question: str
    seed: int
    trials: tuple[TrialResult, ...]
    """Refused, failed, void, incomplete and sealed trials, by id."""
    cells: tuple[CellResult, ...]
    """By fault, then by their axes; refused cells last."""
    pending: tuple[str, ...]
    """Planned trials that have not run."""
    unmeasured: tuple[str, ...]
    """Complete trials that are not in `results/`; `ackbench measure` computes it again."""
    expectations: tuple[ExpectationResult, ...] = ()
    """What the trials show of what the experiment expects; empty: it expects nothing."""
    harness: HarnessCheck = HarnessCheck()
    changed_settings: tuple[ChangedSetting, ...] = ()
    """What was not left at its default."""
    hosts: HostComparison | None = None
    """Null: one host ran the trials, or their hosts are not recorded."""
    client_versions: ClientVersions | None = None
    """Null: all trials ran with one version of librdkafka, or with Java's client."""
    relayed: tuple[str, ...] = ()
    """The faults with which clients connect to the cluster through relays of ackbench."""
    without_digests: tuple[str, ...] = ()
    """Complete trials that ledger version 4 sealed, without digests: a changed bit in their files
    may go unnoticed."""
    plan: Plan = Field(exclude=True, repr=False)
    """The sweep's plan."""
    foreign: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Complete trials that are not the plan's, with the reasons."""
    manifest: ResultsManifest | None = Field(default=None, exclude=True, repr=False)
    """Of the measurement that these results are from; further tables must be of it too."""
    manifests: Mapping[str, TrialManifest] = Field(default_factory=dict, exclude=True, repr=False)
    """The records of the complete trials, by id, in the order in which they ran."""

    @property
    def not_expected(self) -> tuple[ExpectationResult, ...]:
        """What is not certainly as the experiment expects."""
        return tuple(one for one in self.expectations if one.outcome is not ExpectationOutcome.MET)

    @property
    def left_out(self) -> Mapping[str, str]:
        """The trials whose ledgers are damaged or not the plan's, with the reasons."""
        return {**(self.manifest.left_out if self.manifest else {}), **self.foreign}

    def to_json(self) -> str:
        """Return the JSON of `ackbench show --json`; equal results give equal text."""
        return self.model_dump_json(indent=2)
