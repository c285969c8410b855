"""The job: a sweep's ledgers -> its results, in one Spark session.

    python -m spark_jobs.measure <sweep folder> [--master ...]
    spark-submit [--master ...] spark_jobs/measure.py <sweep folder>

It reads the folder and nothing else, so every figure can be made again from the ledgers, and comes out the same to the byte.
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
COMPILED_TWICE_RECORDS: Final = 2_000_000
"""From here on the JVM's second compiler wins back what it costs; 4 trials of 80,000 records take it 24 s of CPU, and 16 s without it."""
COMPILED_ONCE: Final = "-XX:TieredStopAtLevel=1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code: 0, or 2 with one line on standard error where a ledger cannot be measured."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="ackbench-spark-", dir=options.work) as work:
            measure(options.sweep, Path(work), options.log, options.master, options.java_options)
    except InvalidLedger as error:
        print(f"measure: {error}", file=sys.stderr)  # noqa: T201 - the command's answer
        return BAD_INPUT
    return 0


def measure(
    sweep: str,
    work: Path,
    log: Path | None = None,
    master: str | None = None,
    java_options: str = "",
) -> None:
    """Measure all whole trials of a sweep and write `results/`; on an error nothing there is changed.

    Args:
        sweep: the sweep's folder, as a path or a URI.
        work: a folder that Spark may fill; the caller removes it.
        log: where Spark's log goes; `None`: into `work`.
        master: Spark's master; `None`: what spark-submit was told, else this machine.
        java_options: further options of the driver's JVM.

    Raises:
        UnfitLedger: a ledger is incomplete, cut short, of another version or of another trial.
    """
    ledgers = open_ledgers(sweep)
    if not ledgers.trials:  # no trial of the sweep became whole: that is a result, and needs no JVM
        write_results(
            ledgers.files,
            ledgers.root,
            {name: schema.empty_table() for name, schema in RESULTS.items()},
        )
        return
    from spark_jobs.pipeline import measure_ledgers
    from spark_jobs.session import SessionRequest, spark_session

    small = sum(ledger.attempts_rows for ledger in ledgers.trials) < COMPILED_TWICE_RECORDS
    options = f"{java_options} {COMPILED_ONCE}" if small else java_options
    with spark_session(SessionRequest(work, log or work / "spark.log", master, options)) as spark:
        tables = measure_ledgers(spark, ledgers)
    write_results(ledgers.files, ledgers.root, tables)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark_jobs.measure", description="Measure a sweep's ledgers and write its results."
    )
    parser.add_argument(
        "sweep", help="the sweep's folder: a path, or a URI that Arrow and Spark both know"
    )
    parser.add_argument(
        "--master",
        help="Spark's master (default: what spark-submit was told, else all cores of this machine)",
    )
    parser.add_argument(
        "--java-options",
        default="",
        help="further options of the driver's JVM, as one text quoted as for a shell",
    )
    parser.add_argument("--log", type=Path, help="Spark's log (default: none is kept)")
    parser.add_argument(
        "--work",
        type=Path,
        help="a folder that holds Spark's own files while it runs (default: the system's)",
    )
    return parser


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # started by a shell's background job, it would inherit that it is ignored
    raise SystemExit(main())
