"""The start of a process: what this machine is, and whose modules are imported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ackbench.infra import start

OUR_FOLDERS = ("dags", "experiments", "infra", "spark_jobs")
LIBRARIES = ("airflow", "numba", "json", "pydantic")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with packages that are named as ackbench's folders are."""
    folder = tmp_path / "project"
    for name in OUR_FOLDERS:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('shadowed')\n")
    return folder


@pytest.mark.parametrize(
    ("system", "machine", "python", "reason"),
    [
        ("linux", "x86_64", (3, 10), "Python 3.10 is not supported; allowed: 3.11, 3.12 or 3.13"),
        ("linux", "aarch64", (3, 14), "Python 3.14 is not supported"),
        ("linux", "riscv64", (3, 12), "the architecture riscv64 is not supported; allowed: x86_64"),
        ("darwin", "aarch64", (3, 12), "the system darwin is not supported; allowed: linux"),
    ],
)
def test_what_is_not_supported_is_said_in_one_line(
    system: str, machine: str, python: tuple[int, ...], reason: str
) -> None:
    """Before anything is imported, which would fail with a traceback."""
    found = start.unsupported(system, machine, python)

    assert found is not None
    assert found.startswith(reason)
    assert "\n" not in found


@pytest.mark.parametrize("machine", start.ARCHITECTURES)
@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13)])
def test_what_is_supported_starts(machine: str, python: tuple[int, ...]) -> None:
    """Those that the wheel's metadata and the documents name."""
    assert start.unsupported("linux", machine, python) is None


@pytest.mark.parametrize("variable", [False, True])
def test_packages_of_a_project_do_not_shadow_those_of_ackbench(
    project: Path, variable: bool
) -> None:
    """From a working folder that has packages of the same names, and with it in PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": str(project)} if variable else dict(os.environ)
    ran = run_child(project, environment)

    assert "shadowed" not in ran.stderr
    assert str(Path(start.__file__).with_name("process") / "sessions.py") in ran.stderr


def test_modules_of_the_working_folder_are_not_imported(project: Path) -> None:
    """Not those with a library's name either, which would end ackbench in a stranger's code."""
    for name in LIBRARIES:
        (project / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")

    assert "shadowed" not in run_child(project, dict(os.environ)).stderr


def run_child(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a module that needs arguments, and so ends with its own name."""
    command = start.module_command("ackbench.infra.process.sessions")
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
