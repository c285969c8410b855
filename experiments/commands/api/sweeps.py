"""A sweep as DataFrames, and the functions that return one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_list
from ackbench.experiments.results.comparing import comparison
from ackbench.experiments.results.comparing.comparison import ComparedSweep
from ackbench.experiments.results.formats.columns import (
    CELL_COLUMNS,
    DIFFERENCE_COLUMNS,
    EXPECTATION_COLUMNS,
    TRIAL_COLUMNS,
    VERDICT_COLUMNS,
    CellDifference,
    Column,
    axis_text,
    judged_clauses,
)
from ackbench.experiments.results.history import warehouse
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.rows import read_table
from ackbench.experiments.results.sentences import plain_answer
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.published import open_store, open_sweep, storage_errors
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row")


@dataclass(frozen=True)
class Sweep:
    """A sweep that has run: its results as tables, one DataFrame per property.

    Columns are documented in `experiments.results.formats.columns` and in `docs/api.md`.
    """

    _folder: SweepFolder
    _results: SweepResults

    @property
    def sweep_id(self) -> str:
        """`<experiment>-<UTC time>-<4 hex>`."""
        return self._results.sweep_id

    @property
    def experiment(self) -> str:
        """The name of its experiment."""
        return self._results.experiment

    @property
    def answer(self) -> str:
        """The answer in plain sentences, as `ackbench show` prints it."""
        return "\n".join(str(sentence) for sentence in plain_answer(self._results))

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row per trial; the axes, then `TRIAL_COLUMNS`."""
        trials = self._results.trials
        return _frame(TRIAL_COLUMNS, trials, [trial.cell for trial in trials])

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per cell, over its sealed trials; the axes, then `CELL_COLUMNS`."""
        cells = self._results.cells
        return _frame(CELL_COLUMNS, cells, [cell.cell for cell in cells])

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per cell and guarantee; the axes, then `VERDICT_COLUMNS`."""
        rows = judged_clauses(self._results.cells)
        return _frame(VERDICT_COLUMNS, rows, [row.cell.cell for row in rows])

    @cached_property
    def expectations(self) -> pd.DataFrame:
        """One row per cell and bound of the experiment; the axes, then `EXPECTATION_COLUMNS`."""
        rows = self._results.expectations
        return _frame(EXPECTATION_COLUMNS, rows, [row.cell for row in rows])

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the measuring job, such as `timeline`, `histogram` or `anomalies`.

        `docs/metrics.md` has its columns, which may change in minor versions.

        Raises:
            UnknownName: there is no such table.
            LedgerError: it cannot be read.
        """
        if name not in RESULTS:
            raise UnknownName(
                f"unknown table {name}{did_you_mean(name, RESULTS)}; allowed: "
                f"{format_list(list(RESULTS), 'or')}"
            )
        table: pd.DataFrame = read_table(self._folder, name, self._results.manifest).to_pandas()
        return table

    def _repr_html_(self) -> str:
        """Return the cells, as notebooks show them."""
        html: str = self.cells.to_html()
        return html


def sweeps() -> tuple[str, ...]:
    """Return the ids of the sweeps in the home, the newest first."""
    return tuple(sweep.sweep_id for sweep in list_sweeps(Home.from_environment()))


def load(named: str | None = None) -> Sweep:
    """Return a sweep.

    Args:
        named: as in `ackbench show`: a sweep's id, its folder, a URI, or an experiment for its
            newest finished sweep; `None`: the newest finished one of all.

    Raises:
        UnknownName: there is no such sweep.
        StorageError: it is a URI that cannot be read.
        LedgerError: its results cannot be read.
    """
    folder = open_sweep(Home.from_environment(), named)
    return Sweep(folder, read_results(folder))


def run(
    experiment: str,
    axes: Mapping[str, Scalar | Sequence[Scalar]] | None = None,
    *,
    repeats: int | None = None,
    seed: int | None = None,
    controls: bool | None = None,
    expect: Sequence[str] = (),
) -> Sweep:
    """Run an experiment and return its sweep; progress is printed as by `ackbench run`.

    Needs `ackbench[run]`, and the main thread, which receives the signals.

    Args:
        experiment: a name of the catalogue, or a YAML file.
        axes: values by axis, property or `workload.*`, as `--set`; several make it an axis.
        repeats: trials per cell; `None`: as the experiment has it.
        seed: determines keys, order and timing; `None`: as the experiment has it.
        controls: whether to plan the sweep's own controls; `None`: as the experiment has it.
        expect: bounds of all cells, as `--expect`: `lost=0`. `Sweep.expectations` has the outcome.

    Raises:
        InputError: invalid request; nothing was started.
        HarnessError: a trial, or a step after the trials, failed, or the run was interrupted.
    """
    from ackbench.experiments.commands.run import run_sweep
    from ackbench.experiments.planning.expectations import parse_expected
    from ackbench.experiments.planning.overrides import Overrides

    values = {name: _values(value) for name, value in (axes or {}).items()}
    home = Home.from_environment()
    changes = Overrides(values, repeats, seed, controls=controls, expect=parse_expected(expect))
    folder, code = run_sweep(home, experiment, changes)
    if code:
        raise HarnessError(f"the sweep {folder.sweep_id} was interrupted (exit code {code})")
    return load(str(folder.root))


def _values(value: Scalar | Sequence[Scalar]) -> tuple[Scalar, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)  # type: ignore[return-value]


def history(
    table: str = "cells",
    experiment: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    store: str | None = None,
) -> pd.DataFrame:
    """Return a table of all finished sweeps: of the home, or of a store.

    Args:
        table: `trials`, `cells`, `verdicts`, `expectations`, `settings`, `latency` or `outages`.
        experiment: the name of the only experiment in question; `None`: all.
        columns: those that are read, which is faster; `None`: all.
        store: a URI, or the folder, that sweeps are published to; `None`: the home, with the sweeps
            that were pruned.

    Returns:
        One row per trial, cell, ...; the columns of the sweep, of the axes that every cell has, and
        those of `TRIAL_COLUMNS`, `CELL_COLUMNS`, ... (`docs/history.md`).

    Raises:
        UnknownName: there is no such table, or no such column in it.
        StorageError: the store cannot be read, or the home's warehouse cannot be written.
        LedgerError: a file of the warehouse cannot be read.
    """
    home = Home.from_environment()
    if store is None:
        with storage_errors():
            warehouse.add_missing(home)
    place = (
        open_store(store).at(warehouse.WAREHOUSE) if store else warehouse.warehouse_of_home(home)
    )
    with storage_errors():
        return _nullable(warehouse.read_history(place, table, experiment, columns))


def compare(a: Sweep, b: Sweep) -> pd.DataFrame:
    """Return the measures of two sweeps cell by cell, paired by seed where that is possible.

    Returns:
        One row per pair of cells and measure, with `DIFFERENCE_COLUMNS`.

    Raises:
        InputError: the sweeps cannot be compared.
    """
    sides = [ComparedSweep(one._folder.plan(), one._results) for one in (a, b)]  # noqa: SLF001
    rows = [
        CellDifference(cell, difference)
        for cell in comparison.compare(*sides).cells
        for difference in cell.differences
    ]
    return _frame(DIFFERENCE_COLUMNS, rows, [])


def _nullable(table: pa.Table) -> pd.DataFrame:
    """Return a table as a DataFrame with pandas' nullable types: what is missing is never NaN."""
    import pandas as pd

    types = {
        pa.string(): pd.StringDtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get)
    return frame


def _frame(
    columns: Iterable[Column[Row]], rows: Sequence[Row], cells: Sequence[Cell]
) -> pd.DataFrame:
    """Return a DataFrame of the axes and the columns.

    Args:
        columns: the documented columns.
        rows: where their values are from.
        cells: the cell of each row; none: no column has axes.
    """
    import pandas as pd

    axes = dict.fromkeys(axis for cell in cells for axis in cell)
    data: dict[str, Any] = {
        axis: pd.array([axis_text(cell.get(axis)) for cell in cells], dtype="string")
        for axis in axes
    }
    for column in columns:
        values = [column.value(row) for row in rows]
        data[column.name] = pd.array(
            [pd.NA if value is None else value for value in values], dtype=column.dtype
        )
    return pd.DataFrame(data)
