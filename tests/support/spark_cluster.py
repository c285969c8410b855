"""A standalone Spark cluster for tests, and a Connect server, both of the package pyspark.

The cluster has a master and two workers, each with one core and 2 GiB. Everything listens on
loopback, and logs and files are in the caller's folder.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark

from ackbench.infra.jvm.runtime import java_environment, spark_java_home
from ackbench.infra.kafka.kraft import LOOPBACK
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.process.waiting import wait_until

WORKERS: Final = 2
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster."""

    master: str
    """The master's URL, `spark://127.0.0.1:PORT`."""
    page: str
    """The address of the master's JSON page."""
    worker_pids: tuple[int, ...]
    driver_settings: tuple[str, ...] = (
        f"spark.driver.host={LOOPBACK}",
        f"spark.driver.bindAddress={LOOPBACK}",
        f"spark.executor.defaultJavaOptions={_JAVA_OPTIONS}",
    )
    """Settings with which an application on this machine uses loopback and starts fast."""

    def state(self) -> Mapping[str, Any]:
        """Return the master's own account of its workers and applications."""
        with urllib.request.urlopen(self.page, timeout=5) as answer:  # noqa: S310 - loopback
            found: Mapping[str, Any] = json.load(answer)
        return found

    def kill_executor_with_task(self, timeout_s: float = 120.0) -> int:
        """Wait until an executor runs a Python task, kill the executor, and return its pid.

        An executor starts a Python worker when it is given its first task.

        Raises:
            WaitTimeout: no executor ran a task in time.
        """
        executor = wait_until(
            self._executor_with_task,
            awaiting="an executor that runs a task",
            timeout_s=timeout_s,
            every_s=0.01,
            seen=lambda: f"{len(list(self._executors()))} executors",
        )
        executor.send_signal(signal.SIGKILL)  # psutil compares the start time first
        return executor.pid

    def _executors(self) -> Iterator[psutil.Process]:
        for pid in self.worker_pids:
            for child in psutil.Process(pid).children():
                with suppress(psutil.NoSuchProcess):
                    if _EXECUTOR in child.cmdline():
                        yield child

    def _executor_with_task(self) -> psutil.Process | None:
        for executor in self._executors():
            with suppress(psutil.NoSuchProcess):
                # The daemon is the executor's child, and a worker that of the daemon.
                if any(daemon.children() for daemon in executor.children()):
                    return executor
        return None


@contextmanager
def spark_cluster(
    folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[SparkCluster]:
    """Start a cluster, wait until its workers are registered, and stop it when the context ends.

    Args:
        folder: the folder of logs and files; created if it is missing.
        environment: variables that all executors have, such as an object store's credentials.

    Raises:
        WaitTimeout: a worker did not register in time; see the logs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    variables = spark_environment(folder, environment or {})
    with ExitStack() as stack:
        reservation = reserve_ports(2 + 2 * WORKERS)
        stack.callback(reservation.release)
        port, page_port, *worker_ports = map(str, reservation.ports)
        master = f"spark://{LOOPBACK}:{port}"
        page = f"http://{LOOPBACK}:{page_port}/json/"
        stack.enter_context(
            _daemon(folder / "master.log", variables, "master.Master", port, page_port)
        )
        _wait_for_page(page, 0, folder)  # a worker repeats its first registration after 10 s only
        workers = [
            stack.enter_context(
                _daemon(
                    folder / f"worker-{number}.log",
                    variables,
                    "worker.Worker",
                    *worker_ports[2 * number : 2 * number + 2],
                    *("--cores", "1", "--memory", "2g"),
                    *("--work-dir", str(folder / f"worker-{number}"), master),
                )
            )
            for number in range(WORKERS)
        ]
        _wait_for_page(page, WORKERS, folder)
        yield SparkCluster(master, page, tuple(worker.pid for worker in workers))


@dataclass(frozen=True)
class ConnectServer:
    """A running server of Spark Connect."""

    url: str
    """`sc://127.0.0.1:PORT`."""
    pid: int


@contextmanager
def connect_server(
    folder: Path,
    python: str | Path,
    spark_home: Path | None = None,
    java_options: str = _JAVA_OPTIONS,
) -> Iterator[ConnectServer]:
    """Start a server of Spark Connect on two cores of this machine, and stop it with the context.

    Args:
        folder: the folder of its log and files; created if it is missing.
        python: of its tasks.
        spark_home: its Spark; `None`: that of the package pyspark.
        java_options: of its JVM; the default ones start fast.

    Raises:
        WaitTimeout: it did not listen in time; see the log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        reservation = reserve_ports(1)
        stack.callback(reservation.release)
        (port,) = reservation.ports
        settings = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": port,
            "spark.driver.host": LOOPBACK,
            "spark.ui.enabled": "false",
        }
        environment = spark_environment(folder, {"PYSPARK_PYTHON": str(python)})
        if spark_home:
            environment["SPARK_HOME"] = str(spark_home)
        command = [
            f"{environment['SPARK_HOME']}/bin/spark-submit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", "local[2]"),
            *(f"--conf={name}={value}" for name, value in settings.items()),
            *([f"--driver-java-options={java_options}"] if java_options else []),
        ]
        with run_process(command, environment, folder / "server.log") as process:
            wait_until(
                lambda: _is_listening(port),
                awaiting=f"the Connect server, see {folder}/server.log",
                timeout_s=START_TIMEOUT_S,
            )
            yield ConnectServer(f"sc://{LOOPBACK}:{port}", process.pid)


def _is_listening(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=5):
            return True
    except OSError:
        return False


def spark_environment(folder: Path, further: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process of Spark whose files are in a folder, and further ones."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **java_environment(inherited),
        "JAVA_HOME": str(spark_java_home(folder / "cache")),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
        **further,
    }


@contextmanager
def _daemon(
    log: Path, environment: Mapping[str, str], name: str, port: str, page_port: str, *further: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon of the cluster, and stop it and its children when the context ends."""
    command = [
        f"{environment['SPARK_HOME']}/bin/spark-class",
        f"org.apache.spark.deploy.{name}",
        *("--host", LOOPBACK, "--port", port, "--webui-port", page_port),
        *further,
    ]
    with run_process(command, environment, log) as process:
        yield process


@contextmanager
def run_process(
    command: list[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of Spark, and stop it and its children when the context ends."""
    with log.open("ab") as output:
        process = spawn_dying_with_parent(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent
        )
    try:
        yield process
    finally:
        children = _descendants(process.pid)
        process.terminate()  # a worker ends its executors
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        process.kill()  # no effect on one that has ended
        process.wait()
        for left in psutil.wait_procs(children, timeout=5)[1]:
            left.kill()


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _wait_for_page(page: str, workers: int, folder: Path) -> None:
    def is_ready() -> bool:
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:  # noqa: S310 - loopback
                return bool(json.load(answer)["aliveworkers"] >= workers)
        except (OSError, ValueError):  # not listening, or its page is not complete yet
            return False

    wait_until(
        is_ready,
        awaiting=f"the Spark master and {workers} workers to start, see the logs in {folder}",
        timeout_s=START_TIMEOUT_S,
    )
