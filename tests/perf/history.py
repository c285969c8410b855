"""One question of many sweeps: `python tests/perf/history.py [SWEEPS]`, by default 10,000.

The files of a sweep with 20 cells, as it leaves them in the warehouse, are copied under other names
and times, a sweep every six hours of eight experiments. DuckDB, Spark and pandas are asked how
often each acks lost, as docs/history.md asks: of all, and of one experiment and month.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder

import ackbench
from ackbench.experiments.results.history.warehouse import files_of, warehouse_of_home
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.infra.jvm.runtime import spark_java_home
from ackbench.infra.machine.home import Home

SWEEPS: Final = 10_000
_CELLS: Final = 20
_EXPERIMENTS: Final = 8
_TABLES: Final = ("cells", "trials")
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY: Final = timedelta(hours=6)
_ASKED: Final = "SELECT acks, sum(trials_with_loss) FROM {} WHERE NOT added GROUP BY acks"


@dataclass(frozen=True)
class Answer:
    """The seconds of one answer."""

    program: str
    sweeps: str
    seconds: float


def fill(home: Home, sweeps: int) -> int:
    """Write the tables of sweeps to the warehouse of a home; return how many files.

    Args:
        home: a new home.
        sweeps: how many.
    """
    specs = [
        a_spec(trial_id=f"{number:03d}-aaaaaa", partitions=1 + number) for number in range(_CELLS)
    ]

    def counts(spec: TrialSpec) -> Mapping[str, int]:
        return loss_counts(1_000, spec.partitions % 3)

    source = measured_sweep_folder(home, "planted", specs, counts)
    files = files_of(source, read_results(source))
    tables = {
        name: pq.read_table(pa.BufferReader(content))
        for path, content in files.items()
        if (name := path.partition("/")[0]) in _TABLES
    }
    written = 0
    for number in range(sweeps):
        planned_at = _BEGIN + number * _EVERY
        experiment = f"planted-{number % _EXPERIMENTS}"
        sweep_id = f"{experiment}-{planned_at:%Y%m%dT%H%M%S}-{number % (1 << 16):04x}"
        for name, table in tables.items():
            folder = Path(warehouse_of_home(home).path, name, f"experiment={experiment}")
            folder /= f"month={planned_at:%Y-%m}"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(_of_sweep(table, sweep_id, planned_at), folder / f"{sweep_id}.parquet")
            written += 1
    return written


def _of_sweep(table: pa.Table, sweep_id: str, planned_at: datetime) -> pa.Table:
    for name, value in (("sweep_id", sweep_id), ("planned_at", planned_at)):
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array([value] * len(table), field.type))
    return table


def answers(home: Home) -> list[Answer]:
    """Ask each program, and return how long it took."""
    cells = Path(warehouse_of_home(home).path, "cells")
    month = f"experiment=planted-1/month={_BEGIN:%Y-%m}"
    found = [
        _timed("DuckDB", "all", lambda: _duckdb(f"{cells}/*/*/*.parquet")),
        _timed("DuckDB", "one experiment and month", lambda: _duckdb(f"{cells}/{month}/*.parquet")),
    ]
    os.environ["JAVA_HOME"] = str(spark_java_home(home.cache))
    os.environ["ACKBENCH_HOME"] = str(home.root)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.range(1).count()  # the start is in no figure
    found += [
        _timed("Spark", "all", lambda: _spark(spark, str(cells))),
        _timed("Spark", "one experiment and month", lambda: _spark(spark, f"{cells}/{month}")),
    ]
    spark.stop()
    four = ["sweep_id", "acks", "sealed_trials", "trials_with_loss"]
    one = "planted-1"
    return [
        *found,
        _timed("pandas, 4 columns", "all", lambda: len(ackbench.history(columns=four))),
        _timed("pandas", "all", lambda: len(ackbench.history())),
        _timed("pandas", "one experiment", lambda: len(ackbench.history("cells", one))),
    ]


def _duckdb(files: str) -> Any:
    table = f"read_parquet('{files}', hive_partitioning = true, union_by_name = true)"
    return duckdb.connect().execute(_ASKED.format(table)).fetchall()


def _spark(spark: SparkSession, folder: str) -> Any:
    spark.read.option("mergeSchema", "true").parquet(folder).createOrReplaceTempView("cells")
    return spark.sql(_ASKED.format("cells")).collect()


def _timed(program: str, sweeps: str, ask: Callable[[], Any]) -> Answer:
    began = time.monotonic()
    assert ask()
    return Answer(program, sweeps, time.monotonic() - began)


def main() -> int:
    """Measure and print the table; the ratios compare with DuckDB's answer on all."""
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else SWEEPS
    with tempfile.TemporaryDirectory() as place:
        home = Home(Path(place))
        files = fill(home, sweeps)
        found = answers(home)
    title = f"{sweeps:,} sweeps, {files:,} files of 2 tables"
    table = Table("program", "sweeps", "s", "/ DuckDB", title=title)
    for one in found:
        ratio = one.seconds / found[0].seconds
        table.add_row(one.program, one.sweeps, f"{one.seconds:.2f}", f"{ratio:.2f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
