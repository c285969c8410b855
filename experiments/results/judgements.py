"""Each cell against its contract: its trials as facts, its promises, and what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from experiments.ledger.record import Role
from experiments.ledger.result_tables import Anomaly
from experiments.messages.counts import counted
from experiments.results.cells import cell_text
from experiments.results.models import CellResult, TrialResult
from experiments.sweep.plan import Plan, TrialSpec
from experiments.verdicts.contract import Guarantee, circumstances_of, contract
from experiments.verdicts.judge import NAMED, HarnessCheck, NamedRecord, TrialFacts, judge
from experiments.verdicts.statistics import share, words

BROKEN_BY: Final[Mapping[Guarantee, Anomaly]] = {
    Guarantee.NO_ACKED_LOSS: Anomaly.LOST,
    Guarantee.NO_DUPLICATES: Anomaly.DUPLICATED,
    Guarantee.ORDER: Anomaly.REORDERED,
    Guarantee.ATOMICITY: Anomaly.ABORTED_VISIBLE,
}
"""What is wrong with a record that breaks a promise; availability is no matter of records."""

Named = Mapping[str, Mapping[Guarantee, tuple[NamedRecord, ...]]]
"""By trial: the first records that broke each promise."""


def with_judgements(
    cells: Sequence[CellResult],
    trials: Sequence[TrialResult],
    plan: Plan,
    named: Named,
    harness: HarnessCheck,
) -> tuple[CellResult, ...]:
    """Return the cells with what Kafka promises to each, and a verdict on each promise; refused ones as they are."""
    planned = {cell_text(spec.cell): spec for spec in plan.trials}
    of_cell: defaultdict[str, list[TrialFacts]] = defaultdict(list)
    for trial in trials:
        of_cell[cell_text(trial.cell)].append(facts_of(trial, named.get(trial.trial_id, {})))
    return tuple(
        _judged(cell, planned.get(cell_text(cell.cell)), of_cell[cell_text(cell.cell)], harness)
        for cell in cells
    )


def _judged(
    cell: CellResult, spec: TrialSpec | None, facts: Sequence[TrialFacts], harness: HarnessCheck
) -> CellResult:
    if spec is None:
        return cell
    clauses = contract(circumstances_of(spec))
    return cell.model_copy(
        update={"clauses": clauses, "judgements": judge(clauses, facts, harness)}
    )


def facts_of(
    trial: TrialResult, records: Mapping[Guarantee, tuple[NamedRecord, ...]]
) -> TrialFacts:
    """Return what a verdict needs to know of a trial."""
    return TrialFacts(
        trial_id=trial.trial_id,
        status=trial.status,
        reason=trial.reason,
        lost=trial.lost,
        duplicated=trial.duplicated,
        reordered=trial.reordered,
        group_missed=trial.group_missed,
        group_repeated=trial.group_repeated,
        unatomic=trial.transactions.broken if trial.transactions else None,
        recovered_before_heal=trial.recovered_before_heal,
        generator_late=trial.generator_late,
        records=records,
    )


def named_records(anomalies: pa.Table) -> Named:
    """Return the first records of each trial that broke a promise, by producer and number; each once, however many copies it has.

    Args:
        anomalies: of the schema `experiments.ledger.result_tables.ANOMALIES`.
    """
    named: defaultdict[str, dict[Guarantee, tuple[NamedRecord, ...]]] = defaultdict(dict)
    for guarantee, anomaly in BROKEN_BY.items():
        broken = anomalies.filter(pc.equal(anomalies["kind"], anomaly.value)).select(
            ["trial_id", "producer", "seq"]
        )
        for trial_id in pc.unique(broken["trial_id"]).to_pylist():
            named[trial_id][guarantee] = _first(
                trial_id, broken.filter(pc.equal(broken["trial_id"], trial_id))
            )
    return named


def _first(trial_id: str, broken: pa.Table) -> tuple[NamedRecord, ...]:
    once = (
        broken.group_by(["producer", "seq"])
        .aggregate([])
        .sort_by([("producer", "ascending"), ("seq", "ascending")])
    )
    return tuple(NamedRecord(trial_id=trial_id, **row) for row in once.slice(0, NAMED).to_pylist())


# ---------- Whether a sweep's own controls say that its figures can be believed. Pure.


def harness_check(trials: Sequence[TrialResult]) -> HarnessCheck:
    """Return what the sealed and measured trials of both controls showed; what no trial showed is not known."""
    control, positive = (_measured(trials, role) for role in (Role.CONTROL, Role.POSITIVE_CONTROL))
    return HarnessCheck(
        control_clean=not any(map(stains, control)) if control else None,
        positive_control_lost=any(map(_lost, positive)) if positive else None,
        sentences=(_of_control(trials, control), _of_positive_control(trials, positive)),
    )


def stains(trial: TrialResult) -> dict[str, int]:
    """Return what a trial without a fault must not have, by its word, where it has any."""
    found = {"lost": _lost(trial), "duplicates": trial.duplicates or 0}
    if trial.fates:
        found |= {"phantom": trial.fates.phantom, "corrupt": trial.fates.corrupt}
    if trial.transactions:
        found |= {
            "torn transactions": trial.transactions.torn,
            "aborted, yet shown": trial.transactions.aborted_visible,
        }
    return {word: count for word, count in found.items() if count}


def _measured(trials: Sequence[TrialResult], role: Role) -> list[TrialResult]:
    return [trial for trial in trials if trial.role is role and trial.judged]


def _lost(trial: TrialResult) -> int:
    return trial.lost[0] if trial.lost else 0


def _of_control(trials: Sequence[TrialResult], control: Sequence[TrialResult]) -> str:
    if not control:
        return f"control (no fault): {_why_none(trials, Role.CONTROL)}, so whether the harness itself loses or repeats records is not known"
    stained = [
        f"{trial.trial_id}: {', '.join(f'{count:,} {word}' for word, count in stains(trial).items())}"
        for trial in control
        if stains(trial)
    ]
    if stained:
        told = (
            f"{len(stained)} of {counted(len(control), 'trial')} not clean ({'; '.join(stained)})"
        )
        return f"control (no fault): {told}: the harness is at fault, judge nothing by this sweep"
    records = sum(trial.attempted or 0 for trial in control)
    return f"control (no fault): 0 lost, 0 duplicates, 0 phantom, 0 corrupt of {records:,} records in {counted(len(control), 'trial')}"


def _of_positive_control(trials: Sequence[TrialResult], positive: Sequence[TrialResult]) -> str:
    if not positive:
        return f"positive control (must lose): {_why_none(trials, Role.POSITIVE_CONTROL)}, so whether the harness would see a loss is not known"
    losing = [_lost(trial) for trial in positive if _lost(trial)]
    told = words(share(len(losing), len(positive)))
    if not losing:
        return f"positive control (must lose): lost nothing, {told}: this sweep would not see a loss, so nothing that it did not see is known"
    return f"positive control (must lose): lost acknowledged records in {told}; {_range(losing)} records a trial"


def _why_none(trials: Sequence[TrialResult], role: Role) -> str:
    ended = [trial.status.value for trial in trials if trial.role is role]
    return (
        f"no trial of it could be judged ({', '.join(sorted(set(ended)))})"
        if ended
        else "none was run"
    )


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
