"""What pruning gives back, in bytes: `python tests/perf/pruning.py [NIGHTS [EVERY]]`.

One real sweep runs in Airflow, with MLflow's and Airflow's databases in a home of its own. Its
files and its rows are copied to further nights; one of every 100 is pinned. After every 50 nights
the home is pruned as the DAG `ackbench_prune` does: it must stay below the limit, no pinned sweep
may be lost, and both databases must be smaller afterwards.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND, AckbenchCommand, bench_in, write_experiment
from rich.console import Console
from support.builders.many_nights import Night, NightCopier
from support.builders.nights import DAY_S

from ackbench.experiments.commands.history.prune import apply_plan
from ackbench.experiments.orchestration.tracking.store import database_of_store
from ackbench.experiments.results.history.pins import pin
from ackbench.experiments.results.history.pruning import PruneLimits, counted_bytes, planned_pruning
from ackbench.infra.airflow.environment import airflow_environment, database_of, ensure_database
from ackbench.infra.machine.files import folder_bytes
from ackbench.infra.machine.home import Home

NIGHTS: Final = 1_000
EVERY: Final = 50
"""Nights between two prunings, which take half a minute of CPU each."""
MEASURED: Final = 20
"""Nights of which the size is measured, for the limit."""
PINNED: Final = 100
"""Nights between two pinned ones."""
KEEP, KEEP_DAYS = 10, 90
STAY: Final = 60
"""Nights for which the limit of bytes has room, in addition to the pinned ones."""
_MB: Final = 1_000_000


@dataclass(frozen=True)
class Sizes:
    """What the parts of a home take on the disk."""

    home: int
    mlflow: int
    airflow: int
    artifacts: int
    logs: int
    sweeps: int

    def __str__(self) -> str:
        """Return the sizes as text."""
        return (
            f"home {self.home / _MB:,.1f} MB (sweeps {self.sweeps / _MB:,.1f}, mlflow.db "
            f"{self.mlflow / _MB:,.1f}, artifacts {self.artifacts / _MB:,.1f}, airflow.db "
            f"{self.airflow / _MB:,.1f}, logs {self.logs / _MB:,.1f})"
        )


def sizes_of(home: Home) -> Sizes:
    """Return the sizes of a home's parts."""
    return Sizes(
        home=counted_bytes(home),
        mlflow=database_of_store(home).stat().st_size,
        airflow=database_of(home).stat().st_size,
        artifacts=folder_bytes(home.mlflow / "artifacts"),
        logs=folder_bytes(home.logs),
        sweeps=folder_bytes(home.sweeps),
    )


def run_in_airflow(bench: AckbenchCommand, experiment: str) -> None:
    """Run an experiment by Airflow's own command, so that the home's database has the run."""
    bench.home.airflow.mkdir(exist_ok=True)
    ensure_database(bench.home)
    folder = bench.home.root.parent / "experiments"
    folder.mkdir()
    shutil.move(experiment, folder / "small.yaml")
    command = [
        *(str(COMMAND.with_name("airflow")), "dags", "test", "ackbench_sweep"),
        *("-c", '{"experiment": "small.yaml"}'),
    ]
    environment = {**airflow_environment(bench.home), "ACKBENCH_EXPERIMENTS": str(folder)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"the sweep failed: {ran.stdout[-3000:]}{ran.stderr[-3000:]}")


def run(nights: int, every: int, console: Console) -> Iterator[str]:
    """Simulate nights and prune them; yield a sentence for each law that does not hold."""
    with tempfile.TemporaryDirectory() as folder, bench_in(Path(folder)) as bench:
        home = bench.home
        run_in_airflow(bench, write_experiment(Path(folder), "none"))
        first = sizes_of(home)
        console.print(f"one real night: {first}")
        (Path(folder) / "store").mkdir()
        copier, pinned = NightCopier(home, Path(folder) / "store"), list[Night]()
        empty = sizes_of(home)
        nights_begun = [copier.add(number) for number in range(MEASURED)]
        per_night = (sizes_of(home).home - empty.home) // MEASURED
        limit = empty.home + per_night * (STAY + nights // PINNED)
        console.print(
            f"each night takes {per_night / _MB:.2f} MB, {nights:,} of them "
            f"{per_night * nights / _MB:,.0f} MB; limit {limit / _MB:,.0f} MB"
        )
        for number in range(nights):
            night = nights_begun[number] if number < MEASURED else copier.add(number)
            if number % PINNED == 0:
                pin(night.sweep, "of this hundred")
                pinned.append(night)
            if (number + 1) % every == 0:
                yield from _prune(home, night, pinned, limit, console)


def _prune(
    home: Home, night: Night, pinned: list[Night], limit: int, console: Console
) -> Iterator[str]:
    before, begin_s, cpu_s = sizes_of(home), time.monotonic(), _cpu_s()
    limits = PruneLimits(keep=KEEP, older_than_s=KEEP_DAYS * DAY_S, max_bytes=limit)
    plan = planned_pruning(home, limits, night.begin_s + 3600)
    lines: list[str] = []
    apply_plan(home, plan, lines.append)
    after, took_s = sizes_of(home), time.monotonic() - begin_s
    name = f"after night {night.number + 1}"
    done = "; ".join(line for line in lines if not line.startswith("pruned sweep"))
    console.print(
        f"{name}: {before}\n  -> {after}\n  {len(plan.doomed)} sweeps pruned in {took_s:.0f} s "
        f"({_cpu_s() - cpu_s:.0f} s of CPU); {done}"
    )
    if after.home > limit:
        yield f"{name}: {after.home:,} bytes are above the limit of {limit:,}"
    lost = [one.sweep.sweep_id for one in pinned if not one.sweep.results.is_dir()]
    runs = _runs_of(home)
    lost += [one.sweep.sweep_id for one in pinned if one.sweep.sweep_id not in runs]
    if lost:
        yield f"{name}: pinned sweeps are lost: {', '.join(lost)}"
    if left := runs & {one.sweep_id for one in plan.doomed}:
        yield f"{name}: MLflow still has runs of {len(left)} pruned sweeps"
    if plan.doomed and not after.mlflow < before.mlflow:
        yield f"{name}: MLflow's database has {after.mlflow:,} bytes, {before.mlflow:,} before"
    if plan.doomed and not after.airflow < before.airflow:
        yield f"{name}: Airflow's database has {after.airflow:,} bytes, {before.airflow:,} before"
    yield from (f"{name}: {line}" for line in lines if line.startswith("kept: "))


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _runs_of(home: Home) -> set[str]:
    with closing(sqlite3.connect(database_of_store(home))) as opened:
        return {value for (value,) in opened.execute("SELECT value FROM tags WHERE key='sweep_id'")}


def main(arguments: list[str]) -> int:
    """Print the sizes; return 1 if a law does not hold.

    Args:
        arguments: how many nights, and how many between two prunings.
    """
    nights, every = map(int, (*arguments, *(str(NIGHTS), str(EVERY))[len(arguments) :]))
    console = Console(width=200, highlight=False, markup=False, soft_wrap=True)
    failures = list(run(nights, every, console))
    for failure in failures:
        console.print(failure)
    console.print("failed" if failures else "held: below the limit, nothing pinned lost, smaller")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
