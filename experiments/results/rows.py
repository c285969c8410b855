"""The rows of a sweep's `results/`, by what they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.errors import LedgerError
from experiments.ledger.result_tables import RESULTS
from experiments.sweep.folder import SweepFolder

# ---------- The tables of a sweep's `results/`, as Spark wrote them. No Spark is needed to read.


def read_if_there(sweep: SweepFolder, name: str) -> pa.Table:
    """As `read_table`, of a table that a sweep may have been measured without: then it is empty.

    Raises:
        LedgerError: it cannot be read, or is of another version.
    """
    return (
        read_table(sweep, name)
        if (sweep.results / f"{name}.parquet").exists()
        else RESULTS[name].empty_table()
    )


def read_table(sweep: SweepFolder, name: str) -> pa.Table:
    """Return a table of `experiments.ledger.result_tables.RESULTS`; of a sweep that was not measured, an empty one.

    Raises:
        LedgerError: it cannot be read, or is of another version.
    """
    path = sweep.results / f"{name}.parquet"
    if not sweep.results.exists():
        return RESULTS[name].empty_table()
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise LedgerError(
            f"{path} cannot be read: `ackbench measure {sweep.sweep_id}` makes it anew"
        ) from error
    if not table.schema.equals(RESULTS[name], check_metadata=False):
        raise LedgerError(
            f"{path} is of another version: `ackbench measure {sweep.sweep_id}` makes it anew"
        )
    return table


Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.result_tables` has."""


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
    copies: Mapping[str, Row] = field(default_factory=dict)
    """By trial, of those that copied."""

    @classmethod
    def read(cls, sweep: SweepFolder) -> ResultRows:
        """Read them.

        Raises:
            LedgerError: a table cannot be read, or is of another version.
        """
        trials, cells = (read_table(sweep, name).to_pylist() for name in ("trials", "cells"))
        of_trial = {name: rows_by_trial(sweep, name) for name in ("fates", "latency", "gaps")}
        copies = {row["trial_id"]: row for row in read_if_there(sweep, "copies").to_pylist()}
        return cls(
            copies=copies,
            trials={row["trial_id"]: row for row in trials},
            cells={row["cell"]: row for row in cells},
            **of_trial,
        )


def rows_by_trial(sweep: SweepFolder, name: str) -> Mapping[str, Sequence[Row]]:
    """Return a table's rows, in its order, by trial; a trial that it does not name has none.

    Raises:
        LedgerError: the table cannot be read, or is of another version.
    """
    of_trial: defaultdict[str, list[Row]] = defaultdict(list)
    for row in read_table(sweep, name).to_pylist():
        of_trial[row["trial_id"]].append(row)
    return of_trial
