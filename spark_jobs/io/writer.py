"""The results as files: one per table, sorted, and the same bytes for the same values.

Nothing in them depends on when or where they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from experiments.ledger.result_tables import RESULTS

_SORT_COLUMNS: Final = (
    "trial_id",
    "cell",
    "measure",
    "phase",
    "outcome",
    "fate",
    "partition",
    "side",
    "group",
    "consumer",
    "generation",
    "from_ns",
    "field",
    "replay",
    "node",
    "name",
    "slot",
    "from_us",
    "kind",
    "producer",
    "seq",
    "offset",
    "at_ns",
    "era",
    "within",
    "observer",
    "of",
)


def write_results(files: pafs.FileSystem, sweep: str, tables: Mapping[str, pa.Table]) -> None:
    """Write `results/<name>.parquet`.

    All files are written under partial names first, so that earlier results stay until all new ones
    are complete. Equal tables give equal bytes.

    Raises:
        ValueError: a table does not match its schema.
        OSError: the file system failed.
    """
    folder = f"{sweep}/results"
    files.create_dir(folder)
    for name, schema in RESULTS.items():
        pq.write_table(
            _sorted(tables[name].select(schema.names).cast(schema)),
            f"{folder}/.{name}.partial",
            filesystem=files,
            compression="zstd",
        )
    for name in RESULTS:
        files.move(f"{folder}/.{name}.partial", f"{folder}/{name}.parquet")


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by(
        [(name, "ascending") for name in _SORT_COLUMNS if name in table.column_names]
    ).combine_chunks()
