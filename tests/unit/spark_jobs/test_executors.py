"""Why executors cannot run the job, in one line."""

from pyspark.errors import PySparkRuntimeError

from spark_jobs.executors import explain_failure


def test_a_missing_module_is_named() -> None:
    """So is the Python that lacks it."""
    trace = """org.apache.spark.SparkException: Job aborted due to stage failure:
  File "/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 459, in loads
ModuleNotFoundError: No module named 'numpy'
\tat org.apache.spark.api.python.BasePythonRunner"""
    reason = explain_failure(trace, "python3")
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
    reason = explain_failure(str(error), "python3")
    assert reason is not None
    assert reason.startswith("the executors' Python (python3) is 3.12, the driver's is 3.11: set")


def test_a_program_that_does_not_exist_is_named() -> None:
    """The text is that of Java's ProcessBuilder."""
    trace = 'java.io.IOException: Cannot run program "/opt/python": error=2, No such file'
    reason = explain_failure(trace, "/opt/python")
    assert reason is not None
    assert reason.startswith("an executor cannot run its Python /opt/python: ")


def test_another_failure_is_not_explained() -> None:
    """It keeps its trace."""
    assert explain_failure("java.lang.OutOfMemoryError: Java heap space", "python3") is None


def test_an_application_that_the_master_stopped_is_explained() -> None:
    """So Spark reports a master that never answered a registration."""
    trace = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    reason = explain_failure(trace, "python3")
    assert reason is not None
    assert reason.startswith("the master stopped the application or never accepted it: ")
