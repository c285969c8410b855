"""`make hostile`: bad input, homes that cannot be used, and experiments with random edits.

    python tests/hostile [KIND ...] [--experiments N] [--seed N]

Each kind is a module with a function `run`, which returns `Figures`. A new kind is a new module and
a line in `KINDS`. No cluster, service or Spark job is started.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile import fuzzing, homes, inputs
from hostile.figures import Figures, figures_table

KINDS: Final[dict[str, Callable[[argparse.Namespace], Figures]]] = {
    "inputs": lambda _: inputs.run(),
    "processes": lambda options: inputs.run_as_processes(options.processes),
    "homes": lambda _: homes.run(),
    "experiments": lambda options: fuzzing.run(options.experiments, options.seed),
}
"""What is run, in this order, by the name on the command line."""


def main() -> int:
    """Run the kinds, print their failures and figures; return 0 if every law held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--experiments", type=int, default=20_000, help="edited experiments")
    parser.add_argument(
        "--processes", type=int, default=20, help="inputs in processes of their own"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"unknown kind {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")
    console = Console(width=200, highlight=False, markup=False)
    figures = []
    for kind in options.kinds or KINDS:
        found = KINDS[kind](options)
        for failure in found.failures:
            console.print(f"{kind}: {failure}", style="bold red", soft_wrap=True)
        figures.append(found)
    console.print(figures_table(tuple(figures)))
    return 1 if any(found.failures for found in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
