"""Spark's context for one run of the job: a driver JVM of its own, on this machine or a cluster.

The JVM writes its log and its files where the caller requests it. With a local master it listens on
loopback only. With another one, addresses, resources and the executors' Python are the user's, from
`--conf`, spark-defaults.conf and spark-env.sh.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from ackbench.experiments.ledger.spark_settings import MASTER, SparkSetupError, spark_home
from ackbench.spark_jobs.application import Application
from ackbench.spark_jobs.configuration import (
    PYTHON,
    ContextRequest,
    check_deploy_mode,
    check_master,
    is_local,
    whole_seconds,
)
from ackbench.spark_jobs.distribution import MeasuredTrials, measure_trials
from ackbench.spark_jobs.driver import (
    EXIT_OPTION,
    DriverJvm,
    end_jobs,
    has_ended,
    kill_all,
    note_jvm,
)
from ackbench.spark_jobs.executors import (
    EXECUTOR_WAIT,
    EXECUTOR_WAIT_S,
    PACKAGE,
    executor_failures,
    explain_failure,
    write_package,
)
from ackbench.spark_jobs.io.ledgers import Ledgers
from ackbench.spark_jobs.limits import LIMIT_SETTING, StepLimit, limited

LOOPBACK: Final = "127.0.0.1"
DEFAULT_MASTER: Final = "local[*]"
PYTHON_VARIABLE: Final = "PYSPARK_PYTHON"

_LOG4J: Final = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""
_SETTINGS: Final = {
    "spark.app.name": "ackbench measure",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Without the UI, Spark still keeps this history.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.python.daemon.module": "ackbench.spark_jobs.python_daemon",
    "spark.executorEnv.PYTHONPATH": str(PACKAGE.parent),
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # nothing from the working folder
}
_ERROR: Final = re.compile("rror|xception|nvalid")
_DRIVER_OPTIONS: Final = "spark.driver.defaultJavaOptions"
_EXECUTOR_OPTIONS: Final = "spark.executor.defaultJavaOptions"
_USER_DRIVER_OPTIONS: Final = frozenset({_DRIVER_OPTIONS, "spark.driver.extraJavaOptions"})


@dataclass(frozen=True)
class ContextApplication(Application):
    """A context of this process."""

    context: SparkContext

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, which the JVM has."""
        with self.failures():
            value: str | None = self.context.getConf().get(name)
        return value

    def failures(self) -> AbstractContextManager[None]:
        """Return a context that turns failures into reasons."""
        return executor_failures(self.context)

    def end_jobs(self) -> None:
        """End the jobs, with the JVM unless it is spark-submit's."""
        end_jobs(self.context)

    @property
    def has_ended(self) -> bool:
        """Whether the JVM has ended."""
        return has_ended(self.context)

    def measure_trials(self, ledgers: Ledgers, unit_records: int) -> MeasuredTrials:
        """Measure each trial; large tables stay with Spark until they are fetched."""
        return measure_trials(self.context, ledgers, unit_records)


@contextmanager
def spark_context(request: ContextRequest) -> Iterator[SparkContext]:
    """Start Spark, and stop its JVM when the context ends; a process does so once.

    Under spark-submit the JVM is already running: its options and its log stay unchanged, and the
    request's settings replace its own.

    Raises:
        SparkSetupError: the master does not answer, or Spark refuses a setting.
    """
    request.work.mkdir(parents=True, exist_ok=True)
    start = _submitted_context if "PYSPARK_GATEWAY_PORT" in os.environ else _own_context
    with start(request) as context:
        if not is_local(str(context.master)):
            with _start_errors(str(context.master)):
                context.addPyFile(str(write_package(request.work)))
        yield context


@contextmanager
def _submitted_context(request: ContextRequest) -> Iterator[SparkContext]:
    """Create a context in the JVM of spark-submit."""
    if request.master:
        check_master(request.master)
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    user = gateway.jvm.org.apache.spark.SparkConf(True)
    own = {**_SETTINGS, _EXECUTOR_OPTIONS: EXIT_OPTION}
    own = {key: value for key, value in own.items() if not user.contains(key)}
    conf = SparkConf(loadDefaults=False).setAll(list({**own, **request.settings}.items()))
    if request.master:
        conf.setMaster(request.master)
    context = _create(gateway, request.master or user.get(MASTER, DEFAULT_MASTER), conf)
    try:
        yield context
    finally:
        context.stop()


@contextmanager
def _own_context(request: ContextRequest) -> Iterator[SparkContext]:
    """Create a context in a JVM of its own."""
    user = request.user_settings
    master = request.named_master or DEFAULT_MASTER
    check_master(master)
    check_deploy_mode(user)
    whole_seconds(EXECUTOR_WAIT, user.get(EXECUTOR_WAIT), EXECUTOR_WAIT_S)
    settings = {**request.settings, **driver_settings(request, master, user), MASTER: master}
    limit = StepLimit.of(user.get(LIMIT_SETTING))
    with _variables(driver_variables(request, master, user)):
        gateway, context = _launch(request, settings, limit), None
        try:
            with limited("the start of Spark", limit, gateway.proc.kill):
                context = _create(gateway, master)
                heap_bytes = gateway.jvm.java.lang.Runtime.getRuntime().maxMemory()
            note_jvm(context, DriverJvm(gateway.proc, heap_bytes, request.log))
            yield context
        finally:
            _stop(gateway, context, limit)


def _launch(request: ContextRequest, settings: Mapping[str, str], limit: StepLimit) -> JavaGateway:
    """Start the driver's JVM, with its output in the log.

    It exits when this process does, because its standard input then closes. If this process is
    interrupted before the JVM has started, PySpark would leave it behind: it is killed.
    """
    import psutil  # not at the top: a driver of spark-submit starts no JVM, and may not have it

    log_begin_bytes = request.log.stat().st_size if request.log.exists() else 0
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    process = psutil.Process()
    before = process.children()

    def started() -> list[psutil.Process]:
        # Spark's script runs a JVM of its own to make the command of the driver's.
        begun = [child for child in process.children() if child not in before]
        return [*begun, *(one for child in begun for one in child.children(recursive=True))]

    with (
        request.log.open("ab") as log,
        limited("the start of Spark's JVM", limit, lambda: kill_all(started())),
    ):
        try:
            return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except PySparkException as error:
            reason = _first_error(request.log, log_begin_bytes) or str(error)
            raise SparkSetupError(f"Spark's JVM did not start: {reason}") from error
        except KeyboardInterrupt:
            for child in started():
                child.kill()
                child.wait()
            raise


def driver_settings(
    request: ContextRequest, master: str, user: Mapping[str, str]
) -> dict[str, str]:
    """Return the job's settings; those of the user replace them, or follow in the same option."""
    settings = dict(_SETTINGS)
    if is_local(master):
        settings |= _LOCAL_SETTINGS
    options = user.get(_DRIVER_OPTIONS, "")
    if not _USER_DRIVER_OPTIONS & user.keys():  # two garbage collectors would be an error
        configuration = request.work / "log4j2.properties"
        configuration.write_text(_LOG4J.format(log=request.log))
        options = f'"-Dlog4j2.configurationFile={configuration.as_uri()}" {request.java_options}'
    java = {_DRIVER_OPTIONS: options}
    if not is_local(master):
        java[_EXECUTOR_OPTIONS] = user.get(_EXECUTOR_OPTIONS, "")
    return {
        **{key: value for key, value in settings.items() if key not in user},
        **{key: f"{EXIT_OPTION} {value}".strip() for key, value in java.items()},
    }


def driver_variables(
    request: ContextRequest, master: str, user: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that Spark's scripts, its JVM and PySpark read."""
    variables = {
        # Without it, the launcher calls the first python3 on PATH to find it.
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_DIRS": os.environ.get("SPARK_LOCAL_DIRS", str(request.work / "local")),
    }
    if is_local(master):
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", LOOPBACK)
        variables[PYTHON_VARIABLE] = sys.executable
    if PYTHON in user:
        variables[PYTHON_VARIABLE] = user[PYTHON]
    return variables


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process's environment until the context ends."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _first_error(log: Path, begin_bytes: int) -> str | None:
    """Return the first line of the log that names an error.

    A JVM that cannot use the start-up cache says so and goes on ("[error][aot] An error has ...").
    """
    with log.open("rb") as file:
        file.seek(begin_bytes)
        lines = file.read().decode(errors="replace").splitlines()
    return next((line for line in lines if _ERROR.search(line) and "[aot" not in line), None)


def _create(gateway: JavaGateway, master: str, conf: SparkConf | None = None) -> SparkContext:
    """Create the context in the gateway's JVM, which has read Spark's configuration."""
    with _start_errors(master):
        return SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _start_errors(master: str) -> Iterator[None]:
    """Turn the refusal of a setting, or of the application by the master, into one line."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        text = str(error)
        reason = explain_failure(text, master) or f"Spark did not start: {_message(error)}"
        raise SparkSetupError(reason) from None


def _message(error: Exception) -> str:
    """Return the first line of an error; of a Java exception, its own message and its root's."""
    java: Any = getattr(error, "java_exception", None)
    if java is None:
        return _first_line(str(error))
    own = _first_line(str(java.getMessage() or java.toString()))
    root = java
    while root.getCause() is not None:
        root = root.getCause()
    reason = _first_line(str(root.toString()))
    return own if root is java or str(root.getMessage()) in own else f"{own} ({reason})"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _stop(gateway: JavaGateway, context: SparkContext | None, limit: StepLimit) -> None:
    """Let the JVM exit, which stops the context, and wait for it.

    `SparkContext.stop` takes 0.3 to 1.4 s more of a job of 6 s: it waits for its thread that
    receives accumulators. So its private name is used: without it the thread would print that its
    connection was closed.
    A JVM that trains a start-up cache (JEP 514) writes it at its exit. That takes 10 to 20 s of
    CPU, and with a load of 60 on two cores more than two minutes.

    Raises:
        SparkSetupError: the JVM did not exit, and was killed.
    """
    if context is not None:
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(limit.seconds)
    except subprocess.TimeoutExpired:
        raise SparkSetupError(limit.exceeded("the exit of Spark's JVM")) from None
    finally:
        process.kill()  # no effect on a process that has exited
