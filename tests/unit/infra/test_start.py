"""The start of a process: what this machine is, and whose modules are imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import start
from infra.machine.home import REPOSITORY

NAMES = ("experiments", "infra", "spark_jobs", "airflow", "numba")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a folder with packages and modules of the names that ackbench imports."""
    folder = tmp_path / "project"
    for name in (*NAMES, "dags"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('shadowed')\n")
    for name in ("click", "json", "pydantic"):
        (folder / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
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


@pytest.mark.parametrize("module", ["experiments", "infra", "spark_jobs"])
def test_a_shadowed_module_is_named_with_both_folders(tmp_path: Path, module: str) -> None:
    """One that comes earlier on Python's path."""
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").touch()
    found = start.shadowed([str(tmp_path), str(REPOSITORY)], REPOSITORY)

    assert found is not None
    assert f"the module {module} is taken from {tmp_path / module}, not from {REPOSITORY}" in found


def test_a_folder_without_a_package_shadows_nothing(tmp_path: Path) -> None:
    """Python imports a package that comes later, as its import system documents."""
    (tmp_path / "infra").mkdir()

    assert start.shadowed([str(tmp_path), str(REPOSITORY)], REPOSITORY) is None


def test_the_packages_are_found_where_they_are_complete(foreign: Path) -> None:
    """Whatever comes first on the path has some of the names, but not ackbench's files."""
    assert start.own_folder([str(foreign), str(REPOSITORY)]) == REPOSITORY
    assert start.own_folder([str(foreign)]) is None


@pytest.mark.parametrize("variable", [False, True])
def test_a_child_imports_what_its_parent_does(foreign: Path, variable: bool) -> None:
    """From a working folder that has modules of the same names, and with one in PYTHONPATH."""
    (foreign / "json.py").unlink()  # of Python itself, which nothing can be done about
    environment = {**os.environ, "PYTHONPATH": str(foreign)} if variable else dict(os.environ)
    command = start.module_command("infra.process.sessions")
    ran = subprocess.run(
        command, cwd=foreign, env=environment, capture_output=True, text=True, check=False
    )

    assert "shadowed" not in ran.stderr
    assert str(REPOSITORY / "infra" / "process" / "sessions.py") in ran.stderr


def test_the_command_says_which_module_pythonpath_shadows(foreign: Path) -> None:
    """One line and exit code 2; the entry point's own name is no folder of a user's."""
    (foreign / "json.py").unlink()  # of Python itself, which nothing can be done about
    entry = Path(start.__file__).with_name("ackbench_start.py")
    program = f"import runpy; runpy.run_path({str(entry)!r})['main']()"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program, "list"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(foreign), str(REPOSITORY)))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr.count("\n")) == (start.INVALID, 1), ran.stderr
    assert f"the module experiments is taken from {foreign / 'experiments'}" in ran.stderr
