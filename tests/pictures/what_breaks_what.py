"""`make tables`: the tables of docs/what-breaks-what.md, from the newest sweep of each experiment.

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`, where NAME is the experiment. Those of
experiments without a complete sweep in this home stay as they are. Experiments of faults have the
matrix of faults and settings; all others have the table of `ackbench show`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND
from rich.console import Console

from ackbench.experiments.errors import UnknownName
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.infra.machine.home import Home

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "what-breaks-what.md"
_TABLE: Final = re.compile(
    r"(?P<head><!-- (?P<name>[a-z-]+) -->\n).*?\n?(?P<end><!-- /(?P=name) -->)", re.DOTALL
)
_LEGEND: Final = (
    "guaranteed: ",
    "not guaranteed: ",
    "loss: ",
    "percentages behind ",
    "not covered by digests: ",
)
"""Lines that the head of the document has once for all tables."""
_BELOW_TABLES: Final = ("in all cells: ", "guaranteed: ")
_LINKS: Final = ("report: ", "MLflow: ", "folder: ")
"""Lines that hold on the machine of the sweep only."""
COLUMNS: Final = 100
SHOW_COLUMNS: Final = 140
"""Cells of versions and clients have up to six axes of their own."""


def main() -> int:
    """Write the tables."""
    written: list[str] = []

    def table(match: re.Match[str]) -> str:
        try:
            sweep = find_sweep(Home.from_environment(), match["name"])
        except UnknownName:
            return match[0]
        if sweep.pending():
            return match[0]
        written.append(sweep.root.name)
        lines = _matrix if match["name"].startswith("faults-") else _shown
        return match["head"] + "\n".join([*lines(sweep.root.name), match["end"]])

    DOCUMENT.write_text(_TABLE.sub(table, DOCUMENT.read_text()))
    Console().print(f"{len(written)} tables: {', '.join(written)}")
    return 0


def _matrix(sweep: str) -> Iterator[str]:
    for line in _output("matrix", sweep, "--markdown").splitlines():
        remark = line.removeprefix("- ")
        if remark == line:
            yield line
        elif not remark.startswith(_LEGEND):
            yield from _wrapped(line, COLUMNS)


def _shown(sweep: str) -> Iterator[str]:
    """Yield the tables and the remarks below them: their rows have what the answer sums up."""
    lines = [line.rstrip() for line in _output("show", sweep).splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("fault: "))
    legend = next(number for number, line in enumerate(lines) if line.startswith(_BELOW_TABLES))
    yield "```"
    yield from lines[first:legend]
    for line in takewhile(bool, lines[legend:]):
        if not line.startswith((*_LEGEND, *_LINKS)):
            yield from _wrapped(line, SHOW_COLUMNS)
    yield "```"


def _wrapped(line: str, columns: int) -> list[str]:
    return textwrap.wrap(
        line,
        columns,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _output(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": str(SHOW_COLUMNS)}
    command = [str(COMMAND), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
