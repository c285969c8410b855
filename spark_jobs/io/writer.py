"""The results as files: single ones, sorted, with nothing in them that tells when or where they were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from experiments.ledger.result_tables import RESULTS

_ORDER: Final = (
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
    """Write `results/<name>.parquet`, all under partial names first, so that what was there stays until all is new.

    Equal tables give equal bytes.

    Raises:
        ValueError: a table does not fit its schema.
        OSError: the file system refused.
    """
    folder = f"{sweep}/results"
    files.create_dir(folder)
    for name, schema in RESULTS.items():
        pq.write_table(
            _in_order(tables[name].select(schema.names).cast(schema)),
            f"{folder}/.{name}.partial",
            filesystem=files,
            compression="zstd",
        )
    for name in RESULTS:
        files.move(f"{folder}/.{name}.partial", f"{folder}/{name}.parquet")


def _in_order(table: pa.Table) -> pa.Table:
    return table.sort_by(
        [(name, "ascending") for name in _ORDER if name in table.column_names]
    ).combine_chunks()
