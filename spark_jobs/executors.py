"""What executors need to run the job: its code, a Python with its libraries, and a place to run.

The driver sends the job's code, so that only numpy, pyarrow and pydantic have to be installed on
the executors, and both sides run the same version of it.
"""

from __future__ import annotations

import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.spark_jobs.configuration import GUIDE, SparkJobError, is_local, whole_seconds
from ackbench.spark_jobs.driver import why_ended

EXECUTOR_WAIT: Final = "spark.ackbench.executorWaitSeconds"
"""Spark's setting for how long to wait for the first executor."""
EXECUTOR_WAIT_S: Final = 180.0
"""Its default. A standalone master starts one in a few seconds."""
PACKAGE: Final = Path(__file__).parents[1]
"""The folder `ackbench` that is imported."""
_SENT: Final = (
    "__init__.py",
    "experiments/__init__.py",
    "experiments/ledger/**/*.py",
    "spark_jobs/**/*.py",
)
_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_OTHER_VERSION: Final = re.compile(
    r"Python in worker has different version: (\S+) than that in driver: (\S+),"
)
_STOPPED: Final = re.compile("stopped SparkContext|SparkContext was shut down")
_HEAP_FULL: Final = re.compile(r"java\.lang\.OutOfMemoryError: ?(.*)")
_MEMORY_ERROR: Final = re.compile(r"^(?:\S+\.)?\w*MemoryError(?:: .*)?$", re.MULTILINE)
_KILLED_TASK: Final = "Python worker exited unexpectedly"
_KILLED_EXECUTOR: Final = re.compile(
    r"ExecutorLostFailure.*?(?:code:? \[?(?:3|52|137|143)\b|exceeding (?:physical )?memory limits)"
)
"""3: `spark_jobs.driver.EXIT_OPTION`; 52: Spark's own code; the others: a container's limit."""
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')


def write_package(work: Path) -> Path:
    """Write a zip file with this package, as far as a task needs it, to a folder; return it."""
    target = work / "ackbench.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for pattern in _SENT:
            for file in sorted(PACKAGE.glob(pattern)):
                package.write(file, file.relative_to(PACKAGE.parent))
    return target


def explain_failure(
    text: str, master: str, python: str = "python3", executor_memory: str = "1g"
) -> str | None:
    """Return why Spark could not run the job, in one line; `None`: not for a known reason.

    Args:
        text: Spark's error with the executor's traceback.
        master: Spark's master.
        python: the command of the executors' Python.
        executor_memory: the heap of an executor that is not local.
    """
    if module := _MISSING_MODULE.search(text):
        return (
            f"the executors' Python ({python}) has no module {module[1]}: "
            f"install numpy, pyarrow and pydantic there, or send an environment ({GUIDE})"
        )
    if versions := _OTHER_VERSION.search(text):
        return (
            f"the executors' Python ({python}) is {versions[1].rstrip('.')}, the driver's is "
            f"{versions[2].rstrip('.')}: set PYSPARK_PYTHON to the same minor version ({GUIDE})"
        )
    if program := _NO_PROGRAM.search(text):
        return (
            f"an executor cannot run its Python {program[1]}: set PYSPARK_PYTHON to a Python that "
            f"every executor has ({GUIDE})"
        )
    if memory := _explain_memory(text, master, executor_memory):
        return memory
    if _STOPPED.search(text) and not is_local(master):
        return (
            f"the master {master} stopped the application or never accepted it: check in Spark's "
            "log that the address is that of a Spark master, and that the cluster's Spark has the "
            "driver's version"
        )
    return None


def _explain_memory(text: str, master: str, executor_memory: str) -> str | None:
    """Return which process had too little memory and what to do; `None`: that is not known."""
    smaller = (
        "make the units smaller, as with --conf spark.ackbench.unitRecords=1000000 (a trial with "
        "keys, compaction or replays remains one unit, of 370 to 1,030 bytes per record)"
    )
    if error := _MEMORY_ERROR.search(text):
        return f"a task ran out of memory ({error[0]}): {smaller}"
    heap = _HEAP_FULL.search(text)
    if heap and is_local(master):
        return (
            f"Spark's driver ran out of memory ({heap[0].strip()}): give it more with --conf "
            "spark.driver.memory=2g (by default 1g)"
        )
    if heap or _KILLED_EXECUTOR.search(text):
        return (
            f"an executor ran out of memory (heap of {executor_memory}): give it more with --conf "
            "spark.executor.memory=2g, or its tasks with spark.executor.memoryOverhead; or "
            f"{smaller}"
        )
    if _KILLED_TASK in text:
        return (
            "the Python process of a task was killed, as the kernel does when the machine has no "
            f"memory left: {smaller}"
        )
    return None


def last_error(text: str) -> str:
    """Return the last line before the first Java trace: the message of an executor's exception."""
    before_trace = text.partition("\n\tat ")[0].splitlines()
    return next((line for line in reversed(before_trace) if line.strip()), text).strip()


def job_failure(reason: str | None, text: str) -> SparkSetupError | SparkJobError:
    """Return the error of a job that failed: why it cannot run, if that is known.

    Args:
        reason: in one line; `None`: it is not known.
        text: Spark's own.
    """
    if reason:
        return SparkSetupError(reason)
    failure = SparkJobError(last_error(text))
    failure.add_note(text)
    return failure


@contextmanager
def executor_failures(context: SparkContext) -> Iterator[None]:
    """Turn the failure of a job into the reason why executors could not run it, if that is known.

    Jobs are cancelled if no executor has started in time: Spark would wait for ever.

    Raises:
        SparkSetupError: the executors cannot run the job; one line.
        SparkJobError: the job failed for another reason.
    """
    master, executor_memory, wait_s = str(context.master), "", EXECUTOR_WAIT_S
    if not is_local(master):  # a local master has its executor from the start
        settings = context.getConf()
        executor_memory = settings.get("spark.executor.memory", "1g") or ""
        wait_s = whole_seconds(EXECUTOR_WAIT, settings.get(EXECUTOR_WAIT), EXECUTOR_WAIT_S)
    watch = _ExecutorWatch(context, wait_s)
    timer = threading.Timer(wait_s, watch.check)
    timer.daemon = True
    if not is_local(master):
        timer.start()
    try:
        yield
    except (Py4JError, PySparkException, OSError, EOFError) as error:
        text = str(error)  # which is lost when the JVM exits
        reason = (
            _end_of_jvm(context, error)
            or watch.failure
            or explain_failure(text, master, context.pythonExec, executor_memory)
        )
        raise job_failure(reason, text) from None
    finally:
        timer.cancel()


def _end_of_jvm(context: SparkContext, error: Exception) -> str | None:
    """Return why the driver's JVM ended; `None`: it runs, and reported the error itself."""
    is_reported = isinstance(error, (Py4JJavaError, PySparkException))
    return None if is_reported else why_ended(context)


class _ExecutorWatch:
    """Cancels a context's jobs if it has no executor."""

    def __init__(self, context: SparkContext, wait_s: float) -> None:
        self._context = context
        self._wait_s = wait_s
        self.failure: str | None = None
        """Why the jobs were cancelled, in one line; `None`: they were not."""

    def check(self) -> None:
        """Look for an executor once."""
        if len(self._context.statusTracker().getExecutorInfos()) > 1:  # the driver is listed, too
            return
        self.failure = (
            f"{self._context.master} started no executor in {self._wait_s:g} s: check on its "
            "page that workers are alive and have the cores and the memory that are requested "
            "(spark.executor.cores, spark.executor.memory), and that they can reach the driver "
            "(spark.driver.host); where executors only start slowly, wait longer with --conf "
            f"{EXECUTOR_WAIT}={2 * self._wait_s:.0f}"
        )
        self._context.cancelAllJobs()
