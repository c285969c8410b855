"""The measuring job: from the ledgers of a sweep to its results, in one Spark application.

    python -m spark_jobs.measure <sweep folder> [--master ...] [--conf key=value ...]
    spark-submit [--master ...] [--conf key=value ...] spark_jobs/measure.py <sweep folder>

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
from spark_jobs.configuration import ContextRequest, SparkSetupError, parse_settings
from spark_jobs.io.ledgers import InvalidLedger, open_ledgers
from spark_jobs.io.writer import write_results

BAD_INPUT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code.

    It is 0, or 2 with one line on standard error: `measure: ...` if a ledger is invalid, `spark:
    ...` if Spark cannot run the job as it is configured.
    """
    options = _parser().parse_args(arguments)
    try:
        settings = parse_settings(options.conf)
        with tempfile.TemporaryDirectory(prefix="ackbench-spark-", dir=options.work) as work:
            log = options.log or Path(work, "spark.log")
            request = ContextRequest(
                Path(work), log, options.master, options.java_options, settings
            )
            measure(options.sweep, request)
    except InvalidLedger as error:
        return _print_error(f"measure: {error}")
    except SparkSetupError as error:
        return _print_error(f"spark: {error}")
    return 0


def measure(sweep: str, request: ContextRequest) -> None:
    """Measure all sealed trials of a sweep and write `results/`; on an error it stays unchanged.

    Args:
        sweep: the sweep's folder, as a path or a URI.
        request: where Spark runs and writes.

    Raises:
        InvalidLedger: a ledger is incomplete, truncated, of another version or of another trial.
        SparkSetupError: Spark cannot run the job as it is configured.
    """
    ledgers = open_ledgers(sweep)
    if ledgers.trials:
        from spark_jobs.pipeline import measure_ledgers
        from spark_jobs.session import spark_context

        with spark_context(request) as context:
            tables = measure_ledgers(context, ledgers)
    else:  # a sweep without sealed trials has results without rows: no JVM needed
        tables = {name: schema.empty_table() for name, schema in RESULTS.items()}
    write_results(ledgers.files, ledgers.root, tables)


def _print_error(text: str) -> int:
    print(" ".join(text.split()), file=sys.stderr)  # noqa: T201 - the command's output
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark_jobs.measure", description="Measure a sweep's ledgers and write its results."
    )
    parser.add_argument(
        "sweep", help="the sweep's folder: a path, or a URI that both Arrow and Spark support"
    )
    parser.add_argument(
        "--master",
        help="Spark's master (default: that of spark-submit or of Spark's configuration, else all "
        "cores of this machine)",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated, and replaces that of spark-defaults.conf",
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
