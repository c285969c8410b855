"""One Spark session for a whole sweep, and a JVM that keeps its chatter, its files and its sockets to itself."""

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
"""An orderly end also writes the start-up cache when one is being trained, which takes a while."""

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
    # Nobody looks at the history of what was run, and without a page it is kept all the same.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.buffer.pageSize": "1m",  # else 32 MiB for each sort, aggregate and broadcast, most of which hold a few rows
    "spark.sql.shuffle.partitions": "4",  # what is shuffled is 64 times smaller than the ledger
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # compressed ledgers look tiny and would be broadcast whole
    "spark.sql.adaptive.enabled": "false",  # every plan is known; planning each stage anew costs more than it finds
    "spark.sql.session.timeZone": "UTC",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # else each operation on a column asks the JVM six times where in Python it stands
}
_LOOPBACK: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@dataclass(frozen=True)
class SessionRequest:
    """Where a session may write, and what it runs on."""

    work: Path
    """Spark's local files, its warehouse and its log configuration; the caller removes it."""
    log: Path
    """What the JVM has to say."""
    master: str | None = None
    """`None`: what spark-submit was told, else all cores of this machine."""
    java_options: str = ""
    """Further options of the driver's JVM, quoted as for a shell."""


@contextmanager
def spark_session(request: SessionRequest) -> Iterator[SparkSession]:
    """Start Spark, and end its JVM in order and for certain.

    Under spark-submit the JVM is there already: its options, its log and its master (unless one is named) stay as they are.
    """
    conf = _conf(request)
    gateway = _gateway(request, conf)
    try:
        spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        yield spark
        spark.stop()
    finally:
        _end(gateway)


def _submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _conf(request: SessionRequest) -> SparkConf:
    """Return the settings; those that only a JVM of our own can have are left out under spark-submit."""
    conf = SparkConf(loadDefaults=False).setAll(list(_SETTINGS.items()))
    conf.set("spark.local.dir", str(request.work / "local")).set(
        "spark.sql.warehouse.dir", str(request.work / "warehouse")
    )
    master = request.master or (None if _submitted() else "local[*]")
    if master:
        conf.setMaster(master)
    if not _submitted():
        options = f'"-Dlog4j2.configurationFile={_log_configuration(request).as_uri()}" {request.java_options}'
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
    """Start the JVM with its output in the log; it ends when this process does, because its standard input then closes."""
    os.environ.setdefault(
        "SPARK_HOME", str(Path(pyspark.__file__).parent)
    )  # else the launcher asks whatever python3 is on PATH
    with request.log.open("ab") as log:
        return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]


def _end(gateway: JavaGateway) -> None:
    """Ask the JVM to exit, by closing its standard input, and see it gone; under spark-submit it is not ours to end."""
    process = gateway.proc
    gateway.shutdown()
    if process is None:
        return
    process.stdin.close()
    try:
        process.wait(JVM_EXIT_TIMEOUT_S)
    finally:
        process.kill()  # no effect on one that has ended
