"""`make pictures`: the README's table and the pictures in docs/images, from the newest quick sweep.

Run `make bench` first. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND
from rich.console import Console
from support.browser import browser

from experiments.sweep.lookup import find_sweep
from infra.machine.home import Home

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
IMAGES: Final = ROOT / "docs" / "images"
PICTURES: Final = {"report-desktop.png": (1280, 1560), "report-phone.png": (400, 1400)}
"""Widths and heights in CSS pixels."""
HEAD: Final = (
    "| fault | acks | idempotence | RF | lost | duplicates | ack p99 | longest gap | available |",
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


def main() -> int:
    """Write the pictures and the table."""
    sweep = find_sweep(Home.from_environment(), "quick")
    with browser() as chrome:
        for name, (width, height) in PICTURES.items():
            chrome.open(sweep.root / "report.html", width, height=height)
            chrome.screenshot(IMAGES / name)
    shown = subprocess.run(
        [str(COMMAND), "show", sweep.root.name, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    table = "\n".join((*HEAD, *_rows(json.loads(shown.stdout)["cells"])))
    text, replaced = re.subn(
        r"(?<=<!-- quick -->\n).*?(?=\n<!-- /quick -->)",
        lambda _: table,
        README.read_text(),
        flags=re.DOTALL,
    )
    if replaced != 1:
        raise SystemExit(f"{README} has no table between <!-- quick --> and <!-- /quick -->")
    README.write_text(text)
    Console().print(f"{len(PICTURES)} pictures and {len(ROWS)} rows of {sweep.root.name}")
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
