"""Verdicts on the cells of a sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from ackbench.experiments.ledger.quantities import TrialQuantities
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.results.rows import NAMED_COLUMNS
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.judge import (
    MAX_NAMED_RECORDS,
    HarnessCheck,
    NamedRecord,
    TrialFacts,
    judge,
)

RecordsByTrial = Mapping[str, Mapping[Guarantee, tuple[NamedRecord, ...]]]
"""By trial and guarantee: the first records that violated it."""


def with_judgements(
    cells: Sequence[CellResult],
    trials: Sequence[TrialResult],
    circumstances: Mapping[str, Circumstances],
    records_by_trial: RecordsByTrial,
    harness: HarnessCheck,
) -> tuple[CellResult, ...]:
    """Return the cells with their contract clauses and verdicts; refused cells unchanged.

    Args:
        cells: of the sweep.
        trials: of the sweep.
        circumstances: of the cells that are not refused, by `cell_key`.
        records_by_trial: of `named_records`.
        harness: what the sweep's controls showed.
    """
    facts_by_cell: defaultdict[str, list[TrialFacts]] = defaultdict(list)
    for trial in trials:
        facts = _facts(trial, records_by_trial.get(trial.trial_id, {}))
        facts_by_cell[cell_key(trial.cell)].append(facts)
    return tuple(
        _judged(cell, circumstances[key], facts_by_cell[key], harness)
        if (key := cell_key(cell.cell)) in circumstances
        else cell
        for cell in cells
    )


def _judged(
    cell: CellResult,
    circumstances: Circumstances,
    facts: Sequence[TrialFacts],
    harness: HarnessCheck,
) -> CellResult:
    clauses = clauses_of(circumstances)
    return cell.model_copy(
        update={"clauses": clauses, "judgements": judge(clauses, facts, harness)}
    )


def _facts(trial: TrialResult, records: Mapping[Guarantee, tuple[NamedRecord, ...]]) -> TrialFacts:
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
