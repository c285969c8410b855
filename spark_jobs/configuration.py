"""The settings of a job: its master, and the user's settings, which replace the job's own.

What cannot work is refused here, before a JVM starts: Spark itself would retry for minutes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ackbench.experiments.ledger.spark_settings import MASTER, SparkSetupError, default_settings

PYTHON: Final = "spark.pyspark.python"
"""The Python of the executors; the variable PYSPARK_PYTHON is its other name."""
GUIDE: Final = 'docs/running.md, "On your own Spark"'
PROBE_TIMEOUT_S: Final = 10.0

_DEPLOY_MODE: Final = "spark.submit.deployMode"
_MASTERS: Final = "local[N], spark://HOST:PORT, yarn, k8s://https://HOST:PORT, sc://HOST:PORT"
_LOCAL: Final = re.compile(r"local(\[[^\]]*\])?")
_STANDALONE: Final = "spark://"
CONNECT: Final = "sc://"
_CONNECT_PORT: Final = 15002
"""The server's own default."""
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the variable's name
"""PySpark's variable with the token of a Connect server."""
_OTHER_MASTER: Final = re.compile(r"yarn|k8s://.+|local-cluster\[.*\]")


class SparkJobError(Exception):
    """A job failed in Spark: one line with its last error; Spark's own text is in the notes."""


@dataclass(frozen=True)
class ContextRequest:
    """Where Spark writes, and on which master it runs."""

    work: Path
    """Spark's local files and its log configuration; the caller removes it."""
    log: Path
    """The JVM's log and output."""
    master: str | None = None
    """`None`: the master of spark-submit or of Spark's configuration, else this machine's cores."""
    java_options: str = ""
    """Further options of the driver's JVM, quoted as for a shell; the user's replace them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the user sets for this run (`--conf`)."""

    @cached_property
    def user_settings(self) -> Mapping[str, str]:
        """All that the user sets: `settings` replace those of spark-defaults.conf."""
        return {**default_settings(), **self.settings}

    @property
    def named_master(self) -> str | None:
        """The master that the user names anywhere; `None`: nowhere."""
        return self.master or self.user_settings.get(MASTER)


def whole_seconds(name: str, setting: str | None, default_s: float) -> float:
    """Return a setting that is a time, seconds.

    Args:
        name: of the setting.
        setting: the user's value; `None`: there is none.
        default_s: its value then.

    Raises:
        SparkSetupError: the setting is not a whole number above 0.
    """
    if setting is None:
        return default_s
    if not setting.isdecimal() or not int(setting):
        raise SparkSetupError(f"{name}={setting}: allowed is a whole number of seconds from 1 on")
    return int(setting)


def check_deploy_mode(settings: Mapping[str, str]) -> None:
    """Check that the driver is to run in this process.

    Raises:
        SparkSetupError: it is to run in the cluster, which only spark-submit can ask for.
    """
    if settings.get(_DEPLOY_MODE, "client") != "client":
        raise SparkSetupError(
            f"{_DEPLOY_MODE}={settings[_DEPLOY_MODE]}: the driver is this process; run it in the "
            "cluster with spark-submit --deploy-mode cluster spark_jobs/measure.py and the URI of "
            f"the sweep ({GUIDE}), or leave the setting out"
        )


def is_local(master: str) -> bool:
    """Return whether executors of this master are threads of the driver's JVM."""
    return _LOCAL.fullmatch(master) is not None


def is_connect(master: str) -> bool:
    """Return whether a master is the address of a Spark Connect server."""
    return master.startswith(CONNECT)


def check_master(master: str) -> None:
    """Check that Spark supports the master; of a standalone one, that it answers.

    Raises:
        SparkSetupError: Spark does not support it, or no master of the list accepts connections.
    """
    if master.startswith(_STANDALONE):
        _check_standalone(master)
    elif is_connect(master):
        _check_connect(master)
    elif not is_local(master) and not _OTHER_MASTER.fullmatch(master):
        raise SparkSetupError(f"master {master}: Spark has no such master; give one of {_MASTERS}")


def _check_connect(master: str) -> None:
    """Check the address of a Connect server; PySpark itself would try for ten minutes."""
    try:
        parts = urlsplit(master)
        host, port = parts.hostname, parts.port or _CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if not host:
        raise SparkSetupError(f"master {master}: give host and port, as in {CONNECT}HOST:15002")
    if parts.username or parts.password or "token=" in parts.path:
        raise SparkSetupError(
            f"master {CONNECT}{host}:{port}: it is shown and stored, so give the token in the "
            f"variable {_TOKEN}"
        )
    if reason := _why_refused(host, port):
        raise SparkSetupError(
            f"the Spark Connect server {master} does not answer ({reason}): check that it runs, "
            "and its host and port (15002 by default)"
        )


def _why_refused(host: str, port: int) -> str | None:
    """Return why a server does not accept a connection; `None`: it does."""
    try:
        with closing(socket.create_connection((host, port), PROBE_TIMEOUT_S)):
            return None
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"


def _check_standalone(master: str) -> None:
    """Connect to each master of `spark://HOST:PORT,HOST:PORT` until one accepts."""
    reasons = []
    for host, port in _addresses(master):
        reason = _why_refused(host, port)
        if reason is None:
            return
        reasons.append(reason)
    raise SparkSetupError(
        f"the Spark master {master} does not answer ({'; '.join(reasons)}): check that it runs, "
        "and that host and port are those of its URL (by default port 7077, not that of its page)"
    )


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    for address in master.removeprefix(_STANDALONE).split(","):
        try:
            parts = urlsplit(f"//{address}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port:
            raise SparkSetupError(
                f"master {master}: give host and port, as in {_STANDALONE}HOST:7077"
            )
        yield host, port
