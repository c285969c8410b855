"""Each cell against its contract: its trials as facts, its promises, and what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from experiments.contract import Promise, circumstances_of, contract
from experiments.judging.verdicts import NAMED, HarnessCheck, NamedRecord, TrialFacts, judge
from experiments.ledger.measured_causes import Anomaly
from experiments.plan import Plan, TrialSpec
from experiments.results.cells import cell_text
from experiments.results.models import CellResult, TrialResult

BROKEN_BY: Final[Mapping[Promise, Anomaly]] = {
    Promise.NO_ACKED_LOSS: Anomaly.LOST,
    Promise.NO_DUPLICATES: Anomaly.DUPLICATED,
    Promise.ORDER: Anomaly.REORDERED,
    Promise.ATOMICITY: Anomaly.ABORTED_VISIBLE,
}
"""What is wrong with a record that breaks a promise; availability is no matter of records."""

Named = Mapping[str, Mapping[Promise, tuple[NamedRecord, ...]]]
"""By trial: the first records that broke each promise."""


def with_judgements(cells: Sequence[CellResult], trials: Sequence[TrialResult], plan: Plan, named: Named, harness: HarnessCheck) -> tuple[CellResult, ...]:
    """Return the cells with what Kafka promises to each, and a verdict on each promise; refused ones as they are."""
    planned = {cell_text(spec.cell): spec for spec in plan.trials}
    of_cell: defaultdict[str, list[TrialFacts]] = defaultdict(list)
    for trial in trials:
        of_cell[cell_text(trial.cell)].append(facts_of(trial, named.get(trial.trial_id, {})))
    return tuple(_judged(cell, planned.get(cell_text(cell.cell)), of_cell[cell_text(cell.cell)], harness) for cell in cells)


def _judged(cell: CellResult, spec: TrialSpec | None, facts: Sequence[TrialFacts], harness: HarnessCheck) -> CellResult:
    if spec is None:
        return cell
    commitments = contract(circumstances_of(spec))
    return cell.model_copy(update={"commitments": commitments, "judgements": judge(commitments, facts, harness)})


def facts_of(trial: TrialResult, records: Mapping[Promise, tuple[NamedRecord, ...]]) -> TrialFacts:
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
        anomalies: of the schema `experiments.ledger.measured.ANOMALIES`.
    """
    named: defaultdict[str, dict[Promise, tuple[NamedRecord, ...]]] = defaultdict(dict)
    for promise, anomaly in BROKEN_BY.items():
        broken = anomalies.filter(pc.equal(anomalies["kind"], anomaly.value)).select(["trial_id", "producer", "seq"])
        for trial_id in pc.unique(broken["trial_id"]).to_pylist():
            named[trial_id][promise] = _first(trial_id, broken.filter(pc.equal(broken["trial_id"], trial_id)))
    return named


def _first(trial_id: str, broken: pa.Table) -> tuple[NamedRecord, ...]:
    once = broken.group_by(["producer", "seq"]).aggregate([]).sort_by([("producer", "ascending"), ("seq", "ascending")])
    return tuple(NamedRecord(trial_id=trial_id, **row) for row in once.slice(0, NAMED).to_pylist())
