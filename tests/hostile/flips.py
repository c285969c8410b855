"""Single flipped bits in every file of a real sweep, through what `measure` and `show` check."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from e2e.command import new_bench
from hostile.figures import Figures
from hostile.stages import EXPERIMENT, new_sweep
from support.bit_flips import (
    bit_flips,
    damage_found_by_measure,
    damage_found_by_show,
    unnoticed_flips,
)

LAW = "the damage is noticed and the file is named"


def run(per_file: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Run a sweep of two trials, flip bits of each of its files, and count what is not noticed.

    Args:
        per_file: flips of each file.
        seed: of their places.
        say: called with one line per folder.
    """
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "flipped.yaml"
        experiment.write_text(EXPERIMENT)
        ran = bench.run("run", str(experiment))
        sweep = new_sweep(bench, set())
        if ran.returncode != 0 or sweep is None:
            return Figures("flips", LAW, 0, (ran.stderr.strip(),), time.monotonic() - start_s)
        failures, tried = [], 0
        for trial in sorted((sweep.root / "trials").iterdir()):
            check = partial(damage_found_by_measure, sweep.root)
            tried += sum(1 for _ in bit_flips(trial, per_file, seed))
            unnoticed = unnoticed_flips(trial, per_file, seed, check)
            failures += [f"measure: {flip}: {message}" for flip, message in unnoticed]
            say(f"{trial.name}: {len(unnoticed)} not noticed by measure")
        tried += sum(1 for _ in bit_flips(sweep.results, per_file, seed))
        check = partial(damage_found_by_show, sweep.root)
        unnoticed = unnoticed_flips(sweep.results, per_file, seed, check)
        failures += [f"show: {flip}: {message}" for flip, message in unnoticed]
        say(f"results: {len(unnoticed)} not noticed by show")
    return Figures("flips", LAW, tried, tuple(failures), time.monotonic() - start_s)
