"""The Spark master and settings that measure the sweeps of this process and its children.

As variables they also reach the tasks of a DAG. What no variable names is that of the user's
spark-defaults.conf.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from ackbench.experiments.ledger.spark_settings import (
    MASTER,
    SparkSetupError,
    default_settings,
    parse_settings,
)
from ackbench.experiments.messages.errors import SparkError

MASTER_VARIABLE: Final = "ACKBENCH_SPARK_MASTER"
SETTINGS_VARIABLE: Final = "ACKBENCH_SPARK_CONF"
"""Settings as `key=value`, one per line."""
_LOCAL_TASKS: Final = re.compile(r"local\[(\d+)[,\]]")


def configure_spark(master: str | None, settings: Sequence[str]) -> None:
    """Set master and settings of all jobs that this process and its children start.

    Args:
        master: Spark's master; `None`: that of the environment or of Spark's configuration.
        settings: Spark's settings as `key=value`; none: those of the environment.

    Raises:
        SparkError: a setting has another form.
    """
    _parsed(settings)
    if master:
        os.environ[MASTER_VARIABLE] = master
    if settings:
        os.environ[SETTINGS_VARIABLE] = "\n".join(settings)


def spark_arguments() -> list[str]:
    """Return the job's arguments for the master and the settings that the environment names."""
    master = os.environ.get(MASTER_VARIABLE)
    return [
        *([f"--master={master}"] if master else []),
        *(f"--conf={setting}" for setting in _named_settings()),
    ]


def named_master() -> str | None:
    """Return the master that the user names, as the job will find it; `None`: nowhere.

    Raises:
        SparkError: a setting has another form, or spark-defaults.conf cannot be read.
    """
    named = os.environ.get(MASTER_VARIABLE) or _parsed(_named_settings()).get(MASTER)
    if named:
        return named
    try:
        return default_settings().get(MASTER)
    except SparkSetupError as error:
        raise SparkError(str(error)) from error


def is_on_cluster() -> bool:
    """Return whether the user names a master that is not local.

    Raises:
        SparkError: as `named_master`.
    """
    return not (named_master() or "local").startswith("local")


def tasks_at_once(cores: int) -> int:
    """Return how many tasks a local master runs at once, on a machine with some cores.

    Raises:
        SparkError: as `named_master`.
    """
    master = named_master() or "local[*]"
    if tasks := _LOCAL_TASKS.match(master):
        return int(tasks[1])
    return 1 if master == "local" else cores


def _named_settings() -> list[str]:
    return [line for line in os.environ.get(SETTINGS_VARIABLE, "").splitlines() if line]


def _parsed(settings: Sequence[str]) -> dict[str, str]:
    try:
        return parse_settings(settings)
    except SparkSetupError as error:
        raise SparkError(str(error)) from error
