"""The stored quick sweep: what the README's table and pictures are made from.

The file holds what the report of one real sweep shows, not its ledgers: JSON, with the rows of
tables as columns, which takes a third of the space. It is made by `make pictures SWEEP=newest`
after `make bench`.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from experiments.report.data import ReportData
from experiments.report.page import render_page

_ROOT: Final = Path(__file__).parents[2]
STORED: Final = _ROOT / "tests" / "pictures" / "quick-sweep.json.xz"
PAGE_DIGEST: Final = _ROOT / "docs" / "images" / "report.html.sha256"
"""The digest of the page that the pictures show."""
_DATA: Final = TypeAdapter(ReportData)
_TABLES: Final = ("timeline", "histogram", "outages", "attribution")


def store_sweep(data: ReportData, path: Path = STORED) -> None:
    """Write what a report shows, without the folders of this machine."""
    document = json.loads(_DATA.dump_json(replace(data, folder="", program="ackbench")))
    for table in _TABLES:
        document[table] = {trial: _columns(rows) for trial, rows in document[table].items()}
    path.write_bytes(lzma.compress(json.dumps(document, separators=(",", ":")).encode()))


def stored_sweep(path: Path = STORED) -> ReportData:
    """Return what the report of the stored sweep shows."""
    document = json.loads(lzma.decompress(path.read_bytes()))
    for table in _TABLES:
        document[table] = {trial: _rows(columns) for trial, columns in document[table].items()}
    return _DATA.validate_python(document)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def page_digest(data: ReportData) -> str:
    """Return the SHA-256 of the page of a sweep, in hexadecimal digits."""
    return sha256(render_page(data).encode()).hexdigest()
