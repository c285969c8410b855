"""`make hostile`: bad input, damaged files, kills, full disks, stepped clocks, and many nights.

    python tests/hostile [KIND ...] [--experiments N] [--kills N] [--nights N] [--seed N]

Each kind is a module with a function `run`, which returns `Figures`. A new kind is a new module and
a line in `KINDS`. The first five start no cluster, service or Spark job; the others run sweeps.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile import (
    airflow_users,
    clock,
    disks,
    flips,
    fuzzing,
    hogs,
    homes,
    inputs,
    kills,
    large,
    moves,
    nights,
    parsers,
    readers,
    relays,
    schedulers,
    stores,
    trackers,
    ups,
    users,
)
from hostile.figures import Figures, figures_table

Say = Callable[[str], None]
_NIGHTS_HOURS: Final = 3.0
KINDS: Final[dict[str, Callable[[argparse.Namespace, Say], Figures]]] = {
    "inputs": lambda _, __: inputs.run(),
    "processes": lambda options, _: inputs.run_as_processes(options.processes),
    "homes": lambda _, __: homes.run(),
    "experiments": lambda options, _: fuzzing.run(options.experiments, options.seed),
    "parsers": lambda options, say: parsers.run(options.parsers, options.seed, say),
    "flips": lambda options, say: flips.run(options.flips, options.seed, say),
    "disks": lambda options, say: disks.run(options.disks, say),
    "kills": lambda options, say: kills.run(
        options.kills,
        options.seed,
        say,
        skipped=options.skip,
        budget_s=math.inf if options.hours is None else options.hours * 3600.0,
    ),
    "users": lambda options, say: users.run(options.users, say),
    "relays": lambda options, say: relays.run(options.signals, options.seed, say),
    "readers": lambda options, say: readers.run(options.signals, options.seed, say),
    "stores": lambda options, say: stores.run(options.stores, options.seed, say),
    "schedulers": lambda options, say: schedulers.run(options.signals, options.seed, say),
    "runners": lambda options, say: schedulers.run_commands(options.signals, options.seed, say),
    "trackers": lambda options, say: trackers.run(options.signals, options.seed, say),
    "ups": lambda options, say: ups.run(options.ups, say),
    "moves": lambda options, say: moves.run(options.moves, options.seed, say),
    "hogs": lambda options, say: hogs.run(options.hogs, say),
    "large": lambda options, say: large.run(options.trials, say),
    "clock": lambda options, say: clock.run(options.clocks, say),
    "airflow": lambda _, say: airflow_users.run(say),
    "nights": lambda options, say: nights.run(
        options.nights, (options.hours or _NIGHTS_HOURS) * 3600.0, say
    ),
}
"""What is run, in this order, by the name on the command line."""


def _say(console: Console, kind: str, line: str) -> None:
    console.print(f"{kind}: {line}", soft_wrap=True)


def main() -> int:
    """Run the kinds, print their failures and figures; return 0 if every law held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--experiments", type=int, default=20_000, help="edited experiments")
    parser.add_argument(
        "--processes", type=int, default=20, help="inputs in processes of their own"
    )
    parser.add_argument("--parsers", type=int, default=5_000, help="edited inputs of each parser")
    parser.add_argument("--flips", type=int, default=50, help="flipped bits of each file")
    parser.add_argument("--disks", type=int, default=3, help="full disks in each stage")
    parser.add_argument("--kills", type=int, default=200, help="kills, spread over all stages")
    parser.add_argument("--skip", type=int, default=0, help="kills that an earlier run has done")
    parser.add_argument("--users", type=int, default=10, help="kills beside another home's sweep")
    parser.add_argument("--signals", type=int, default=20, help="kills and stops of a process")
    parser.add_argument("--stores", type=int, default=20, help="sweeps published to a full disk")
    parser.add_argument("--ups", type=int, default=2, help="services with others beside them")
    parser.add_argument("--moves", type=int, default=10, help="homes that are moved in a sweep")
    parser.add_argument("--hogs", type=int, default=1, help="sweeps beside busy programs")
    parser.add_argument("--trials", type=int, default=1_000, help="trials of the large sweep")
    parser.add_argument("--clocks", type=int, default=1, help="each step of the clock in a stage")
    parser.add_argument("--nights", type=int, default=300, help="sweeps, one after the other")
    parser.add_argument(
        "--hours",
        type=float,
        help=f"begin no kill and no night later (nights: {_NIGHTS_HOURS:g}, unless given)",
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"unknown kind {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(width=200, highlight=False, markup=False)
    figures = []
    for kind in options.kinds or KINDS:
        found = KINDS[kind](options, partial(_say, console, kind))
        for failure in found.failures:
            console.print(f"{kind}: {failure}", style="bold red", soft_wrap=True)
        figures.append(found)
    console.print(figures_table(tuple(figures)))
    return 1 if any(found.failures for found in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
