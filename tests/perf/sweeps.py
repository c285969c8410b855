"""The cost of many stored sweeps: `python tests/perf/sweeps.py [COUNT [FOLDER]]`.

A measured sweep is copied many times (`support.builders.many_sweeps`), each copy with figures of
its own: one that is made for this, or that in FOLDER, on the same file system as the temporary
folder. Each command is a process of its own. The reference is a process that parses the plan of
each sweep, and does nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND
from rich.console import Console
from rich.table import Table
from support.builders.many_sweeps import add_sweeps
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.ledger.digests import digest_of
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST, ResultsManifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

COUNT: Final = 2_000
_TRIALS: Final = 20
_REFERENCE: Final = (
    "import json, pathlib, sys\n"
    "for path in pathlib.Path(sys.argv[1]).glob('*/plan.json'): json.loads(path.read_bytes())"
)
_MEASURE: Final = (
    "import json, os, sys\n"
    "null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)\n"
    "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[null])\n"
    "_, status, usage = os.wait4(pid, 0)\n"
    "print(json.dumps([status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))"
)
"""A process begins with the peak of the one that starts it: this one is small."""
_PRUNE: Final = ("prune", "--keep", "100")


@dataclass(frozen=True)
class SweepsCost:
    """The cost of a command."""

    name: str
    cpu_s: float
    """User and system time of its process."""
    peak_bytes: int
    """The largest part of the memory that its process had at a time."""


def sweeps_costs(count: int = COUNT, folder: Path | None = None) -> tuple[SweepsCost, ...]:
    """Return what the commands about all sweeps take; the first is the reference.

    Args:
        count: of the sweeps in the home.
        folder: of the sweep that is copied; `None`: one is made.
    """
    with tempfile.TemporaryDirectory() as place:
        home = Home(Path(place) / "home")
        home.ensure_writable()
        source = SweepFolder(folder) if folder else _planted(Home(Path(place) / "source"))
        add_sweeps(home, source, count)
        name = source.plan().experiment
        return (
            _measured("parse plans", [sys.executable, "-c", _REFERENCE, str(home.sweeps)], home),
            _measured("sweeps, first", [COMMAND, "sweeps"], home),
            _measured("sweeps", [COMMAND, "sweeps"], home),
            _measured(f"trend {name}", [COMMAND, "trend", name], home),
            _measured("prune, first", [COMMAND, *_PRUNE], home),
            _measured("prune", [COMMAND, *_PRUNE], home),
        )


def sweeps_table(costs: Sequence[SweepsCost], count: int = COUNT) -> Table:
    """Return the table of the commands, each compared to the reference."""
    reference = costs[0]
    table = Table(
        "command",
        f"it / {reference.name}",
        "CPU s",
        "CPU s per sweep",
        "peak MB",
        title=f"A home of {count:,} sweeps",
    )
    for cost in costs:
        table.add_row(
            cost.name,
            f"{cost.cpu_s / reference.cpu_s:.2f}",
            f"{cost.cpu_s:.2f}",
            f"{cost.cpu_s / count:.4f}",
            f"{cost.peak_bytes / 2**20:,.0f}",
        )
    return table


def _planted(home: Home) -> SweepFolder:
    """Return a measured sweep with two trials per cell."""
    specs = [
        a_spec(trial_id=f"{number:03d}-aaaaaa", repeat=number % 2, partitions=1 + number // 2)
        for number in range(_TRIALS)
    ]
    sweep = measured_sweep_folder(home, "planted", specs, lambda _: {})
    tables = {path.name: digest_of(path.read_bytes()) for path in sweep.results.glob("*.parquet")}
    (sweep.results / RESULTS_MANIFEST).write_text(ResultsManifest(tables=tables).to_json())
    return sweep


def _measured(name: str, command: Sequence[str | Path], home: Home) -> SweepsCost:
    environment = {**os.environ, "ACKBENCH_HOME": str(home.root)}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *command],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    status, cpu_s, peak_kb = json.loads(done.stdout)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return SweepsCost(name, cpu_s, peak_kb * 1024)


def main() -> int:
    """Measure and print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    Console().print(sweeps_table(sweeps_costs(count, folder), count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
