"""The wheel has everything that ackbench needs when there is no clone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from ackbench.infra.machine.home import REPOSITORY

PACKAGES: Final = ("dags", "experiments", "infra", "spark_jobs")
PROGRAM: Final = """
import sys
sys.path[:0] = sys.argv[1:]
sys.argv = ['ackbench', 'list']
from ackbench.__main__ import main
try:
    main()
finally:
    print(sys.modules['ackbench'].__file__)
"""


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


def test_the_wheel_has_every_file_of_the_packages_and_one_name(wheel: Path) -> None:
    """DAGs, catalogue, templates, lists of jars, Java sources: below `ackbench`, and once."""
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.split()
    found = zipfile.ZipFile(wheel).namelist()

    assert len(listed) > 300
    assert {f"ackbench/{file}" for file in listed} - set(found) == set()
    assert len(found) == len(set(found))
    assert {name.partition("/")[0] for name in found} == {"ackbench", "ackbench-0.1.0.dist-info"}


@pytest.mark.further
def test_the_command_starts_from_an_unpacked_wheel_and_no_clone(
    wheel: Path, tmp_path: Path
) -> None:
    """With the libraries of this environment, in a project whose packages have the same names."""
    site, project = tmp_path / "site", tmp_path / "project"
    zipfile.ZipFile(wheel).extractall(site)
    for name in PACKAGES:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise RuntimeError('shadowed')\n")
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(project), str(site)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": "/usr/bin:/bin"},
    )

    assert ran.returncode == 0, ran.stderr
    assert "acks-levels" in ran.stdout
    assert ran.stdout.splitlines()[-1] == str(site / "ackbench" / "__init__.py")
