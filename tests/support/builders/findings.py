"""Inputs of findings.

They are made from cells with planted losses and duplicates (`finding_input`), or from single trial
results and rows of further tables (`finding_input_of_trials`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from support.builders.sweeps import Truth, measured_sweep

from ackbench.experiments.ledger.result_terms import OutageStep, Side
from ackbench.experiments.ledger.trial_manifest import Cell, Scalar, Status
from ackbench.experiments.results.lessons.finding import FindingInput
from ackbench.experiments.results.models import CellResult, FaultResult, SweepResults, TrialResult
from ackbench.experiments.results.rows import Row
from ackbench.experiments.sweep.plan import Plan

_NS_PER_MS = 1_000_000
_BEGIN_NS = 1_700_000_000_000_000_000


def finding_input(
    *truths: Truth,
    rows: Mapping[str, Mapping[str, Sequence[Row]]] | None = None,
    trials: Mapping[str, object] | None = None,
) -> FindingInput:
    """Return the input of a finding, of lesson 1.

    Args:
        truths: one per cell.
        rows: further tables: rows by name of the table and by trial.
        trials: fields of every measured trial that differ from those of `measured_sweep`.
    """
    evidence = measured_sweep(truths)
    changed = [
        trial.model_copy(update=dict(trials or {})) if trial.attempted is not None else trial
        for trial in evidence.results.trials
    ]
    results = evidence.results.model_copy(update={"trials": tuple(changed)})
    return FindingInput(1, evidence.plan, results, lambda name: (rows or {}).get(name, {}))


def change_trials(
    data: FindingInput, change: Mapping[str, object], **values: object
) -> FindingInput:
    """Return the input with some trials changed.

    Args:
        data: the input.
        change: new values by field of `TrialResult`.
        values: the cells whose trials change: value by axis, a dot as two underscores.
    """
    by_axis = {name.replace("__", "."): value for name, value in values.items()}
    trials = tuple(
        trial.model_copy(update=dict(change))
        if all(trial.cell.get(axis) == value for axis, value in by_axis.items())
        else trial
        for trial in data.results.trials
    )
    return replace(data, results=data.results.model_copy(update={"trials": trials}))


def planted_truth(
    cell: Cell, lost: Sequence[int] = (0, 0, 0), copies: Sequence[int] | None = None
) -> Truth:
    """Return the planted losses and duplicates of a cell.

    Args:
        cell: values by axis; the defaults are acks=all and a leader crash.
        lost: lost records, one count per repeat.
        copies: duplicates, one count per repeat; None: none.
    """
    all_axes: Cell = {
        "acks": "all",
        "enable.idempotence": False,
        "replication.factor": 3,
        "partitions": 1,
        "fault": "leader-crash",
        **cell,
    }
    return Truth(all_axes, tuple(lost), tuple(copies if copies is not None else [0] * len(lost)))


def a_trial(
    cell: Cell,
    *,
    targets: tuple[int, ...] = (1,),
    parameters: Mapping[str, Scalar] | None = None,
    **fields: object,
) -> TrialResult:
    """Return a sealed trial without loss or duplicates; `finding_input_of_trials` sets its id.

    Args:
        cell: its cell.
        targets: the nodes that the fault stopped.
        parameters: the parameters of the fault.
        fields: further fields of `TrialResult`.
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
    return trial.model_copy(update=fields)


def finding_input_of_trials(
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
    plan = Plan(
        sweep_id="sweep",
        experiment="planted",
        question="What?",
        seed=42,
        repeats=3,
        trials=(),
        refused=(),
    )
    results = SweepResults(
        plan=plan,
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

    def rows(name: str) -> Mapping[str, Sequence[Row]]:
        return defaultdict(
            list,
            {
                f"{place:03d}": list(by_trial)
                for place, by_trial in (tables or {}).get(name, {}).items()
            },
        )

    return FindingInput(1, plan, results, rows)


def gap_row(partition: int, duration_ms: float, *, longest: bool = True) -> dict[str, Any]:
    """Return a row of the table `gaps`, for the producers."""
    row = {
        "partition": partition,
        "side": Side.PRODUCER.value,
        "records": 1000,
        "gap_ns": int(duration_ms * _NS_PER_MS),
        "began_ns": _BEGIN_NS,
        "longest": longest,
    }
    return {**row, "answered": True}


def outage_rows(partition: int, **after_ms: float | None) -> list[dict[str, Any]]:
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
            "began_ns": _BEGIN_NS,
            "longest": True,
            "step": step.value,
            "at_ns": None
            if (ms := at_ms.get(step.value)) is None
            else _BEGIN_NS + int(ms * _NS_PER_MS),
            "source": "broker",
            "resolution_ns": _NS_PER_MS,
        }
        for step in OutageStep
    ]
