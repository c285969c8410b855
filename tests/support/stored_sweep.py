"""The stored quick sweep: what the README's table and pictures are made from.

The file holds what the report of one real sweep shows, not its ledgers: JSON, with the rows of
tables as columns, which takes a third of the space. It is made by `make pictures SWEEP=newest`
after `make bench`.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.site.build import NAVIGATION
from ackbench.experiments.pages.site.pages import breaks_page
from ackbench.experiments.results.history.summarize import _cells
from ackbench.experiments.results.history.summary import SweepSummary

_ROOT: Final = Path(__file__).parents[2]
STORED: Final = _ROOT / "tests" / "pictures" / "quick-sweep.json.xz"
PAGE_FINGERPRINT: Final = _ROOT / "docs" / "images" / "report.fingerprint"
"""The fingerprint of the page that the pictures show."""
SITE_FINGERPRINT: Final = _ROOT / "docs" / "images" / "site.fingerprint"
"""The fingerprint of the page of the site that its picture shows."""
_DRAWING: Final = re.compile(r"<svg.*?</svg>", re.DOTALL)
_COORDINATES: Final = re.compile(r"-?\d+(?:\.\d+)?")
_ROUNDING_PT: Final = 0.1
_DATA: Final = TypeAdapter(ReportData)
_TABLES: Final = ("timeline", "histogram", "outages", "attribution")


def store_sweep(data: ReportData, path: Path = STORED) -> None:
    """Write what a report shows, without the folders of this machine."""
    histogram = {trial: list(rows) for trial, rows in data.histogram.items()}
    stored = replace(data, folder="", program="ackbench", histogram=histogram)
    document = json.loads(_DATA.dump_json(stored))
    for table in _TABLES:
        document[table] = {trial: _columns(rows) for trial, rows in document[table].items()}
    for judgement in (one for cell in document["results"]["cells"] for one in cell["judgements"]):
        del judgement["reasons"]  # made from the evidence
    path.write_bytes(lzma.compress(json.dumps(document, separators=(",", ":")).encode()))


def stored_sweep(path: Path = STORED) -> ReportData:
    """Return what the report of the stored sweep shows."""
    document = json.loads(lzma.decompress(path.read_bytes()))
    for table in _TABLES:
        document[table] = {trial: _rows(columns) for trial, columns in document[table].items()}
    document["results"]["plan"] = document["plan"]
    return _DATA.validate_python(document)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def site_page(data: ReportData) -> str:
    """Return the page "what breaks what" of a site that has one sweep only."""
    results, sweep_id = data.results, data.results.sweep_id
    kafka_versions = sorted({spec.cluster.kafka_version for spec in data.plan.trials})
    summary = SweepSummary(
        stamp="stored",
        sweep_id=sweep_id,
        experiment=results.experiment,
        question=results.question,
        planned_s=0.0,
        kafka_versions=tuple(kafka_versions),
        **_cells(data.plan, results, data.manifests),
    )
    return breaks_page([summary], {sweep_id: f"sweeps/{sweep_id}.html"}, NAVIGATION)


def fingerprint_of(page: str) -> str:
    """Return what identifies a page: a digest, and the coordinates of each drawing: sum and number.

    Coordinates are not part of the digest: their last digit depends on the processor, whose matrix
    multiplication decides how a number halfway between two digits is rounded.
    """
    drawings = _DRAWING.findall(page)
    numbers = [[float(one) for one in _COORDINATES.findall(drawing)] for drawing in drawings]
    digest = sha256(_DRAWING.sub(lambda one: _COORDINATES.sub("#", one[0]), page).encode())
    sums = [f"{sum(one):.1f} {len(one)}" for one in numbers]
    return "\n".join([digest.hexdigest(), *sums]) + "\n"


def is_page_of(page: str, fingerprint: str) -> bool:
    """Return whether a page has a fingerprint, its drawings within a tenth of a point."""
    found, expected = fingerprint_of(page).splitlines(), fingerprint.splitlines()
    if found[0] != expected[0] or len(found) != len(expected):
        return False
    pairs = [
        (*map(float, one.split()), *map(float, other.split()))
        for one, other in zip(found[1:], expected[1:], strict=True)
    ]
    return all(
        count == others and abs(total - other) <= _ROUNDING_PT * count
        for total, count, other, others in pairs
    )
