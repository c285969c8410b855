"""`make tables`: the tables of docs/what-breaks-what.md, from the newest sweep of each experiment.

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`, where NAME is the experiment. Those of
experiments without a complete sweep in this home stay as they are.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND
from rich.console import Console

from experiments.errors import UnknownName
from experiments.sweep.lookup import find_sweep
from infra.machine.home import Home

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "what-breaks-what.md"
_TABLE: Final = re.compile(
    r"(?P<head><!-- (?P<name>faults-[a-z-]+) -->\n).*?(?P<end>\n<!-- /(?P=name) -->)", re.DOTALL
)
_LEGEND: Final = ("- guaranteed: ", "- not guaranteed: ", "- loss: ", "- percentages behind ")
"""Lines that the head of the document has once for all tables."""
COLUMNS: Final = 100


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
        return match["head"] + "\n".join(_lines(sweep.root.name)) + match["end"]

    DOCUMENT.write_text(_TABLE.sub(table, DOCUMENT.read_text()))
    Console().print(f"{len(written)} tables: {', '.join(written)}")
    return 0


def _lines(sweep: str) -> Iterator[str]:
    shown = subprocess.run(
        [str(COMMAND), "matrix", sweep, "--markdown"], check=True, capture_output=True, text=True
    )
    for line in shown.stdout.splitlines():
        if line.startswith("- ") and not line.startswith(_LEGEND):
            yield from textwrap.wrap(
                line,
                COLUMNS,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        elif not line.startswith("- "):
            yield line


if __name__ == "__main__":
    sys.exit(main())
