"""The rows of a sweep's `results/`, by what they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.results.tables import read_table
from experiments.sweep_folder import SweepFolder

Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.measured` has."""


@dataclass(frozen=True)
class ResultRows:
    """What is read of the tables; empty where a sweep was not measured."""

    trials: Mapping[str, Row]
    """By trial."""
    fates: Mapping[str, Sequence[Row]]
    latency: Mapping[str, Sequence[Row]]
    gaps: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Row]
    """By cell, as the text that `spark_jobs` knows it by."""

    @classmethod
    def read(cls, sweep: SweepFolder) -> ResultRows:
        """Read them.

        Raises:
            LedgerError: a table cannot be read, or is of another version.
        """
        rows: dict[str, list[Row]] = {name: read_table(sweep, name).to_pylist() for name in ("trials", "fates", "latency", "gaps", "cells")}
        of_trial = {name: _grouped(rows[name]) for name in ("fates", "latency", "gaps")}
        return cls(trials={row["trial_id"]: row for row in rows["trials"]}, cells={row["cell"]: row for row in rows["cells"]}, **of_trial)


def _grouped(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    of_trial: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_trial[row["trial_id"]].append(row)
    return of_trial
