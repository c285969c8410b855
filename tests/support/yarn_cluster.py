"""A YARN cluster for tests: Hadoop's ResourceManager and one NodeManager, as processes.

Their classes are in `hadoop-client-minicluster`, of the version of Hadoop in the package pyspark.
Everything listens on loopback, and logs and files are in the caller's folder.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pyspark
from support.spark_cluster import START_TIMEOUT_S, run_process, spark_environment

from ackbench.infra.kafka.kraft import LOOPBACK
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.process.waiting import wait_until

SPARK_HOME: Final = Path(pyspark.__file__).parent
_LOGGING: Final = ("slf4j-api", "log4j", "commons-logging", "jcl-over-slf4j")
"""Jars of Spark that Hadoop's need."""
_BOUNCY_CASTLE: Final = "1.84"
_FETCH: Final = """
import sys
from pathlib import Path
from jgo.maven import MavenContext
context = MavenContext(repo_cache=Path(sys.argv[1]), timeout=60)
for coordinates in sys.argv[2:]:
    print(context.create_dependency(coordinates).artifact.resolve())
"""
_OPTIONS: Final = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_MANAGERS: Final = "org.apache.hadoop.yarn.server"


def hadoop_version() -> str:
    """Return the version of Hadoop in the package pyspark."""
    (jar,) = (SPARK_HOME / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def hadoop_jars(repository: Path) -> list[str]:
    """Return the jars of ResourceManager and NodeManager; they are fetched into a folder.

    Raises:
        subprocess.CalledProcessError: one cannot be fetched.
    """
    certificates = repository / "trusted.pem"
    repository.mkdir(parents=True, exist_ok=True)
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    certificates.write_text("".join(map(ssl.DER_cert_to_PEM_cert, trusted)))
    environment = dict(os.environ)
    if trusted:
        environment.setdefault("REQUESTS_CA_BUNDLE", str(certificates))
    coordinates = [
        f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}",
        *(f"org.bouncycastle:{name}-jdk18on:{_BOUNCY_CASTLE}" for name in ("bcprov", "bcpkix")),
        f"org.bouncycastle:bcutil-jdk18on:{_BOUNCY_CASTLE}",
    ]
    found = subprocess.run(
        [sys.executable, "-c", _FETCH, str(repository), *coordinates],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return found.stdout.split()


@dataclass(frozen=True)
class YarnCluster:
    """A running cluster."""

    configuration: Path
    """Its HADOOP_CONF_DIR."""
    settings: tuple[str, ...]
    """Spark's settings with which an application needs no upload of jars, and few resources."""


@contextmanager
def yarn_cluster(folder: Path, jars: Sequence[str]) -> Iterator[YarnCluster]:
    """Start a cluster, wait until its node is registered, and stop it when the context ends.

    Args:
        folder: the folder of logs and files; created if it is missing.
        jars: of `hadoop_jars`.

    Raises:
        WaitTimeout: the node did not register in time; see the logs.
    """
    configuration = folder / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    own = sorted(
        str(jar)
        for jar in (SPARK_HOME / "jars").glob("*.jar")
        if jar.name.startswith(("hadoop-client-", *_LOGGING))
    )
    class_path = ":".join([str(configuration), *jars, *own])
    environment = spark_environment(folder, {})
    java = f"{environment['JAVA_HOME']}/bin/java"
    with ExitStack() as stack:
        reservation = reserve_ports(5)
        stack.callback(reservation.release)
        _write(configuration / "core-site.xml", {"fs.defaultFS": "file:///"})
        _write(configuration / "yarn-site.xml", _yarn_settings(folder, reservation.ports))
        _write(
            configuration / "capacity-scheduler.xml",
            {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
            },
        )
        page = f"http://{LOOPBACK}:{reservation.ports[-1]}/ws/v1/cluster/metrics"
        for manager in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
            command = [java, *_OPTIONS, "-cp", class_path, f"{_MANAGERS}.{manager}"]
            stack.enter_context(run_process(command, environment, folder / f"{manager}.log"))
        wait_until(
            lambda: _active_nodes(page) == 1,
            awaiting=f"the node of the YARN cluster, see the logs in {folder}",
            timeout_s=START_TIMEOUT_S,
        )
        settings = (
            f"spark.yarn.jars=local:{SPARK_HOME}/jars/*",
            f"spark.yarn.stagingDir=file://{folder}/staging",
            "spark.executor.memory=512m",
        )
        yield YarnCluster(configuration, settings)


def _yarn_settings(folder: Path, ports: Sequence[int]) -> Mapping[str, str]:
    manager = "yarn.resourcemanager"
    names = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
    addresses = (*names, "webapp.address")
    return {
        f"{manager}.hostname": LOOPBACK,
        **{
            f"{manager}.{name}": f"{LOOPBACK}:{port}"
            for name, port in zip(addresses, ports, strict=True)
        },
        **{
            f"yarn.nodemanager.{name}": f"{LOOPBACK}:0"
            for name in ("address", "localizer.address", "webapp.address")
        },
        "yarn.nodemanager.hostname": LOOPBACK,
        "yarn.nodemanager.bind-host": LOOPBACK,
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "containers"),
        "yarn.nodemanager.resource.memory-mb": "6144",
        "yarn.nodemanager.resource.cpu-vcores": "4",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.scheduler.minimum-allocation-mb": "128",
    }


def _write(file: Path, settings: Mapping[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(text)}</value></property>\n"
        for name, text in settings.items()
    )
    file.write_text(f"<configuration>\n{properties}</configuration>\n")


def _active_nodes(page: str) -> int:
    try:
        with urllib.request.urlopen(page, timeout=5) as answer:  # noqa: S310 - loopback
            return int(json.load(answer)["clusterMetrics"]["activeNodes"])
    except (OSError, ValueError):  # not listening yet
        return 0
