"""Inputs of findings, from cells with planted losses and duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from support.builders.sweeps import Truth, measured

from experiments.ledger.record import Cell
from experiments.lessons.finding import FindingInput
from experiments.results.rows import Row


def finding_input(
    *truths: Truth,
    rows: Mapping[str, Mapping[str, Sequence[Row]]] | None = None,
    trials: Mapping[str, object] | None = None,
) -> FindingInput:
    """Return the input of a finding, of lesson 1.

    Args:
        truths: one per cell.
        rows: further tables: rows by name of the table and by trial.
        trials: fields of every measured trial that differ from those of `measured`.
    """
    evidence = measured(truths)
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


def truth(
    cell: Cell, lost: Sequence[int] = (0, 0, 0), copies: Sequence[int] | None = None
) -> Truth:
    """Return what happens in a cell.

    Args:
        cell: values by axis; acks=all and a leader crash where it has no others.
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
