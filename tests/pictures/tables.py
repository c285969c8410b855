"""`make tables`: the tables of some documents, from the newest sweep of each experiment.

They are those of `DOCUMENTS`. A table stands between `<!-- NAME -->` and `<!-- /NAME -->`, where
NAME is the experiment. Those of experiments without a measured sweep in this home stay as they are.
Experiments of faults have the matrix of faults and settings; all others have the table of `ackbench
show`, with the remarks that their document has, and those of known bugs the comparison of releases.
`<!-- settings of NAME -->` has the settings that each client of the sweep reported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND
from rich.console import Console

from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import wrap_line
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.infra.machine.home import Home

_DOCS: Final = Path(__file__).parents[2] / "docs"
_TABLE: Final = re.compile(
    r"(?P<head><!-- (?P<what>settings of )?(?P<name>[a-z0-9-]+) -->\n).*?\n?"
    r"(?P<end><!-- /(?P=what)?(?P=name) -->)",
    re.DOTALL,
)
_SETTINGS: Final = (
    "enable.idempotence",
    "retries",
    "request.timeout.ms",
    "socket.timeout.ms",
    "delivery.timeout.ms",
    "max.in.flight.requests.per.connection",
    "linger.ms",
    "batch.size",
)
"""Of a producer, in the order of the table."""
_LEGEND: Final = (
    "guaranteed: ",
    "not guaranteed: ",
    "loss: ",
    "percentages behind ",
    "not covered by digests: ",
)
"""Lines that the head of the document has once for all tables."""
_CONTROLS: Final = ("~ ", "VIOLATED ", "HUNG", "control (no fault): ", "positive control ")
"""Remarks where the settings are in the experiment, and what is late is marked."""
DOCUMENTS: Final[Mapping[Path, tuple[str, ...]]] = {
    _DOCS / "what-breaks-what.md": ("",),
    _DOCS / "what-each-client-loses.md": ("",),
    _DOCS / "what-groups-repeat.md": (*_CONTROLS, "failed: ", "refused: "),
    _DOCS / "bugs.md": _CONTROLS,
}
"""And how the remarks begin that stand below their tables."""
_COMPARES: Final = "; "
"""Between what one release did and what the other one did, in a sentence of the answer."""
_BELOW_TABLES: Final = ("in all cells: ", "guaranteed: ")
_OF_THE_MACHINE: Final = ("warning: ", "overloaded: ")
"""What the sign ~ in the tables says, trial by trial."""
_LINKS: Final = ("report: ", "MLflow: ", "folder: ")
"""Lines that hold on the machine of the sweep only."""
COLUMNS: Final = 100
SHOW_COLUMNS: Final = 140
"""Cells of versions and clients have up to six axes of their own."""


def main() -> int:
    """Write the tables."""
    written: list[str] = []

    def table(remarks: tuple[str, ...], match: re.Match[str]) -> str:
        try:
            sweep = find_sweep(Home.from_environment(), match["name"])
        except UnknownName:
            return match[0]
        if not sweep.results.is_dir():
            return match[0]
        if match["what"]:
            return match["head"] + "\n".join([*_settings(sweep), match["end"]])
        written.append(sweep.root.name)
        if match["name"].startswith("faults-"):
            lines = _matrix(sweep.root.name)
        else:
            is_bug = load_experiment(match["name"]).bug is not None
            lines = _shown(sweep.root.name, remarks, compares=is_bug)
        return match["head"] + "\n".join([*lines, match["end"]])

    for document, remarks in DOCUMENTS.items():
        document.write_text(_TABLE.sub(partial(table, remarks), document.read_text()))
    Console().print(f"{len(written)} tables: {', '.join(written)}")
    return 0


def _settings(sweep: SweepFolder) -> Iterator[str]:
    """Yield a table of the settings that the clients reported, each client's once."""
    manifests = sweep.complete_trials()
    rows = {
        (manifest.client, tuple(manifest.producer_settings.get(one, "") for one in _SETTINGS))
        for manifest in manifests
    }
    yield f"| client | {' | '.join(f'`{name}`' for name in _SETTINGS)} |"
    yield f"|---{'|---' * len(_SETTINGS)}|"
    for client, values in sorted(rows):
        name = client if " " in client else f"librdkafka {client}"
        yield f"| {name} | {' | '.join(values)} |"


def _matrix(sweep: str) -> Iterator[str]:
    for line in _output("matrix", sweep, "--markdown").splitlines():
        remark = line.removeprefix("- ")
        if remark == line:
            yield line
        elif not remark.startswith(_LEGEND):
            yield from wrap_line(line, COLUMNS, "  ")


def _shown(sweep: str, remarks: tuple[str, ...], *, compares: bool) -> Iterator[str]:
    """Yield the tables, the remarks below them that begin so, and what compares releases, if asked.

    The rows have what the rest of the answer sums up.
    """
    lines = [line.rstrip() for line in _output("show", "--all", sweep).splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("fault: "))
    legend = next(number for number, line in enumerate(lines) if line.startswith(_BELOW_TABLES))
    below = [*takewhile(bool, lines[legend:])]
    left_out = (*_LEGEND, *_LINKS, *_OF_THE_MACHINE)
    yield "```"
    yield from lines[first:legend]
    for line in below:
        if line.startswith(remarks) and not line.startswith(left_out):
            yield from wrap_line(line, SHOW_COLUMNS, "  ")
    if compares:
        answer = lines[legend + len(below) + 1 :]
        for line in (one for one in answer if _COMPARES in one and not one.startswith(_LINKS)):
            yield from wrap_line(line, SHOW_COLUMNS, "  ")
    yield "```"


def _output(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": str(SHOW_COLUMNS)}
    command = [str(COMMAND), *arguments]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if ran.returncode:
        raise SystemExit(ran.stderr.strip())
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
