"""A sealed trial's ledger in memory, which can be changed and sealed again under another name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackbench.experiments.ledger.schema import TABLES
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.sweep.documents import read_trial_manifest

Rows = npt.NDArray[np.int64]
"""Row numbers of one table."""
_WITHOUT_OPTIONAL_TABLES: Final = {
    "record_batches": False,
    "record_serving_brokers": False,
    "replays": (),
    "output_end_offsets": None,
}
"""The fields of a record that has none of the tables of `optional_tables`."""


@dataclass(frozen=True)
class LedgerCopy:
    """The record and the tables of a trial."""

    manifest: TrialManifest
    tables: Mapping[str, pa.Table]

    @classmethod
    def read(cls, trial: Path) -> LedgerCopy:
        """Read the ledger of a sealed trial, without the tables that not every ledger has.

        Nothing is planted into these, and they would contradict what is planted into the others.

        Raises:
            pydantic.ValidationError, OSError, pyarrow.ArrowInvalid: it is incomplete, or of
                another version.
        """
        return cls(
            read_trial_manifest(trial).model_copy(update=_WITHOUT_OPTIONAL_TABLES),
            {
                name: pq.read_table(trial / f"{name}.parquet").cast(schema)
                for name, schema in TABLES.items()
            },
        )

    def write(self, sweep: Path, trial_id: str) -> Path:
        """Seal the copy as a trial of a sweep, and return the trial's folder."""
        folder = sweep / "trials" / trial_id
        partial = folder.with_name(f"{trial_id}.partial")
        partial.mkdir(parents=True)
        seal(
            partial,
            folder,
            self.manifest.model_copy(update={"trial_id": trial_id, "sweep_id": sweep.name}),
            self.tables,
        )
        return folder

    def without(self, name: str, rows: Rows) -> LedgerCopy:
        """Return the copy without some rows of a table."""
        return self._with(name, self.tables[name].filter(pa.array(~_mask(self.tables[name], rows))))

    def changed(self, name: str, rows: Rows, values: Mapping[str, Any]) -> LedgerCopy:
        """Return the copy with other values in some rows of a table.

        Args:
            name: the table.
            rows: the rows to change, ascending.
            values: by column, one value for all rows (`None` is null) or a list of one per row.
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
        """Return the copy with rows appended to a table."""
        return self._with(name, pa.concat_tables([self.tables[name], rows.cast(TABLES[name])]))

    def logged(self, ids: pa.Table, partition: int) -> LedgerCopy:
        """Return the copy with records appended to a partition's log; its end offset grows.

        Args:
            ids: producer and seq of each record; null for a record of another origin.
            partition: the partition to append to.
        """
        end, count = self.manifest.end_offsets[partition], ids.num_rows
        columns = {
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(end, end + count), pa.int64()),
            "producer": ids["producer"],
            "seq": ids["seq"],
            "timestamp_ms": pa.array(
                [self.manifest.phases.settled_ns // 1_000_000] * count, pa.int64()
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
            manifest=self.manifest.model_copy(
                update={"end_offsets": {**self.manifest.end_offsets, **ends}}
            ),
        )

    def values(self, name: str, column: str) -> npt.NDArray[np.int64]:
        """Return a column of integers; null is -1."""
        values: npt.NDArray[np.int64] = pc.fill_null(
            self.tables[name][column].cast(pa.int64()), -1
        ).to_numpy()
        return values

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
    """Return a column with other values in some rows.

    Dictionary columns are decoded for it, and encoded again.
    """
    original = table[column]
    plain = original.type.value_type if pa.types.is_dictionary(original.type) else original.type
    each = value if isinstance(value, (list, np.ndarray)) else [value] * len(rows)
    changed = pc.replace_with_mask(
        original.cast(plain).combine_chunks(), pa.array(_mask(table, rows)), pa.array(each, plain)
    )
    return pa.chunked_array([changed]).cast(original.type)
