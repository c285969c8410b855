"""Spark in a process of its own: alone, or measuring a sweep several times in one application.

    python tests/perf/spark_session.py <work folder> <options of the JVM> [<sweep folder> <times>]

Prints the seconds of each measurement as JSON: from the files' footers to the written results.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ackbench.spark_jobs.configuration import ContextRequest
from ackbench.spark_jobs.session import spark_context

if TYPE_CHECKING:
    from pyspark import SparkContext


def measure_repeatedly(context: SparkContext, sweep: str, times: int) -> list[float]:
    """Return the seconds of each measurement of a sweep."""
    from ackbench.spark_jobs.distribution import measure_ledgers
    from ackbench.spark_jobs.io.ledgers import open_ledgers
    from ackbench.spark_jobs.io.writer import write_results

    seconds = []
    for _ in range(times):
        begin = time.monotonic()
        ledgers = open_ledgers(sweep)
        write_results(ledgers.files, ledgers.root, measure_ledgers(context, ledgers))
        seconds.append(time.monotonic() - begin)
    return seconds


def main(work: str, java_options: str, sweep: str | None = None, times: str = "1") -> int:
    """Start Spark and run one task in a Python worker, or measure a sweep."""
    folder = Path(work)
    with spark_context(
        ContextRequest(folder, folder / "spark.log", java_options=java_options)
    ) as context:
        if sweep is None:
            context.parallelize([0], 1).map(str).collect()
            seconds = []
        else:
            seconds = measure_repeatedly(context, sweep, int(times))
    print(json.dumps(seconds))  # noqa: T201 - the command's output
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
