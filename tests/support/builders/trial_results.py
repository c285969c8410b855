"""Inputs of findings, from handmade trial results and rows of further tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from experiments.ledger.record import Cell, Scalar, Status
from experiments.ledger.result_tables import OutageStep, Side
from experiments.lessons.finding import FindingInput
from experiments.results.models import CellResult, FaultResult, SweepResults, TrialResult
from experiments.results.rows import Row
from experiments.sweep.plan import Plan

_NS_PER_MS = 1_000_000
_BEGIN_NS = 1_700_000_000_000_000_000


def a_trial(
    cell: Cell,
    *,
    targets: tuple[int, ...] = (1,),
    parameters: Mapping[str, Scalar] | None = None,
    **seen: object,
) -> TrialResult:
    """Return a sealed trial without loss or duplicates; `finding_input_of` gives it an id.

    Args:
        cell: its cell.
        targets: the nodes that the fault stopped.
        parameters: the fault's.
        seen: further fields of `TrialResult`.
    """
    trial = TrialResult(
        trial_id="",
        cell=cell,
        label="",
        repeat=0,
        status=Status.SEALED,
        fault=FaultResult(
            kind=str(cell["fault"]),
            targets=targets,
            took_effect=True,
            parameters=dict(parameters or {}),
        ),
        attempted=10_000,
        acked=10_000,
        rejected=0,
        unknown=0,
        lost=(0, 0),
        duplicates=0,
        reordered=0,
    )
    return trial.model_copy(update=seen)


def finding_input_of(
    trials: Sequence[TrialResult],
    tables: Mapping[str, Mapping[int, Iterable[Mapping[str, Any]]]] | None = None,
) -> FindingInput:
    """Return the input of a finding, of lesson 1.

    Args:
        trials: in any order; those of one cell are its repeats.
        tables: rows by table, and by the index of the trial in `trials`.
    """
    repeats: defaultdict[str, count[int]] = defaultdict(count)
    named = [
        trial.model_copy(
            update={"trial_id": f"{place:03d}", "repeat": next(repeats[str(trial.cell)])}
        )
        for place, trial in enumerate(trials)
    ]
    cells = list({str(trial.cell): trial.cell for trial in named}.values())
    results = SweepResults(
        sweep_id="sweep",
        experiment="planted",
        question="What?",
        seed=42,
        trials=tuple(named),
        cells=tuple(
            CellResult(
                cell=cell,
                label=str(cell),
                planned_trials=sum(trial.cell == cell for trial in named),
            )
            for cell in cells
        ),
        pending=(),
        unmeasured=(),
    )
    plan = Plan(
        sweep_id="sweep",
        experiment="planted",
        question="What?",
        seed=42,
        repeats=3,
        trials=(),
        refused=(),
    )

    def rows(name: str) -> Mapping[str, Sequence[Row]]:
        return defaultdict(
            list, {f"{place:03d}": list(of) for place, of in (tables or {}).get(name, {}).items()}
        )

    return FindingInput(1, plan, results, rows)


def gap(partition: int, lasted_ms: float) -> dict[str, Any]:
    """Return a row of the table `gaps`, for the producers."""
    row = {
        "partition": partition,
        "side": Side.PRODUCER.value,
        "records": 1000,
        "gap_ns": int(lasted_ms * _NS_PER_MS),
        "began_ns": _BEGIN_NS,
    }
    return {**row, "answered": True}


def outage(partition: int, **after_ms: float | None) -> list[dict[str, Any]]:
    """Return the rows of the table `outages` of one partition, for the producers.

    Args:
        partition: its number.
        after_ms: when each step happened, milliseconds after the last acknowledgement.
    """
    at_ms = {OutageStep.LAST_BEFORE.value: 0.0, **after_ms}
    return [
        {
            "partition": partition,
            "side": Side.PRODUCER.value,
            "mark": mark.value,
            "at_ns": None
            if (ms := at_ms.get(mark.value)) is None
            else _BEGIN_NS + int(ms * _NS_PER_MS),
            "source": "broker",
            "resolution_ns": _NS_PER_MS,
        }
        for mark in OutageStep
    ]
