"""One Spark session per sweep, with a JVM of its own.

The JVM writes its log and its files where the caller requests it, and listens on loopback only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

JVM_EXIT_TIMEOUT_S: Final = 120
"""Long, because a JVM that trains a start-up cache (JEP 514) writes it at its exit."""

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
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Without the UI, Spark still keeps this history.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.maxPlanStringLength": "1000",
    # The default is 32 MiB for each sort, aggregate and broadcast; most hold a few rows.
    "spark.buffer.pageSize": "1m",
    # Shuffled rows are 64 times fewer than the ledger's.
    "spark.sql.shuffle.partitions": "4",
    # Spark estimates a ledger by its compressed size, and would broadcast all of it.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # The plans are fixed: planning each stage again costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Otherwise each operation on a column makes six JVM calls to record its position in Python.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_LOOPBACK: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@dataclass(frozen=True)
class SessionRequest:
    """Where a session writes, and on which master it runs."""

    work: Path
    """Spark's local files, its warehouse and its log configuration; the caller removes it."""
    log: Path
    """The JVM's log and output."""
    master: str | None = None
    """`None`: the master of spark-submit, else all cores of this machine."""
    java_options: str = ""
    """Further options of the driver's JVM, quoted as for a shell."""


@contextmanager
def spark_session(request: SessionRequest) -> Iterator[SparkSession]:
    """Start Spark, and stop its JVM when the context ends.

    Under spark-submit the JVM is already running: its options, its log and (unless the request
    names one) its master stay unchanged.
    """
    conf = _conf(request)
    gateway = _gateway(request, conf)
    try:
        spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        yield spark
        spark.stop()
    finally:
        _stop(gateway)


def _submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _conf(request: SessionRequest) -> SparkConf:
    """Return the settings; under spark-submit, without those of the JVM."""
    conf = SparkConf(loadDefaults=False).setAll(list(_SETTINGS.items()))
    conf.set("spark.local.dir", str(request.work / "local")).set(
        "spark.sql.warehouse.dir", str(request.work / "warehouse")
    )
    master = request.master or (None if _submitted() else "local[*]")
    if master:
        conf.setMaster(master)
    if not _submitted():
        logging = f'"-Dlog4j2.configurationFile={_log_configuration(request).as_uri()}"'
        options = f"{logging} {request.java_options}"
        conf.set("spark.driver.extraJavaOptions", options.strip())
    if master and master.startswith("local"):
        conf.setAll(list(_LOOPBACK.items()))
    return conf


def _log_configuration(request: SessionRequest) -> Path:
    request.work.mkdir(parents=True, exist_ok=True)
    configuration = request.work / "log4j2.properties"
    configuration.write_text(_LOG4J.format(log=request.log))
    return configuration


def _gateway(request: SessionRequest, conf: SparkConf) -> JavaGateway:
    """Start the JVM, with its output in the log.

    It exits when this process does, because its standard input then closes.
    """
    # Without SPARK_HOME, the launcher calls the first python3 on PATH to find it.
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    with request.log.open("ab") as log:
        return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]


def _stop(gateway: JavaGateway) -> None:
    """Close the JVM's standard input and wait until it exits; not under spark-submit."""
    process = gateway.proc
    gateway.shutdown()
    if process is None:
        return
    process.stdin.close()
    try:
        process.wait(JVM_EXIT_TIMEOUT_S)
    finally:
        process.kill()  # no effect on a process that has exited
