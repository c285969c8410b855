"""A sweep of a thousand trials: what its commands take, compared with a quarter of it.

The trials are copies of a planted one and are measured by Spark; nothing else is started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.command import COMMAND, AckbenchCommand, new_bench
from hostile.figures import Figures
from support.builders.many_trials import sweep_of_many_trials
from support.builders.sweep_folders import plant_sweep, realistic_trial

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

REPEATS: Final = 2
MOST_BYTES: Final = 1 << 30
"""The memory that a command may take."""
_PART: Final = 4
_MOST_TIMES: Final = 2 * _PART
"""How much more CPU time than its part the sweep may take; a quadratic command takes 16 times."""
_MEASURE: Final = (
    "import json, os, sys\n"
    "null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)\n"
    "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[null])\n"
    "_, status, usage = os.wait4(pid, 0)\n"
    "print(json.dumps([status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))"
)
"""A process begins with the peak of the one that starts it: this one is small."""


@dataclass(frozen=True)
class CommandCost:
    """The CPU time and memory of a command."""

    status: int
    cpu_s: float
    """User and system time of its process, without those of Spark."""
    peak_bytes: int


def run(trials: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Measure the commands on a sweep and on a quarter of it.

    Args:
        trials: of the sweep.
        say: called with one line per command.
    """
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        source = plant_sweep(Home(Path(folder) / "source"), realistic_trial())
        costs = [
            list(_costs(Path(folder), source, count, say)) for count in (trials // _PART, trials)
        ]
    failures: list[str] = []
    for (name, part), (_, whole) in zip(*costs, strict=True):
        line = (
            f"{name}: {part.cpu_s:.1f} s and {part.peak_bytes / 2**20:,.0f} MiB with "
            f"{trials // _PART:,} trials, {whole.cpu_s:.1f} s and "
            f"{whole.peak_bytes / 2**20:,.0f} MiB with {trials:,}"
        )
        say(line)
        is_kept = whole.cpu_s <= _MOST_TIMES * part.cpu_s and whole.peak_bytes <= MOST_BYTES
        if whole.status or part.status or not is_kept:
            failures.append(f"{line}; exit {part.status} and {whole.status}")
    law = f"no command is quadratic or takes more than {MOST_BYTES >> 20:,} MiB"
    return Figures("large", law, len(costs[1]), tuple(failures), time.monotonic() - start_s)


def _costs(
    folder: Path, source: SweepFolder, count: int, say: Callable[[str], None]
) -> Iterator[tuple[str, CommandCost]]:
    place = folder / f"{count}"
    place.mkdir()
    bench = new_bench(place)
    sweep = sweep_of_many_trials(bench.home, source, count, REPEATS).sweep_id
    for name, arguments in {
        "measure": ("measure", sweep),
        "show": ("show", sweep),
        "show --json": ("show", "--json", sweep),
        "compare": ("compare", sweep, "--by", "linger.ms"),
        "report": ("report", sweep),
    }.items():
        yield name, _cost(bench, *arguments)
    page = bench.home.sweeps / sweep / "report.html"
    if page.is_file():
        say(f"the page of {count:,} trials has {page.stat().st_size:,} bytes")


def _cost(bench: AckbenchCommand, *arguments: str) -> CommandCost:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, COMMAND, *arguments],
        env={**os.environ, **bench.environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    status, cpu_s, peak_kb = json.loads(done.stdout)
    return CommandCost(os.waitstatus_to_exitcode(status), cpu_s, peak_kb * 1024)
