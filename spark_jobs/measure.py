"""The measuring job: from the ledgers of a sweep to its results, in one Spark session.

    python -m spark_jobs.measure <sweep folder> [--master ...]
    spark-submit [--master ...] spark_jobs/measure.py <sweep folder>

It reads nothing but the folder, so every figure can be computed again from the ledgers, with the
same bytes as a result.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.ledger.result_tables import RESULTS
from spark_jobs.io.ledgers import InvalidLedger, open_ledgers
from spark_jobs.io.writer import write_results

BAD_INPUT: Final = 2
C2_RECORDS: Final = 2_000_000
"""From this number on, the JVM's second compiler (C2) saves more than it costs.

4 trials of 80,000 records take 24 s of CPU with it, and 16 s without.
"""
C1_ONLY: Final = "-XX:TieredStopAtLevel=1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code.

    It is 0, or 2 with one line on standard error if a ledger is invalid.
    """
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="ackbench-spark-", dir=options.work) as work:
            measure(options.sweep, Path(work), options.log, options.master, options.java_options)
    except InvalidLedger as error:
        print(f"measure: {error}", file=sys.stderr)  # noqa: T201 - the command's output
        return BAD_INPUT
    return 0


def measure(
    sweep: str,
    work: Path,
    log: Path | None = None,
    master: str | None = None,
    java_options: str = "",
) -> None:
    """Measure all sealed trials of a sweep and write `results/`; on an error it stays unchanged.

    Args:
        sweep: the sweep's folder, as a path or a URI.
        work: a folder for Spark's files; the caller removes it.
        log: the file of Spark's log; `None`: in `work`.
        master: Spark's master; `None`: the one of spark-submit, else this machine.
        java_options: further options of the driver's JVM.

    Raises:
        InvalidLedger: a ledger is incomplete, truncated, of another version or of another trial.
    """
    ledgers = open_ledgers(sweep)
    if not ledgers.trials:  # a sweep without sealed trials has results without rows: no JVM needed
        write_results(
            ledgers.files,
            ledgers.root,
            {name: schema.empty_table() for name, schema in RESULTS.items()},
        )
        return
    from spark_jobs.pipeline import measure_ledgers
    from spark_jobs.session import SessionRequest, spark_session

    small = sum(ledger.attempts_rows for ledger in ledgers.trials) < C2_RECORDS
    options = f"{java_options} {C1_ONLY}" if small else java_options
    with spark_session(SessionRequest(work, log or work / "spark.log", master, options)) as spark:
        tables = measure_ledgers(spark.sparkContext, ledgers)
    write_results(ledgers.files, ledgers.root, tables)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark_jobs.measure", description="Measure a sweep's ledgers and write its results."
    )
    parser.add_argument(
        "sweep", help="the sweep's folder: a path, or a URI that both Arrow and Spark support"
    )
    parser.add_argument(
        "--master",
        help="Spark's master (default: that of spark-submit, else all cores of this machine)",
    )
    parser.add_argument(
        "--java-options",
        default="",
        help="further options of the driver's JVM, as one string quoted as for a shell",
    )
    parser.add_argument("--log", type=Path, help="the file of Spark's log (default: none is kept)")
    parser.add_argument(
        "--work",
        type=Path,
        help="a folder for Spark's own files while it runs (default: the system's)",
    )
    return parser


if __name__ == "__main__":
    # A background job of a shell inherits that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise SystemExit(main())
