"""The tables of a sweep's `results/`, as the Spark job wrote them, as rows."""

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

Row = Mapping[str, Any]
"""A row of a table of `experiments.ledger.result_tables`, by column."""


def read_table(sweep: SweepFolder, name: str) -> pa.Table:
    """Return a table of `results/`; an empty one if the sweep was not measured.

    Args:
        sweep: the sweep.
        name: a key of `experiments.ledger.result_tables.RESULTS`.

    Raises:
        LedgerError: the table is unreadable, or of another version.
    """
    path = sweep.results / f"{name}.parquet"
    if not sweep.results.exists():
        return RESULTS[name].empty_table()
    remedy = f"compute it again with: ackbench measure {sweep.argument}"
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise LedgerError(f"{path} is unreadable; {remedy}") from error
    if not table.schema.equals(RESULTS[name], check_metadata=False):
        raise LedgerError(f"{path} is of another version; {remedy}")
    return table


def read_optional_table(sweep: SweepFolder, name: str) -> pa.Table:
    """Return a table as `read_table` does; an empty one if `results/` does not contain it.

    Older versions measured without some of today's tables.

    Raises:
        LedgerError: the table is unreadable, or of another version.
    """
    if not (sweep.results / f"{name}.parquet").exists():
        return RESULTS[name].empty_table()
    return read_table(sweep, name)


def rows_by_trial(sweep: SweepFolder, name: str) -> Mapping[str, Sequence[Row]]:
    """Return the rows of a table by trial, in the table's order; other trials have no rows.

    Raises:
        LedgerError: the table is unreadable, or of another version.
    """
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in read_table(sweep, name).to_pylist():
        rows[row["trial_id"]].append(row)
    return rows


@dataclass(frozen=True)
class ResultRows:
    """The rows of the tables that results are made of; all empty if the sweep was not measured."""

    trials: Mapping[str, Row]
    """By trial, as are `fates`, `latency`, `gaps` and `copies`."""
    fates: Mapping[str, Sequence[Row]]
    latency: Mapping[str, Sequence[Row]]
    gaps: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Row]
    """By `experiments.results.cells.cell_key`."""
    readers: Mapping[str, Sequence[Row]] = field(default_factory=lambda: defaultdict(list))
    copies: Mapping[str, Row] = field(default_factory=dict)
    """Only of trials with a copy workload."""

    @classmethod
    def read(cls, sweep: SweepFolder) -> ResultRows:
        """Read the rows of a sweep.

        Raises:
            LedgerError: a table is unreadable, or of another version.
        """
        trials, cells = (read_table(sweep, name).to_pylist() for name in ("trials", "cells"))
        copies = read_optional_table(sweep, "copies").to_pylist()
        return cls(
            trials={row["trial_id"]: row for row in trials},
            fates=rows_by_trial(sweep, "fates"),
            latency=rows_by_trial(sweep, "latency"),
            gaps=rows_by_trial(sweep, "gaps"),
            cells={row["cell"]: row for row in cells},
            readers=rows_by_trial(sweep, "readers"),
            copies={row["trial_id"]: row for row in copies},
        )
