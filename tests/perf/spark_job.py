"""The cost of the measuring job, against DuckDB on the same files and against Spark alone.

All sides run in turn, as processes of their own. DuckDB answers the main questions only
(`perf.duckdb_reference`), and its answers must equal the job's results.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from perf import duckdb_reference, spark_session
from perf.ledgers import Damage, LedgerShape, plant_sweep
from perf.process_tree import RunCost, run_sampled
from support.spark_cluster import connect_server

from ackbench.experiments.results.spark_job import JAVA_OPTIONS
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.jvm.runtime import java_environment, spark_java_home
from ackbench.infra.jvm.startup_cache import quote_java_options, spark_startup_cache
from ackbench.infra.machine.home import REPOSITORY, Home

MILLION: Final = 1_000_000
LARGE: Final = (LedgerShape(5 * MILLION), LedgerShape(5 * MILLION, damage=Damage()))
"""Two trials of 5 million records, the second with a leader crash."""
FEW: Final = (LedgerShape(1_000, rate_records_per_s=1_000),)
_SMALL_CRASH: Final = Damage(
    lost=500, duplicated=300, unknown=100, rejected=20, reordered=150, missed=30, redelivered=40
)
_QUICK: Final = LedgerShape(90_000, rate_records_per_s=10_000)
QUICK: Final = tuple(
    replace(_QUICK, damage=_SMALL_CRASH if number % 3 else None, producers=1 + number % 2)
    for number in range(21)
)
"""A quick sweep: one trial of each cell."""


CONNECT_SIDES: Final = (
    "DuckDB",
    "the job on local[2]",
    "the job, Spark running",
    "Connect, a new server",
    "Connect, that server again",
)
"""The sides of `connect_costs`."""


@dataclass(frozen=True)
class Side:
    """One of the things that are compared, and what each round of it took."""

    name: str
    records: int
    rounds: tuple[RunCost, ...]

    @property
    def seconds(self) -> float:
        """The median of the rounds."""
        return median(cost.seconds for cost in self.rounds)

    def ratio_to(self, reference: Side) -> float:
        """Return the median of the ratios of each round to the reference's same round."""
        return median(
            own.seconds / other.seconds
            for own, other in zip(self.rounds, reference.rounds, strict=True)
        )

    def peak_bytes(self, kind: str) -> int:
        """Return the most resident memory of the processes of a kind; 0: there was none."""
        return max(cost.peak_bytes.get(kind, 0) for cost in self.rounds)


@dataclass(frozen=True)
class JobCosts:
    """What the job takes; the first side of each is the reference."""

    large: tuple[Side, ...]
    floor: tuple[Side, ...]


def job_costs(home: Home, rounds: int = 3) -> JobCosts:
    """Measure the large sweep, the few records and the quick sweep in turn.

    Raises:
        RuntimeError: a process failed, or DuckDB's answers differ from the job's results.
    """
    with _planted(home, LARGE) as large, _planted(home, FEW) as few, _planted(home, QUICK) as quick:
        ten_million = sum(shape.records for shape in LARGE)
        sides: list[tuple[str, int, Callable[[], RunCost]]] = [
            ("DuckDB", ten_million, lambda: _duckdb(large)),
            ("the job", ten_million, lambda: _job(large, home)),
            ("the job, Spark running", ten_million, lambda: _warm(large, home)),
            ("Spark alone", 0, lambda: _spark(home, [])),
            ("1 trial of 1,000", 1_000, lambda: _job(few, home)),
            (
                "21 trials of 90,000",
                sum(shape.records for shape in QUICK),
                lambda: _job(quick, home),
            ),
        ]
        costs = [[run() for _, _, run in sides] for _ in range(rounds)]
        _require_equal(large, quick)
    measured = tuple(
        Side(name, records, tuple(of_round))
        for (name, records, _), of_round in zip(sides, zip(*costs, strict=True), strict=True)
    )
    return JobCosts(large=measured[:3], floor=measured[3:])


def connect_costs(home: Home, rounds: int = 3) -> tuple[Side, ...]:
    """Measure the large sweep with DuckDB, on local[2], and on a Connect server on local[2].

    Each round has a server of its own, which measures twice; its start is in no figure.

    Raises:
        RuntimeError: a process failed, the results of two sides differ in a byte, or DuckDB's
            answers differ from them.
    """
    sides: dict[str, list[RunCost]] = {name: [] for name in CONNECT_SIDES}
    with _planted(home, LARGE) as sweep, tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            found = []
            results: list[Mapping[str, bytes]] = []
            found.append(_duckdb(sweep))
            found.append(_job(sweep, home, "--master=local[2]"))
            results.append(_result_files(sweep))
            found.append(_warm(sweep, home))
            with connect_server(Path(folder, str(number)), sys.executable, java_options="") as one:
                for _ in range(2):
                    shutil.rmtree(sweep.root / "results")
                    found.append(_job(sweep, home, f"--master={one.url}", server_pid=one.pid))
                    results.append(_result_files(sweep))
            for costs, cost in zip(sides.values(), found, strict=True):
                costs.append(cost)
            if any(files != results[0] for files in results):
                raise RuntimeError("a Connect server and local[2] give different results")
        _require_equal(sweep)
    records = sum(shape.records for shape in LARGE)
    return tuple(Side(name, records, tuple(costs)) for name, costs in sides.items())


def _result_files(sweep: SweepFolder) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in (sweep.root / "results").iterdir()}


@contextmanager
def _planted(home: Home, shapes: Sequence[LedgerShape]) -> Iterator[SweepFolder]:
    root = home.sweeps / f"perf-{uuid.uuid4().hex[:6]}"
    try:
        yield plant_sweep(root, shapes)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _duckdb(sweep: SweepFolder) -> RunCost:
    return run_sampled([sys.executable, duckdb_reference.__file__, str(sweep.root)])


def _job(sweep: SweepFolder, home: Home, *options: str, server_pid: int | None = None) -> RunCost:
    with _arguments(home) as (work, java_options):
        return run_sampled(
            [
                sys.executable,
                "-m",
                "ackbench.spark_jobs.measure",
                str(sweep.root),
                f"--work={work}",
                f"--java-options={java_options}",
                *options,
            ],
            REPOSITORY,
            _environment(home),
            server_pid,
        )


def _warm(sweep: SweepFolder, home: Home) -> RunCost:
    """Return the cost of the second measurement in one application, with the memory of both."""
    cost = _spark(home, [str(sweep.root), "2"])
    return replace(cost, seconds=json.loads(cost.output.splitlines()[-1])[1])


def _spark(home: Home, arguments: Sequence[str]) -> RunCost:
    with _arguments(home) as options:
        command = [sys.executable, spark_session.__file__, *options, *arguments]
        return run_sampled(command, REPOSITORY, _environment(home))


@contextmanager
def _arguments(home: Home) -> Iterator[tuple[str, str]]:
    """Yield a folder for Spark's files, and the options of its JVM."""
    cache = spark_startup_cache(home.cache, JAVA_OPTIONS)
    with tempfile.TemporaryDirectory(prefix="perf-spark-", ignore_cleanup_errors=True) as work:
        yield work, quote_java_options([*JAVA_OPTIONS, *cache.options])


def _environment(home: Home) -> dict[str, str]:
    return {
        **java_environment(os.environ),
        "JAVA_HOME": str(spark_java_home(home.cache)),
        "PYTHONPATH": str(REPOSITORY),
    }


def _require_equal(*sweeps: SweepFolder) -> None:
    lines = [
        line
        for sweep in sweeps
        for line in duckdb_reference.differences(sweep.root, duckdb_reference.answer(sweep.root))
    ]
    if lines:
        raise RuntimeError("DuckDB and the job disagree: " + "; ".join(lines))
