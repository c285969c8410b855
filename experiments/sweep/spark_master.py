"""The Spark master that measures the sweeps of this process and its children.

As a variable it also reaches the tasks of a DAG.
"""

from __future__ import annotations

import os
import re
from typing import Final

MASTER_VARIABLE: Final = "ACKBENCH_SPARK_MASTER"
_LOCAL_TASKS: Final = re.compile(r"local\[(\d+)[,\]]")


def named_master() -> str | None:
    """Return the master that the environment names; `None`: that of Spark's configuration."""
    return os.environ.get(MASTER_VARIABLE)


def is_on_cluster() -> bool:
    """Return whether the environment names a master that is not local."""
    return not (named_master() or "local").startswith("local")


def tasks_at_once(cores: int) -> int:
    """Return how many tasks a local master runs at once, on a machine with some cores."""
    master = named_master() or "local[*]"
    if tasks := _LOCAL_TASKS.match(master):
        return int(tasks[1])
    return 1 if master == "local" else cores
