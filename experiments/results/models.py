"""What a sweep found, as `ackbench show --json` prints it. `docs/metrics.md` has every value's formula.

A value that a trial does not have (refused, failed, not yet measured, nobody read) is null, never 0.
"""

from __future__ import annotations

from pydantic import Field

from experiments.ledger.record import Cell, Frozen, Role, Scalar, Status
from experiments.verdicts.contract import ContractClause
from experiments.verdicts.judge import HarnessCheck, Judgement
from experiments.verdicts.statistics import Estimate, Share


class Quantiles(Frozen):
    """A latency in milliseconds, exact to the microsecond; nearest rank."""

    records: int
    negative_records: int
    """Below zero, which only clocks can do; kept in, so that they are seen."""
    p50: float
    p90: float
    p99: float
    p99_9: float
    max: float


class Latencies(Frozen):
    """Both latencies, from the intended time."""

    ack: Quantiles | None = None
    end_to_end: Quantiles | None = None


class PhaseLatencies(Frozen):
    """Latencies by when the record was intended; all empty in a trial without fault."""

    before: Latencies = Latencies()
    during: Latencies = Latencies()
    after: Latencies = Latencies()


class Fates(Frozen):
    """How many records have each fate; the first nine add up to the attempts."""

    delivered_once: int
    duplicated: int
    lost: int
    rejected: int
    rejected_present: int
    unknown_present: int
    unknown_absent: int
    aborted: int
    """Of a transaction that was not committed, and not shown."""
    aborted_visible: int
    """The same, and shown all the same."""
    phantom: int
    """Copies in the log, not records of ours."""
    corrupt: int
    """Copies in the log whose checksum does not hold."""


class TransactionCounts(Frozen):
    """How the producers' transactions ended, and what of them `read_committed` consumers were shown."""

    committed: int
    aborted: int
    """Not committed for certain: aborted, fenced, or abandoned by their producer."""
    unknown: int
    torn: int
    """Shown in part."""
    aborted_visible: int
    """Records of those that were not committed, and are shown."""

    @property
    def broken(self) -> int:
        """What all or nothing excludes: transactions shown in part, and records that must not be shown."""
        return self.torn + self.aborted_visible


class CopyCounts(Frozen):
    """What copiers made of the log, by record; a record is copied where the output shows it."""

    copied: int
    missed: int
    """Committed past, not copied, and no copier was told that its copy is stored: the application missed it."""
    output_lost: int
    """A copier was told that its copy is stored, or committed, and it is not there: Kafka lost it."""
    repeated: int
    """Copies beyond as many as the log has of the record."""
    hidden: int
    """Copies that are not shown: of transactions that were not committed."""

    def __add__(self, other: CopyCounts) -> CopyCounts:
        """Return both together."""
        return CopyCounts(
            **{name: getattr(self, name) + getattr(other, name) for name in CopyCounts.model_fields}
        )


class Gap(Frozen):
    """A partition's longest time without an acknowledgement though load was due."""

    partition: int
    acked: int
    gap_ms: float
    began_s: float
    """After the load's begin."""


class FaultResult(Frozen):
    """What the fault did; of a trial that did not come so far, what was asked for."""

    kind: str | None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    targets: tuple[int, ...] = ()
    took_effect: bool | None = None
    evidence: tuple[str, ...] = ()


class TrialResult(Frozen):
    """One trial, whatever became of it."""

    trial_id: str
    cell: Cell
    label: str
    role: Role = Role.CELL
    added: bool = False
    """Of no cell of the experiment's axes: planned as a control only."""
    repeat: int | None
    status: Status
    reason: str | None = None
    fault: FaultResult
    attempted: int | None = None
    acked: int | None = None
    rejected: int | None = None
    unknown: int | None = None
    lost: tuple[int, int] | None = None
    """Acked and absent; and that with the unknown and absent ones, any of which may have been acknowledged."""
    duplicates: int | None = None
    """Copies in the log beyond a record's first."""
    duplicated: int | None = None
    """Records with more than one copy."""
    reordered: int | None = None
    """Records whose first copy lies behind one that the same producer sent later to the same partition."""
    missed: int | None = None
    """Records of the log that the consumer read past; null where it did not come to the end."""
    redelivered: int | None = None
    """Reads of an offset that was read before."""
    group_missed: int | None = None
    """Records that the consumer group committed past and no member processed; null: there was no group."""
    group_repeated: int | None = None
    """How often members of the group processed a record again; null: there was no group."""
    copies: CopyCounts | None = None
    """Null: nothing was copied."""
    generator_late: bool | None = None
    """The producer fell behind its own schedule by more than `LATE_MS` at its 99th percentile."""
    lateness_p99_ms: float | None = None
    latency_ms: Latencies = Latencies()
    latency_by_phase_ms: PhaseLatencies = PhaseLatencies()
    unavailable_ms: float | None = None
    consumer_unavailable_ms: float | None = None
    """The reader's longest wait in any partition; null where nobody read."""
    transactions: TransactionCounts | None = None
    """Null: it had none."""
    recovered_before_heal: bool | None = None
    """Every partition that had stopped took records again before the fault was healed; null without a fault, and with acks=0."""
    throughput_records_per_s: float | None = None
    """Acknowledged inside the load window, a second."""
    offered_records_per_s: float | None = None
    fates: Fates | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether it is sealed and was measured; the others are judged in nothing."""
        return self.status is Status.SEALED and self.attempted is not None


class MedianAndMax(Frozen):
    """A value over a cell's sealed trials."""

    median: float
    max: float


class QuantileSpreads(Frozen):
    """Each quantile over a cell's sealed trials, milliseconds."""

    p50: MedianAndMax | None = None
    p90: MedianAndMax | None = None
    p99: MedianAndMax | None = None
    p99_9: MedianAndMax | None = None
    max: MedianAndMax | None = None


class LatencySpreads(Frozen):
    """Both latencies over a cell's sealed trials."""

    ack: QuantileSpreads = QuantileSpreads()
    end_to_end: QuantileSpreads = QuantileSpreads()


class CellResult(Frozen):
    """A cell over its repeats. Sums and spreads are over sealed trials; null where there is none."""

    cell: Cell
    label: str
    role: Role = Role.CELL
    added: bool = False
    """No cell of the experiment's axes: planned as a control only."""
    refused: str | None = None
    """The client's own reason, where no client accepts the cell."""
    planned_trials: int
    sealed_trials: int = 0
    void_trials: int = 0
    failed_trials: int = 0
    trials_with_loss: int | None = None
    trials_with_duplicates: int | None = None
    attempted: int | None = None
    acked: int | None = None
    rejected: int | None = None
    unknown: int | None = None
    lost: tuple[int, int] | None = None
    duplicates: int | None = None
    duplicated: int | None = None
    latency_ms: LatencySpreads = LatencySpreads()
    unavailable_ms: MedianAndMax | None = None
    consumer_unavailable_ms: MedianAndMax | None = None
    transactions: TransactionCounts | None = None
    """Sums; null: without transactions."""
    throughput_records_per_s: MedianAndMax | None = None
    reordered: int | None = None
    missed: int | None = None
    redelivered: int | None = None
    group_missed: int | None = None
    group_repeated: int | None = None
    copies: CopyCounts | None = None
    """Sums; null: nothing was copied."""
    late_trials: int | None = None
    """Sealed trials whose generator fell behind its schedule."""
    loss: Share | None = None
    """Of the sealed trials, in how many an acknowledged record was lost for certain."""
    duplication: Share | None = None
    reordering: Share | None = None
    outage_ms: Estimate | None = None
    """Of the longest gap, over sealed trials."""
    ack_p99_ms: Estimate | None = None
    clauses: tuple[ContractClause, ...] = ()
    """What Kafka promises for the cell, one for each promise; also where nothing was measured."""
    judgements: tuple[Judgement, ...] = ()
    """A verdict on each promise; empty where the cell was refused."""


class SweepResults(Frozen):
    """All that is known of a sweep."""

    sweep_id: str
    experiment: str
    question: str
    seed: int
    trials: tuple[TrialResult, ...]
    """Refused, failed, void and sealed ones, by id."""
    cells: tuple[CellResult, ...]
    """By fault, then by their axes; the refused ones last."""
    pending: tuple[str, ...]
    """Planned trials that have not run."""
    unmeasured: tuple[str, ...]
    """Whole trials that `results/` does not hold: `ackbench measure` makes it anew."""
    harness: HarnessCheck = HarnessCheck()

    def to_json(self) -> str:
        """Return the object as `ackbench show --json` prints it; equal results give equal text."""
        return self.model_dump_json(indent=2)
