"""A whole trial's ledger in memory, changed and written again under another name, as consistent as a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.ledger.record import TrialRecord, read_record
from experiments.ledger.schema import TABLES
from experiments.ledger.seal import seal

Rows = npt.NDArray[np.int64]
"""Numbers of rows of one table."""


@dataclass(frozen=True)
class LedgerCopy:
    """A trial's record and its tables."""

    record: TrialRecord
    tables: Mapping[str, pa.Table]

    @classmethod
    def read(cls, trial: Path) -> LedgerCopy:
        """Read a whole trial.

        Raises:
            pydantic.ValidationError, OSError, pyarrow.ArrowInvalid: it is not whole, or of another version.
        """
        return cls(
            read_record(trial),
            {
                name: pq.read_table(trial / f"{name}.parquet").cast(schema)
                for name, schema in TABLES.items()
            },
        )

    def write(self, sweep: Path, trial_id: str) -> Path:
        """Seal the copy as a trial of a sweep; return its folder."""
        whole = sweep / "trials" / trial_id
        partial = whole.with_name(f"{trial_id}.partial")
        partial.mkdir(parents=True)
        seal(
            partial,
            whole,
            self.record.model_copy(update={"trial_id": trial_id, "sweep_id": sweep.name}),
            self.tables,
        )
        return whole

    def without(self, name: str, rows: Rows) -> LedgerCopy:
        """Return the copy with rows of a table left out."""
        return self._with(name, self.tables[name].filter(pa.array(~_mask(self.tables[name], rows))))

    def changed(self, name: str, rows: Rows, values: Mapping[str, Any]) -> LedgerCopy:
        """Return the copy with other values in some rows of a table.

        Args:
            name: the table.
            rows: which; ascending.
            values: by column: one value for all of the rows (`None` is null), or an array of one for each.
        """
        table = self.tables[name]
        for column, value in values.items():
            table = table.set_column(
                table.schema.names.index(column),
                TABLES[name].field(column),
                _replaced(table, column, rows, value),
            )
        return self._with(name, table)

    def appended(self, name: str, rows: pa.Table) -> LedgerCopy:
        """Return the copy with further rows at the end of a table."""
        return self._with(name, pa.concat_tables([self.tables[name], rows.cast(TABLES[name])]))

    def logged(self, ids: pa.Table, partition: int) -> LedgerCopy:
        """Return the copy with further records at the end of a partition's log, whose end is then so much later.

        Args:
            ids: producer and seq of each; null: of other origin.
            partition: where.
        """
        end, count = self.record.end_offsets[partition], ids.num_rows
        columns = {
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(end, end + count), pa.int64()),
            "producer": ids["producer"],
            "seq": ids["seq"],
            "timestamp_ms": pa.array(
                [self.record.phases.settled_ns // 1_000_000] * count, pa.int64()
            ),
            "intact": pa.array([True] * count),
            "leader_epoch": pa.array([self._last_epoch(partition)] * count, pa.int32()),
            "visible": pa.array([True] * count),
        }
        longer = self.appended("log", pa.table(columns))
        return longer.with_ends({partition: end + count})

    def with_ends(self, ends: Mapping[int, int]) -> LedgerCopy:
        """Return the copy with other end offsets."""
        return replace(
            self,
            record=self.record.model_copy(
                update={"end_offsets": {**self.record.end_offsets, **ends}}
            ),
        )

    def values(self, name: str, column: str) -> npt.NDArray[np.int64]:
        """Return a column of whole numbers; null is -1."""
        filled: npt.NDArray[np.int64] = pc.fill_null(
            self.tables[name][column].cast(pa.int64()), -1
        ).to_numpy()
        return filled

    def _last_epoch(self, partition: int) -> int | None:
        epochs = pc.max(
            self.tables["log"].filter(pc.field("partition") == partition)["leader_epoch"]
        ).as_py()
        return None if epochs is None else int(epochs)

    def _with(self, name: str, table: pa.Table) -> LedgerCopy:
        return replace(self, tables={**self.tables, name: table.cast(TABLES[name])})


def _mask(table: pa.Table, rows: Rows) -> npt.NDArray[np.bool_]:
    mask = np.zeros(table.num_rows, dtype=np.bool_)
    mask[rows] = True
    return mask


def _replaced(
    table: pa.Table, column: str, rows: Rows, value: int | str | bool | Sequence[int] | None
) -> pa.ChunkedArray:
    """Return a column with other values in some rows; texts are taken out of their dictionary for it."""
    held = table[column]
    plain = held.type.value_type if pa.types.is_dictionary(held.type) else held.type
    each = value if isinstance(value, (list, np.ndarray)) else [value] * len(rows)
    changed = pc.replace_with_mask(
        held.cast(plain).combine_chunks(), pa.array(_mask(table, rows)), pa.array(each, plain)
    )
    return pa.chunked_array([changed]).cast(held.type)
