"""The results as files: one per table, sorted, and the same bytes for the same values.

Nothing in them depends on when or where they were written. `manifest.json` has their digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from experiments.ledger.digests import digest_file
from experiments.ledger.manifest import MANIFEST, ResultsManifest
from experiments.ledger.result_tables import RESULTS
from experiments.ledger.seal import sync

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


def write_results(
    files: pafs.FileSystem,
    sweep: str,
    tables: Mapping[str, pa.Table],
    trials: Mapping[str, str] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> None:
    """Write `results/<name>.parquet` and the manifest.

    All files are written and synced to disk under partial names first, so that earlier results stay
    until all new ones are complete. Then the manifest gets its name, and after it the tables. Equal
    tables give equal bytes.

    Args:
        files: the file system of the sweep.
        sweep: its folder.
        tables: the results by name.
        trials: of the manifest.
        left_out: of the manifest.

    Raises:
        ValueError: a table does not match its schema.
        OSError: the file system failed.
    """
    folder = f"{sweep}/results"
    files.create_dir(folder)
    digests = {}
    for name, schema in RESULTS.items():
        partial = f"{folder}/.{name}.partial"
        pq.write_table(
            _sorted(tables[name].select(schema.names).cast(schema)),
            partial,
            filesystem=files,
            compression="zstd",
            write_page_checksum=True,
        )
        digests[f"{name}.parquet"] = digest_file(files, partial)
    manifest = ResultsManifest(
        tables=dict(sorted(digests.items())),
        # Tasks of a cluster end in any order.
        trials=dict(sorted((trials or {}).items())),
        left_out=dict(sorted((left_out or {}).items())),
    )
    with files.open_output_stream(f"{folder}/.manifest.partial") as stream:
        stream.write(manifest.to_json().encode())
    names = {"manifest": MANIFEST} | {name: f"{name}.parquet" for name in RESULTS}
    _sync(files, *(f"{folder}/.{name}.partial" for name in names))
    for name, final in names.items():
        files.move(f"{folder}/.{name}.partial", f"{folder}/{final}")
    _sync(files, folder, sweep)


def _sync(files: pafs.FileSystem, *paths: str) -> None:
    """Sync to disk; an object store does it before it confirms a write."""
    if isinstance(files, pafs.LocalFileSystem):
        for path in paths:
            sync(Path(path))


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by(
        [(name, "ascending") for name in _SORT_COLUMNS if name in table.column_names]
    ).combine_chunks()
