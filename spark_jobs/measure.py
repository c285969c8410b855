"""The measuring job: from the ledgers of a sweep to its results, in one Spark application.

    python -m ackbench.spark_jobs.measure <sweep folder> [--master ...] [--conf key=value ...]
    spark-submit [--master ...] [--conf key=value ...] spark_jobs/measure.py <sweep folder>

It reads nothing but the folder, so every figure can be computed again from the ledgers, with the
same bytes as a result.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.spark_settings import SparkSetupError, parse_settings
from ackbench.spark_jobs.application import Application
from ackbench.spark_jobs.configuration import ContextRequest, SparkJobError, is_connect
from ackbench.spark_jobs.io.ledgers import InvalidLedger, Ledgers, open_ledgers
from ackbench.spark_jobs.io.writer import ResultsWriter, write_results
from ackbench.spark_jobs.limits import LIMIT_SETTING, StepLimit, limited
from ackbench.spark_jobs.python_daemon import forgo_pandas

if TYPE_CHECKING:
    from ackbench.spark_jobs.distribution import MeasuredTrials

BAD_INPUT: Final = 2
UNIT_RECORDS_SETTING: Final = "spark.ackbench.unitRecords"
"""Spark's setting for the most records that a task holds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code.

    It is 0, or 2 with one line on standard error: `measure: ...` if a ledger is invalid, `spark:
    ...` if Spark cannot run the job as it is configured; 1 if the job failed.
    """
    options = _parser().parse_args(arguments)
    try:
        settings = parse_settings(options.conf)
        with tempfile.TemporaryDirectory(prefix="ackbench-spark-", dir=options.work) as work:
            request = context_request(options, Path(work), settings)
            measure(options.sweep, request, skip_unfit=options.skip_unfit)
    except (InvalidLedger, SparkSetupError) as error:
        print(error_line(error), file=sys.stderr)  # noqa: T201 - the command's output
        return BAD_INPUT
    except SparkJobError as error:
        traceback.print_exc()
        print(error_line(error), file=sys.stderr)  # noqa: T201 - the command's output
        return 1
    return 0


def measure(sweep: str, request: ContextRequest, *, skip_unfit: bool = False) -> None:
    """Measure all sealed trials of a sweep and write `results/`; on an error it stays unchanged.

    Args:
        sweep: the sweep's folder, as a path or a URI.
        request: where Spark runs and writes.
        skip_unfit: leave out the trials whose ledgers are invalid; the manifest names them.

    Raises:
        InvalidLedger: a ledger is incomplete, truncated, of another version or of another trial.
        SparkSetupError: Spark cannot run the job as it is configured.
    """
    limit = request.user_settings.get(LIMIT_SETTING)
    ledgers = open_ledgers(sweep, skip_unfit=skip_unfit, limit=StepLimit.of(limit))
    if not ledgers.trials:  # a sweep without sealed trials has results without rows: no JVM needed
        with limited("writing results", StepLimit.of(limit)):
            no_rows = {name: schema.empty_table() for name, schema in RESULTS.items()}
            write_results(ledgers.files, ledgers.root, no_rows, left_out=ledgers.left_out)
        return
    _measure(spark_application(request), ledgers, limit, skip_unfit=skip_unfit)


@contextmanager
def spark_application(request: ContextRequest) -> Iterator[Application]:
    """Start Spark, or a session of a Connect server, and end it with the context.

    Raises:
        SparkSetupError: the master does not answer, or Spark refuses a setting.
    """
    master = request.named_master
    if master and is_connect(master):
        from ackbench.spark_jobs.connect import connect_session

        with connect_session(master, request) as session:
            yield session
        return
    from ackbench.spark_jobs.session import ContextApplication, spark_context

    with spark_context(request) as context:
        yield ContextApplication(context)


def measure_in(running: Application, sweep: str, *, skip_unfit: bool = False) -> None:
    """Measure a sweep in an application that is already running; otherwise as `measure`."""
    limit = running.setting(LIMIT_SETTING)
    ledgers = open_ledgers(sweep, skip_unfit=skip_unfit, limit=StepLimit.of(limit))
    _measure(nullcontext(running), ledgers, limit, skip_unfit=skip_unfit)


def _measure(
    spark: AbstractContextManager[Application],
    ledgers: Ledgers,
    limit: str | None,
    *,
    skip_unfit: bool,
) -> None:
    """Measure the trials; commit their tables once the application has ended."""
    with ResultsWriter(ledgers.files, ledgers.root) as results:
        with spark as running:
            measured = _write_tables(running, ledgers, results, limit, skip_unfit=skip_unfit)
        sha256 = {ledger.manifest.trial_id: ledger.sha256 for ledger in ledgers.trials}
        unfit = {trial_id: str(error) for trial_id, error in measured.unfit.items()}
        with limited("writing results", StepLimit.of(limit, ledgers.records)):
            results.commit(
                {trial_id: sha256[trial_id] for trial_id in measured.measured},
                {**ledgers.left_out, **unfit},
            )


def _write_tables(
    running: Application,
    ledgers: Ledgers,
    results: ResultsWriter,
    limit: str | None,
    *,
    skip_unfit: bool,
) -> MeasuredTrials:
    """Measure the trials and write their tables under partial names."""
    from ackbench.spark_jobs.pipeline import TrialTables, sweep_parts

    def fetched(measured: MeasuredTrials) -> Iterator[tuple[str, TrialTables]]:
        with running.failures():
            yield from measured.tables()

    step = f"measuring {len(ledgers.trials):,} trials with {ledgers.records:,} records"
    limit_of_step = StepLimit.of(limit, ledgers.records)
    with limited(step, limit_of_step, running.end_jobs):
        with running.failures():
            measured = running.measure_trials(ledgers, _unit_records(running))
        if not skip_unfit:
            measured.require_all()
        for tables in sweep_parts(fetched(measured)):
            results.add(tables)
        return measured


def _unit_records(running: Application) -> int:
    """Return the most records of a unit: the setting `UNIT_RECORDS_SETTING`, or the default.

    Raises:
        SparkSetupError: the setting is not a whole number above 0.
    """
    from ackbench.spark_jobs.io.units import UNIT_RECORDS

    value = running.setting(UNIT_RECORDS_SETTING)
    if value is None:
        return UNIT_RECORDS
    if not value.isdecimal() or not int(value):
        raise SparkSetupError(
            f"{UNIT_RECORDS_SETTING}={value}: allowed is a whole number of records from 1 on"
        )
    return int(value)


def error_line(error: Exception) -> str:
    """Return an error as one line, with a prefix that says what is wrong: a ledger, or Spark.

    A terminal acts on control characters, which a plan or a record may have.
    """
    prefix = "failed: "
    if isinstance(error, InvalidLedger):
        prefix = "measure: "
    elif isinstance(error, SparkSetupError):
        prefix = "spark: "
    line = " ".join(f"{prefix}{error}".split())
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)


def context_request(
    options: argparse.Namespace, work: Path, settings: Mapping[str, str]
) -> ContextRequest:
    """Return the request for Spark that the options of `add_spark_options` make.

    Args:
        options: parsed.
        work: Spark's own folder.
        settings: of `--conf`.
    """
    log = options.log or work / "spark.log"
    return ContextRequest(work, log, options.master, options.java_options, settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ackbench.spark_jobs.measure",
        description="Measure a sweep's ledgers and write its results.",
    )
    parser.add_argument("sweep", help="the sweep's folder: a path, or a URI that pyarrow.fs opens")
    parser.add_argument(
        "--skip-unfit",
        action="store_true",
        help="leave out trials whose ledgers are incomplete or were altered",
    )
    add_spark_options(parser)
    return parser


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where and how Spark runs."""
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


if __name__ == "__main__":
    forgo_pandas()
    # A background job of a shell inherits that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise SystemExit(main())
