"""The table of the README: six cells of the quick sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ackbench.experiments.results.models import SweepResults

HEAD: Final = (
    "| fault | acks | idempotence | RF | lost | duplicates | ack p99 | outage | available |",
    "|---|---|---|---|---|---|---|---|---|",
)
ROWS: Final = (
    ("leader-crash-behind", "1", False, 3),
    ("leader-crash-behind", "all", False, 3),
    ("leader-crash-behind", "all", True, 3),
    ("leader-crash-behind", "all", True, 1),
    ("leader-pause", "all", False, 3),
    ("leader-pause", "all", True, 3),
)
"""Fault, acks, idempotence and replication factor of the rows; one partition."""
FAULT_NAMES: Final = {"leader-crash-behind": "leader crash", "leader-pause": "leader pause"}
Cell = Mapping[str, Any]
"""A cell of `ackbench show --json`."""


def readme_table(results: SweepResults) -> str:
    """Return the table as Markdown."""
    cells = results.model_dump(mode="json")["cells"]
    return "\n".join((*HEAD, *_rows(cells)))


def _rows(cells: list[Cell]) -> Iterator[str]:
    for fault, acks, idempotence, replication_factor in ROWS:
        axes = {
            "fault": fault,
            "acks": acks,
            "enable.idempotence": idempotence,
            "replication.factor": replication_factor,
            "partitions": 1,
        }
        (cell,) = (one for one in cells if _matches(one["cell"], axes))
        low, high = cell["lost"]
        entries = (
            FAULT_NAMES[fault],
            acks,
            "on" if idempotence else "off",
            replication_factor,
            _lost(low, high, cell["attempted"]),
            f"**{cell['duplicates']:,}**" if cell["duplicates"] else "0",
            f"{cell['latency_ms']['ack']['p99']['median'] / 1000:.1f} s",
            f"{cell['unavailable_ms']['median'] / 1000:.1f} s",
            _available(cell),
        )
        yield f"| {' | '.join(map(str, entries))} |"


def _available(cell: Cell) -> str:
    (seen,) = (one["seen"] for one in cell["judgements"] if one["guarantee"] == "availability")
    return {True: "no", False: "**yes**", None: "not measured"}[seen]


def _matches(cell: Cell, axes: Cell) -> bool:
    return all(str(cell[name]) == str(value) for name, value in axes.items())


def _lost(low: int, high: int, attempted: int) -> str:
    if not high:
        return "0"
    lost = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"**{lost} of {attempted:,}**"
