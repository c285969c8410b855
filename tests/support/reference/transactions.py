"""The reference for transactions, record by record in plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ackbench.spark_jobs.planted import PlantedTrial

ENDED_WITHOUT_COMMIT = {"aborted", "fenced", "abandoned"}


def as_read_committed(trial: PlantedTrial) -> PlantedTrial:
    """Return the trial as a read_committed application sees it.

    The outcome of each attempt is that of its transaction, and the log has visible records only.
    """
    ends: dict[tuple[int, int | None], str] = {
        (row.producer, row.transaction): row.outcome for row in trial.transactions
    }
    attempts = [
        row._replace(outcome=_outcome(row.outcome, ends.get((row.producer, row.transaction))))
        for row in trial.attempts
    ]
    return replace(trial, attempts=attempts, log=[row for row in trial.log if row.visible])


def _outcome(outcome: str, end: str | None) -> str:
    if end in ENDED_WITHOUT_COMMIT:
        return "aborted"
    return "unknown" if end == "unknown" and outcome != "rejected" else outcome


def transaction_counts(trial: PlantedTrial) -> dict[str, int | None]:
    """Return the counts of transactions and of hidden copies; null without transactions."""
    ends = Counter(row.outcome for row in trial.transactions)
    counts = {
        "committed": ends["committed"],
        "aborted": sum(ends[end] for end in ENDED_WITHOUT_COMMIT),
        "unknown": ends["unknown"],
        "torn": _torn(trial),
    }
    known = {
        f"{name}_transactions": count if trial.transactions else None
        for name, count in counts.items()
    }
    return {"hidden_copies": sum(not row.visible for row in trial.log), **known}


def _torn(trial: PlantedTrial) -> int:
    present = {(row.producer, row.seq) for row in trial.log if row.visible and row.intact}
    parts: dict[tuple[int, int], set[bool]] = {}
    for row in trial.attempts:
        if row.transaction is not None and row.outcome != "rejected":
            parts.setdefault((row.producer, row.transaction), set()).add(
                (row.producer, row.seq) in present
            )
    return sum(len(seen) > 1 for seen in parts.values())
