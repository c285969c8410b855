"""Verdicts on the cells of a sweep, and the check of the harness by the sweep's own controls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.quantities import TrialQuantities
from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.experiments.verdicts.guarantees.late_requests import must_tear_transactions
from ackbench.experiments.verdicts.judge import (
    MAX_NAMED_RECORDS,
    HarnessCheck,
    NamedRecord,
    TrialFacts,
    count_detections,
    judge,
)
from ackbench.experiments.verdicts.statistics import describe_share, share

RecordsByTrial = Mapping[str, Mapping[Guarantee, tuple[NamedRecord, ...]]]
"""By trial and guarantee: the first records that violated it."""


def with_judgements(
    cells: Sequence[CellResult],
    trials: Sequence[TrialResult],
    plan: Plan,
    records_by_trial: RecordsByTrial,
    harness: HarnessCheck,
) -> tuple[CellResult, ...]:
    """Return the cells with their contract clauses and verdicts; refused cells unchanged."""
    planned = {cell_key(spec.cell): spec for spec in plan.trials}
    facts_by_cell: defaultdict[str, list[TrialFacts]] = defaultdict(list)
    for trial in trials:
        facts = trial_facts(trial, records_by_trial.get(trial.trial_id, {}))
        facts_by_cell[cell_key(trial.cell)].append(facts)
    return tuple(
        _judged(cell, planned.get(cell_key(cell.cell)), facts_by_cell[cell_key(cell.cell)], harness)
        for cell in cells
    )


def _judged(
    cell: CellResult, spec: TrialSpec | None, facts: Sequence[TrialFacts], harness: HarnessCheck
) -> CellResult:
    if spec is None:
        return cell
    clauses = clauses_of(circumstances_of(spec))
    return cell.model_copy(
        update={"clauses": clauses, "judgements": judge(clauses, facts, harness)}
    )


def trial_facts(
    trial: TrialResult, records: Mapping[Guarantee, tuple[NamedRecord, ...]]
) -> TrialFacts:
    """Return what a verdict takes into account of a trial."""
    return TrialFacts(
        **{name: getattr(trial, name) for name in TrialQuantities.model_fields},
        trial_id=trial.trial_id,
        status=trial.status,
        reason=trial.reason,
        disturbed=bool(trial.disturbances),
        stalls=trial.stalls,
        records=records,
    )


NAMED_COLUMNS: Final = ("trial_id", "kind", "producer", "seq")
"""The columns of `experiments.ledger.result_tables.ANOMALIES` that name records."""


def named_records(anomalies: pa.Table) -> RecordsByTrial:
    """Return the first records that violated each guarantee, by trial, sorted by producer and seq.

    A record is listed once, however many copies it has.

    Args:
        anomalies: `NAMED_COLUMNS` of the table.
    """
    # Arrow's functions of scalars import pandas, for 0.4 s of CPU; the table's rows are bounded.
    found: defaultdict[tuple[str, str], set[tuple[int | None, int | None]]] = defaultdict(set)
    columns = (anomalies[column].to_pylist() for column in NAMED_COLUMNS)
    for trial_id, kind, producer, seq in zip(*columns, strict=True):
        found[trial_id, kind].add((producer, seq))
    records: defaultdict[str, dict[Guarantee, tuple[NamedRecord, ...]]] = defaultdict(dict)
    for guarantee in GUARANTEES:
        for (trial_id, kind), named in found.items():
            if guarantee.anomaly and kind == guarantee.anomaly.value:
                records[trial_id][guarantee] = tuple(
                    NamedRecord(trial_id=trial_id, producer=producer, seq=seq)
                    for producer, seq in sorted(named, key=_unidentified_last)[:MAX_NAMED_RECORDS]
                )
    return records


def _unidentified_last(named: tuple[int | None, int | None]) -> tuple[tuple[bool, int], ...]:
    return tuple((number is None, number or 0) for number in named)


def harness_check(trials: Sequence[TrialResult], must_tear: Container[str] = ()) -> HarnessCheck:
    """Return what the sealed and measured trials of the controls show about the harness.

    Args:
        trials: all trials of the sweep.
        must_tear: ids of the trials in which a late EndTxn must tear a transaction.
    """
    tearing = [trial for trial in trials if trial.judged and trial.trial_id in must_tear]
    control, positive = (_judged_trials(trials, r) for r in (Role.CONTROL, Role.POSITIVE_CONTROL))
    return HarnessCheck(
        control_clean=not any(map(control_defects, control)) if control else None,
        positive_control_lost=all(map(_lost, positive)) if positive else None,
        positive_control_torn=all(map(_torn, tearing)) if tearing else None,
        detections=count_detections(trial_facts(trial, {}) for trial in trials if trial.judged),
        sentences=(
            f"control (no fault): {_control_result(trials, control)}",
            f"positive control (must lose): {_positive_control_result(trials, positive)}",
            *([_tearing_result(tearing)] if tearing else []),
        ),
    )


def trials_that_must_tear(plan: Plan) -> frozenset[str]:
    """Return the ids of the trials that are positive controls for atomicity."""
    return frozenset(
        spec.trial_id for spec in plan.trials if must_tear_transactions(circumstances_of(spec))
    )


def control_defects(trial: TrialResult) -> dict[str, int]:
    """Return the number of records by defect that a trial without a fault must not have."""
    counts = {
        "lost": _lost(trial),
        "duplicates": trial.duplicates or 0,
        "received and lost": trial.lost_reads or 0 if trial.lost_values is None else 0,
        "received in conflict": trial.conflicting_reads or 0,
    }
    if trial.fates:
        counts |= {"phantom": trial.fates.phantom, "corrupt": trial.fates.corrupt}
    if trial.transactions:
        counts |= {
            "partly visible transactions": trial.transactions.torn,
            "visible records of uncommitted transactions": trial.transactions.aborted_visible,
        }
    return {defect: count for defect, count in counts.items() if count}


def _judged_trials(trials: Sequence[TrialResult], role: Role) -> list[TrialResult]:
    return [trial for trial in trials if trial.role is role and trial.judged]


def _lost(trial: TrialResult) -> int:
    """Return the records that were certainly lost; of a compacted topic, the lost values.

    The other absent records of a compacted topic were removed by compaction.
    """
    if trial.lost_values is not None:
        return trial.lost_values
    return trial.lost[0] if trial.lost else 0


def _torn(trial: TrialResult) -> bool:
    return trial.transactions is not None and trial.transactions.atomicity_violations > 0


def _tearing_result(tearing: Sequence[TrialResult]) -> str:
    torn = sum(map(_torn, tearing))
    result = (
        "positive control (a late EndTxn must tear transactions): torn in "
        f"{describe_share(share(torn, len(tearing)))}"
    )
    if torn == len(tearing):
        return result
    return f"{result}: it must tear in each trial, so this sweep may miss a torn transaction"


def _control_result(trials: Sequence[TrialResult], control: Sequence[TrialResult]) -> str:
    if not control:
        return (
            f"{_why_unjudged(trials, Role.CONTROL)}; "
            "unknown whether the harness itself loses or duplicates records"
        )
    defects = [
        f"{trial.trial_id}: {', '.join(f'{count:,} {defect}' for defect, count in counts.items())}"
        for trial in control
        if (counts := control_defects(trial))
    ]
    total = format_count(len(control), "trial")
    if defects:
        return (
            f"{len(defects)} of {total} not clean ({'; '.join(defects)}): the harness is at fault, "
            "and this sweep supports no verdict"
        )
    records = sum(trial.attempted or 0 for trial in control)
    return f"0 lost, 0 duplicates, 0 phantom, 0 corrupt of {records:,} records in {total}"


def _positive_control_result(trials: Sequence[TrialResult], positive: Sequence[TrialResult]) -> str:
    if not positive:
        return (
            f"{_why_unjudged(trials, Role.POSITIVE_CONTROL)}; "
            "unknown whether the harness would detect a loss"
        )
    losses = [_lost(trial) for trial in positive if _lost(trial)]
    result = f"lost acknowledged records in {describe_share(share(len(losses), len(positive)))}"
    if not losses:
        return f'{result}: this sweep would not detect a loss, so "not observed" proves nothing'
    result = f"{result}; {_range_text(losses)} records per trial"
    if len(losses) < len(positive):
        return f"{result}: it must lose in each trial, so this sweep may miss a loss"
    return result


def _why_unjudged(trials: Sequence[TrialResult], role: Role) -> str:
    statuses = sorted({trial.status.value for trial in trials if trial.role is role})
    return f"no trial could be judged ({', '.join(statuses)})" if statuses else "none was run"


def _range_text(counts: Sequence[int]) -> str:
    smallest, largest = min(counts), max(counts)
    return f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
