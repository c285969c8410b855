"""How often trends and comparisons of hosts are wrong: `python tests/perf/false_alarms.py`.

200 planted histories without a change must show one in at most the stated share of cases; a shift
of 8 % has to be found, at its night. Of 400 planted sweeps of two equal hosts, at most the stated
share may name one. docs/statistics.md has the figures that this prints.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from support.builders.hosts import SCATTER, hosted_sweep
from support.builders.nights import CELLS, history, shifted

from ackbench.experiments.results.history.trend import FALSE_ALARMS, TrendMeasure, trend_of
from ackbench.experiments.results.hosts import SIGNIFICANCE, compare_hosts
from ackbench.experiments.sweep.cell_names import cell_label

HISTORIES: Final = 200
SHIFTED: Final = 100
"""Histories with a shift."""
NIGHTS: Final = 60
SHIFTED_AT: Final = 40
SHIFT: Final = 1.08
SWEEPS: Final = 400
"""Of two equal hosts."""
SLOWER: Final = (1.1, 1.2, 1.3)
SLOWER_SWEEPS: Final = 100
"""With one host slower, for each of `SLOWER`."""


def false_alarms(noise: float) -> tuple[int, float]:
    """Return how many of the histories without a change show one, and the seconds per trend."""
    begin_s, alarms = time.process_time(), 0
    for seed in range(HISTORIES):
        alarms += bool(trend_of(history(NIGHTS, seed=seed, noise=noise)).changes)
    return alarms, (time.process_time() - begin_s) / HISTORIES


def distances(noise: float, after: int) -> Counter[int | None]:
    """Return how many nights beside the planted one the shift of ack p99 was found.

    Args:
        noise: the relative standard deviation of a trial's figures.
        after: nights with the new level.
    """
    found: Counter[int | None] = Counter()
    for seed in range(SHIFTED):
        trend = trend_of(
            history(SHIFTED_AT + after, seed=seed, noise=noise, level=shifted(SHIFTED_AT, SHIFT))
        )
        places = [
            trend.sweeps.index(change.sweep_id) - SHIFTED_AT
            for change in trend.changes
            if change.measure is TrendMeasure.ACK_P99 and change.cell == cell_label(CELLS[0])
        ]
        found[min(places, key=abs, default=None)] += 1
    return found


def named_hosts(sweeps: int, slower: float) -> int:
    """Return in how many sweeps a difference between two hosts is found.

    Args:
        sweeps: how many to plant, of five cells with six repeats.
        slower: how many times the other's are the latencies of one host.
    """
    found = (compare_hosts(hosted_sweep(seed, slower)) for seed in range(sweeps))
    return sum(bool(one and one.differences) for one in found)


def main() -> int:
    """Print the rates; return 1 if there are twice as many false alarms as stated."""
    console, wrong = Console(width=160, highlight=False), False
    for noise in (0.03, 0.10):
        alarms, seconds = false_alarms(noise)
        wrong |= alarms > 2 * FALSE_ALARMS * HISTORIES
        console.print(
            f"noise {noise:.0%}: {alarms} of {HISTORIES} histories of {NIGHTS} nights without a "
            f"change show one (stated: at most {FALSE_ALARMS:.0%}); {seconds:.2f} s of CPU each"
        )
    for after in (5, 10, 20):
        found = distances(0.03, after)
        near = sum(found[place] for place in (-1, 0, 1))
        console.print(
            f"noise 3%: shift of {SHIFT - 1:.0%}, {after} nights later: found in "
            f"{SHIFTED - found[None]} of {SHIFTED}, at its night in {found[0]}, "
            f"within one night in {near}"
        )
    named = named_hosts(SWEEPS, 1.0)
    wrong |= named > 2 * SIGNIFICANCE * SWEEPS
    console.print(
        f"hosts, scatter {SCATTER:.0%}: {named} of {SWEEPS} sweeps of two equal hosts name one "
        f"(stated: at most {SIGNIFICANCE:.0%})"
    )
    for slower in SLOWER:
        console.print(
            f"hosts, scatter {SCATTER:.0%}: one that is {slower - 1:.0%} slower is named in "
            f"{named_hosts(SLOWER_SWEEPS, slower)} of {SLOWER_SWEEPS}"
        )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
