"""Why executors cannot run the job, in one line."""

import pytest
from pyspark.errors import PySparkRuntimeError

from ackbench.spark_jobs.executors import explain_failure

CLUSTER = "spark://spark.example:7077"
STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."


def test_a_missing_module_is_named() -> None:
    """So is the Python that lacks it."""
    trace = """org.apache.spark.SparkException: Job aborted due to stage failure:
  File "/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 459, in loads
ModuleNotFoundError: No module named 'numpy'
\tat org.apache.spark.api.python.BasePythonRunner"""
    reason = explain_failure(trace, CLUSTER, "python3")
    assert reason is not None
    assert reason.startswith("the executors' Python (python3) has no module numpy: ")
    assert "docs/running.md" in reason
    assert "\n" not in reason


def test_another_minor_version_of_python_is_named() -> None:
    """The text is PySpark's own."""
    error = PySparkRuntimeError(
        errorClass="PYTHON_VERSION_MISMATCH",
        messageParameters={"worker_version": "3.12", "driver_version": "3.11"},
    )
    reason = explain_failure(str(error), CLUSTER, "python3")
    assert reason is not None
    assert reason.startswith("the executors' Python (python3) is 3.12, the driver's is 3.11: set")


def test_a_program_that_does_not_exist_is_named() -> None:
    """The text is that of Java's ProcessBuilder."""
    trace = 'java.io.IOException: Cannot run program "/opt/python": error=2, No such file'
    reason = explain_failure(trace, CLUSTER, "/opt/python")
    assert reason is not None
    assert reason.startswith("an executor cannot run its Python /opt/python: ")


def test_another_failure_is_not_explained() -> None:
    """It keeps its trace."""
    assert explain_failure("java.lang.StackOverflowError", CLUSTER) is None


def test_an_application_that_the_master_stopped_is_explained() -> None:
    """So Spark reports a master that never answered a registration."""
    reason = explain_failure(STOPPED, CLUSTER)
    assert reason is not None
    assert reason.startswith(f"the master {CLUSTER} stopped the application or never accepted it: ")


def test_no_master_is_named_if_spark_stops_on_this_machine() -> None:
    """There is none: the driver runs the tasks."""
    assert explain_failure(STOPPED, "local[*]") is None


HEAP_FULL = "java.lang.OutOfMemoryError: Java heap space"
EXECUTOR_LOST = (
    "Lost task 0.3 in stage 0.0 (TID 3) (127.0.0.1 executor 3): ExecutorLostFailure (executor 3 "
    "exited caused by one of the running tasks) Reason: Command exited with code 3"
)
NUMPY = "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 3.2 GiB for an array"
WORKER_LOST = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    ("master", "text", "process", "setting"),
    [
        (
            "local[*]",
            f"Job aborted: {HEAP_FULL}\n\tat java.base",
            f"Spark's driver ran out of memory ({HEAP_FULL})",
            "spark.driver.memory=2g",
        ),
        (
            CLUSTER,
            EXECUTOR_LOST,
            "an executor ran out of memory (heap of 1g)",
            "spark.executor.memory=2g",
        ),
        (
            CLUSTER,
            f"Traceback (most recent call last):\n  File x\n{NUMPY}\n\n\tat org.apache",
            f"a task ran out of memory ({NUMPY})",
            "spark.ackbench.unitRecords=1000000",
        ),
        (
            "local[2]",
            WORKER_LOST,
            "the Python process of a task was killed, as the kernel does",
            "spark.ackbench.unitRecords=1000000",
        ),
    ],
)
def test_a_process_without_memory_is_named_with_the_setting_that_gives_it_more(
    master: str, text: str, process: str, setting: str
) -> None:
    """The texts are Spark's and NumPy's own."""
    reason = explain_failure(text, master)
    assert reason is not None
    assert reason.startswith(process)
    assert f"--conf {setting}" in reason
    assert "\n" not in reason
