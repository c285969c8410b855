"""What findings are made of, from cells whose truth a test makes up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from support.builders.sweeps import Truth, measured

from experiments.ledger.record import Cell
from experiments.lessons.finding import FindingInput
from experiments.results.models import TrialResult
from experiments.results.rows import Row


def material(
    *truths: Truth,
    rows: Mapping[str, Mapping[str, Sequence[Row]]] | None = None,
    trials: Mapping[str, object] | None = None,
) -> FindingInput:
    """Return a sweep in which this is true.

    Args:
        truths: a cell each.
        rows: further tables, by name and trial.
        trials: fields of every trial that are other than `measured` makes them.
    """
    evidence = measured(truths)
    changed = [
        trial.model_copy(update=dict(trials or {})) if trial.attempted is not None else trial
        for trial in evidence.results.trials
    ]
    results = evidence.results.model_copy(update={"trials": tuple(changed)})
    return FindingInput(evidence.plan, results, lambda name: (rows or {}).get(name, {}))


def of_each_trial(
    found: FindingInput, change: Mapping[str, object], **wanted: object
) -> FindingInput:
    """Return the material with the trials of some cells changed; other values than those wanted are left."""
    chosen = {
        trial.trial_id
        for trial in found.results.trials
        if all(trial.cell.get(name.replace("__", ".")) == value for name, value in wanted.items())
    }
    trials: list[TrialResult] = [
        trial.model_copy(update=dict(change)) if trial.trial_id in chosen else trial
        for trial in found.results.trials
    ]
    return FindingInput(
        found.plan, found.results.model_copy(update={"trials": tuple(trials)}), found.rows
    )


def truth(
    cell: Cell, lost: Sequence[int] = (0, 0, 0), copies: Sequence[int] | None = None
) -> Truth:
    """Return a cell in which so many records were lost and stored again, a figure a repeat."""
    whole: Cell = {
        "acks": "all",
        "enable.idempotence": False,
        "replication.factor": 3,
        "partitions": 1,
        "fault": "leader-crash",
        **cell,
    }
    return Truth(whole, tuple(lost), tuple(copies if copies is not None else [0] * len(lost)))
