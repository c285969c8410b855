"""The wheel has everything that ackbench needs when there is no clone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from infra.machine.home import REPOSITORY

PACKAGES: Final = ("dags", "experiments", "infra", "spark_jobs")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and return its path."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    """DAGs, catalogue, templates, lists of jars, Java sources; the start script is at its top."""
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.split()
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        "ackbench_start.py" if file == "infra/ackbench_start.py" else file for file in listed
    }

    assert len(expected) > 300
    assert expected - names == set()
    assert {name.partition("/")[0] for name in names} - set(PACKAGES) == {
        "ackbench_start.py",
        "ackbench-0.1.0.dist-info",
    }


def test_the_command_starts_from_an_unpacked_wheel_and_no_clone(
    wheel: Path, tmp_path: Path
) -> None:
    """With the packages of this environment, from a folder with modules of the same names."""
    site, project = tmp_path / "site", tmp_path / "project"
    zipfile.ZipFile(wheel).extractall(site)
    for name in ("experiments", "infra", "dags"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise RuntimeError('shadowed')\n")
    program = (
        "import sys, runpy; "
        f"sys.path[:0] = [{str(site)!r}]; sys.argv = ['ackbench', 'list']; "
        f"runpy.run_path({str(site / 'ackbench_start.py')!r})['main']()"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": "/usr/bin:/bin"},
    )

    assert ran.returncode == 0, ran.stderr
    assert "acks-levels" in ran.stdout
