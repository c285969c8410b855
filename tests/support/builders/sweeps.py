"""A measured and judged sweep in memory, generated from a seed, for reports and comparisons."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from support.builders.records import a_record, a_spec
from support.builders.sweep_rows import (
    FAULT_BEGIN_S,
    FAULT_END_S,
    LOAD_S,
    attribution_rows,
    has_fault,
    histogram_rows,
    outage_rows,
    timeline_rows,
)

from ackbench.experiments.ledger.trial_manifest import (
    Cell,
    ClusterAssignment,
    FaultEvidence,
    Keys,
    Phases,
    Role,
    Status,
    TrialManifest,
)
from ackbench.experiments.pages.report.data import LeaderChange, ReportData
from ackbench.experiments.results.models import (
    CellResult,
    Fates,
    FaultResult,
    Latencies,
    MedianAndMax,
    Quantiles,
    SweepResults,
    TrialResult,
)
from ackbench.experiments.sweep.plan import FaultRequest, Plan, RefusedCell, TrialSpec, Workload
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.evidence import UnknownCause
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.read_availability import READ_AVAILABILITY
from ackbench.experiments.verdicts.guarantees.read_loss import NO_READ_LOSS
from ackbench.experiments.verdicts.judge import HarnessCheck, Judgement, NamedRecord, Verdict
from ackbench.experiments.verdicts.statistics import estimate, share

SWEEP_ID = "planted-20260101T000000-abcd"
QUESTION = "Which settings lose acknowledged records, and which deliver records twice?"
REFUSED: Cell = {
    "acks": 0,
    "enable.idempotence": True,
    "replication.factor": 3,
    "partitions": 1,
    "fault": "leader-crash-behind",
}
_NS = 1_000_000_000
UNCONDITIONAL = [guarantee for guarantee in GUARANTEES if guarantee.applies is None]
WHATEVER_ACKS_IS = (AVAILABILITY, NO_READ_LOSS, READ_AVAILABILITY)


@dataclass(frozen=True)
class Truth:
    """The planted losses and duplicates of one cell."""

    cell: Cell
    lost: tuple[int, ...]
    """Lost records, one value per repeat."""
    copies: tuple[int, ...]
    """Duplicates, one value per repeat."""
    p99_ms: float = 3000.0
    outage_ms: float = 4000.0
    role: Role = Role.CELL


def a_cell(
    acks: int | str,
    *,
    idempotence: bool = False,
    partitions: int = 1,
    fault: str = "leader-crash-behind",
) -> Cell:
    """Return a cell as the quick experiment has them."""
    return {
        "acks": acks,
        "enable.idempotence": idempotence,
        "replication.factor": 3,
        "partitions": partitions,
        "fault": fault,
    }


SAFE = Truth(a_cell("all", idempotence=True), (0,) * 5, (0,) * 5)
DUPLICATING = Truth(a_cell("all"), (0,) * 5, (56, 0, 9162, 12, 7))
LOSING = Truth(a_cell(1), (4448, 2451, 0, 17, 903), (0, 0, 3, 0, 0), role=Role.POSITIVE_CONTROL)
WITHOUT_FAULT = Truth(
    a_cell("all", idempotence=True, fault="none"),
    (0,) * 5,
    (0,) * 5,
    p99_ms=9.0,
    outage_ms=12.0,
    role=Role.CONTROL,
)
TRUTHS = (SAFE, DUPLICATING, LOSING, WITHOUT_FAULT)


def measured_sweep(
    truths: Sequence[Truth] = TRUTHS,
    *,
    void: Sequence[str] = (),
    late: Sequence[str] = (),
    sweep_id: str = SWEEP_ID,
    seed: int = 42,
) -> ReportData:
    """Return a sweep with these outcomes.

    Args:
        truths: one per cell, in the order of the results.
        void: trials whose fault had no effect.
        late: trials whose load generator was late.
        sweep_id: id of the sweep.
        seed: seed of the experiment; decides the trials' seeds and the scatter of their figures.
    """
    rng = random.Random(seed)  # noqa: S311 - not used for secrets
    specs = [
        _spec(sweep_id, truth, index, repeat, seed)
        for index, truth in enumerate(truths)
        for repeat in range(len(truth.lost))
    ]
    by_id = {
        spec.trial_id: truth
        for spec, truth in zip(specs, [truth for truth in truths for _ in truth.lost], strict=True)
    }
    status = {
        spec.trial_id: Status.VOID if spec.trial_id in void else Status.SEALED for spec in specs
    }
    records = {spec.trial_id: _record(spec, status[spec.trial_id]) for spec in specs}
    trials = [
        _trial(spec, by_id[spec.trial_id], status[spec.trial_id], rng, late=spec.trial_id in late)
        for spec in specs
    ]
    refused = RefusedCell(
        trial_id="900-refuse",
        cell=REFUSED,
        label="acks=0 idem=on",
        reason="`acks` must be set to `all`",
    )
    plan = Plan(
        sweep_id=sweep_id,
        experiment="planted",
        question=QUESTION,
        seed=seed,
        repeats=5,
        trials=tuple(specs),
        refused=(refused,),
    )
    results = SweepResults(
        plan=plan,
        sweep_id=sweep_id,
        experiment="planted",
        question=QUESTION,
        seed=seed,
        trials=(
            *trials,
            TrialResult(
                trial_id="900-refuse",
                cell=REFUSED,
                label=refused.label,
                repeat=None,
                status=Status.REFUSED,
                reason=refused.reason,
                fault=FaultResult(kind="leader-crash-behind"),
            ),
        ),
        cells=(
            *(
                _cell(truth, [trial for trial in trials if by_id[trial.trial_id] is truth])
                for truth in truths
            ),
            CellResult(cell=REFUSED, label=refused.label, refused=refused.reason, planned_trials=0),
        ),
        pending=(),
        unmeasured=(),
        harness=HarnessCheck(
            control_clean=True,
            positive_control_lost=True,
            sentences=("Without a fault, no record was lost or duplicated in 5 of 5 trials.",),
        ),
    )
    return ReportData(
        plan=plan,
        results=results,
        manifests=records,
        timeline={trial_id: timeline_rows(record, rng) for trial_id, record in records.items()},
        histogram={trial.trial_id: histogram_rows(trial, rng) for trial in trials},
        outages={trial.trial_id: outage_rows(trial) for trial in trials if has_fault(trial.cell)},
        attribution={
            trial.trial_id: attribution_rows(trial)
            for trial in trials
            if trial.lost and trial.lost[1]
        },
        leaders={
            trial.trial_id: (
                LeaderChange(FAULT_BEGIN_S + 1.6, 0, 2),
                LeaderChange(FAULT_END_S + 1, 0, 1),
            )
            for trial in trials
            if has_fault(trial.cell)
        },
        machine={"cores": 2, "system": "Linux"},
    )


def _spec(sweep_id: str, truth: Truth, index: int, repeat: int, seed: int) -> TrialSpec:
    return a_spec(
        sweep_id=sweep_id,
        trial_id=f"{index:03d}-{repeat:06d}",
        cell=truth.cell,
        label=" ".join(f"{axis}={value}" for axis, value in truth.cell.items()),
        role=truth.role,
        repeat=repeat,
        order=index * 100 + repeat,
        seed=seed * 1000 + repeat,
        partitions=truth.cell["partitions"],
        producer={
            "acks": str(truth.cell["acks"]),
            "enable.idempotence": str(truth.cell["enable.idempotence"]).lower(),
            "linger.ms": "5",
        },
        topic={"min.insync.replicas": "2"},
        workload=Workload(
            rate_records_per_s=10_000,
            record_size_bytes=100,
            duration_s=LOAD_S,
            keys=Keys(count=64),
            producers=1,
        ),
        fault=FaultRequest(kind=str(truth.cell["fault"])),
    )


def _record(spec: TrialSpec, status: Status) -> TrialManifest:
    begin = 1_700_000_000 * _NS
    fault = has_fault(spec.cell)
    return a_record(
        sweep_id=spec.sweep_id,
        trial_id=spec.trial_id,
        cell=spec.cell,
        label=spec.label,
        role=spec.role,
        repeat=spec.repeat,
        order=spec.order,
        seed=spec.seed,
        cluster_assignment=ClusterAssignment(
            cluster=f"{spec.sweep_id}.001",
            made=spec.order == 0,
            why="it is the first" if spec.order == 0 else "it was healthy again",
        ),
        status=status,
        producer_settings=spec.producer,
        topic_settings=spec.topic,
        broker_settings={"broker.session.timeout.ms": "3500"},
        fault=FaultEvidence(
            kind=spec.fault.kind,
            targets=(1,) if fault else (),
            took_effect=status is Status.SEALED,
            evidence=("node 1 exited after 3 ms",) if fault else (),
        ),
        phases=Phases(
            load_begin_ns=begin,
            load_end_ns=begin + int(LOAD_S * _NS),
            fault_begin_ns=begin + int(FAULT_BEGIN_S * _NS) if fault else None,
            fault_effective_ns=begin + int((FAULT_BEGIN_S + 0.5) * _NS) if fault else None,
            fault_end_ns=begin + int(FAULT_END_S * _NS) if fault else None,
            settled_ns=begin + int((LOAD_S + 1) * _NS),
            healthy_ns=begin + int((LOAD_S + 2) * _NS),
        ),
    )


def _trial(
    spec: TrialSpec, truth: Truth, status: Status, rng: random.Random, *, late: bool
) -> TrialResult:
    lost, copies, p99 = (
        truth.lost[spec.repeat],
        truth.copies[spec.repeat],
        truth.p99_ms * rng.uniform(0.9, 1.1),
    )
    ack = Quantiles(
        records=99_000,
        negative_records=0,
        p50=3.0,
        p90=p99 / 4,
        p99=p99,
        p99_9=p99 * 1.1,
        max=p99 * 1.2,
    )
    fates = Fates(
        delivered_once=100_000 - lost - 120,
        duplicated=min(copies, 100),
        lost=lost,
        rejected=0,
        rejected_present=20,
        unknown_present=0,
        unknown_absent=0,
        aborted=0,
        aborted_visible=0,
        phantom=0,
        corrupt=0,
    )
    return TrialResult(
        trial_id=spec.trial_id,
        cell=spec.cell,
        label=spec.label,
        role=spec.role,
        repeat=spec.repeat,
        status=status,
        reason="the leader never moved" if status is Status.VOID else None,
        fault=FaultResult(
            kind=spec.fault.kind,
            targets=(1,),
            took_effect=status is Status.SEALED,
            evidence=("node 1 exited after 3 ms",),
        ),
        attempted=100_000,
        acked=99_980,
        rejected=20,
        unknown=0,
        lost=(lost, lost),
        duplicates=copies,
        duplicated=min(copies, 100),
        reordered=0,
        generator_late=late,
        lateness_p99_ms=180.0 if late else 1.5,
        producer_stalled_ms=1200.0 if late else 0.0,
        consumer_stalled_ms=0.0,
        stalls=("producer 0 was stopped for 1.20 s, 4.3 s after the load began",) if late else (),
        latency_ms=Latencies(ack=ack),
        unavailable_ms=truth.outage_ms * rng.uniform(0.9, 1.1),
        throughput_records_per_s=9_900.0 * rng.uniform(0.99, 1.01),
        fates=fates,
    )


def _cell(truth: Truth, trials: Sequence[TrialResult]) -> CellResult:
    judged = [trial for trial in trials if trial.status is Status.SEALED]
    lost = [trial.lost or (0, 0) for trial in judged]
    copies = [trial.duplicates or 0 for trial in judged]
    outages = [trial.unavailable_ms or 0.0 for trial in judged]
    p99s = [trial.latency_ms.ack.p99 for trial in judged if trial.latency_ms.ack]
    return CellResult(
        cell=truth.cell,
        label=trials[0].label,
        role=truth.role,
        planned_trials=len(trials),
        sealed_trials=len(judged),
        void_trials=len(trials) - len(judged),
        attempted=100_000 * len(judged),
        acked=99_980 * len(judged),
        rejected=20 * len(judged),
        unknown=0,
        lost=(sum(low for low, _ in lost), sum(high for _, high in lost)) if judged else None,
        duplicates=sum(copies) if judged else None,
        reordered=0 if judged else None,
        unavailable_ms=MedianAndMax(median=sorted(outages)[len(outages) // 2], max=max(outages))
        if judged
        else None,
        loss=share(sum(low > 0 for low, _ in lost), len(judged)),
        duplication=share(sum(count > 0 for count in copies), len(judged)),
        reordering=share(0, len(judged)),
        outage_ms=estimate(outages),
        ack_p99_ms=estimate(p99s),
        late_trials=sum(bool(trial.generator_late) for trial in judged),
        stalled_trials=sum(bool(trial.stalls) for trial in judged),
        clauses=tuple(_clause(truth, guarantee) for guarantee in UNCONDITIONAL),
        judgements=tuple(_judgement(truth, judged, guarantee) for guarantee in UNCONDITIONAL),
    )


def _is_guaranteed(truth: Truth, guarantee: Guarantee) -> bool:
    return guarantee in WHATEVER_ACKS_IS or (
        truth.cell["acks"] == "all"
        and (guarantee is not NO_DUPLICATES or truth.cell["enable.idempotence"] is True)
    )


def _clause(truth: Truth, guarantee: Guarantee) -> ContractClause:
    return ContractClause(
        guarantee=guarantee,
        guaranteed=_is_guaranteed(truth, guarantee),
        reason="as the documentation says",
        source="https://kafka.apache.org/documentation/#replication",
    )


def _judgement(truth: Truth, judged: Sequence[TrialResult], guarantee: Guarantee) -> Judgement:
    seen_in = [trial.trial_id for trial in judged if _observed(trial, guarantee)]
    if not judged:
        return Judgement(
            guarantee=guarantee,
            verdict=Verdict.UNKNOWN,
            unknown_cause=UnknownCause.NO_SEALED_TRIAL,
            violation_seen=None,
            share=None,
            mechanism="no trial was sealed",
        )
    if not _is_guaranteed(truth, guarantee):
        verdict = Verdict.NOT_GUARANTEED
    else:
        verdict = Verdict.VIOLATED if seen_in else Verdict.HELD
    return Judgement(
        guarantee=guarantee,
        verdict=verdict,
        power_shown=True if verdict is Verdict.HELD else None,
        violation_seen=bool(seen_in),
        share=share(len(seen_in), len(judged)),
        mechanism="as the documentation says",
        trials=tuple(seen_in),
        records=tuple(
            NamedRecord(trial_id=trial_id, producer=0, seq=7) for trial_id in seen_in[:5]
        ),
        records_total=sum(
            _violations(trial, guarantee) for trial in judged if trial.trial_id in seen_in
        ),
    )


def _violations(trial: TrialResult, guarantee: Guarantee) -> int:
    if guarantee is NO_ACKED_LOSS:
        return (trial.lost or (0, 0))[0]
    return trial.duplicates or 0


def _observed(trial: TrialResult, guarantee: Guarantee) -> bool:
    return bool(guarantee is NO_ACKED_LOSS and trial.lost and trial.lost[0]) or bool(
        guarantee is NO_DUPLICATES and trial.duplicates
    )
