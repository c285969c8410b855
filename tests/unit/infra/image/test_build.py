"""What `make image` takes from the lock and from apt, and what it says when it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from ackbench.infra.image import build
from ackbench.infra.machine.home import REPOSITORY

LOCK: Final = """numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via pandas
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
numpydoc==1 \\
    --hash=sha256:dd
"""
TARGETS: Final = """http://mirror.example/debian/ bookworm main Debian bookworm
http://mirror.example/debian/ bookworm-updates main Debian bookworm-updates
http://mirror.example/debian/ trixie main Debian trixie
http://packages.example/node/ nodistro main .node nodistro
"""


def test_the_entries_of_a_package_keep_their_digests_and_markers() -> None:
    """Of a package with two versions pip chooses by the marker."""
    chosen = build.locked(LOCK, frozenset({"numpy"}))
    assert chosen == LOCK.partition("numpydoc")[0]


def test_only_debians_own_archives_of_one_release_are_sources() -> None:
    """The machine may have other releases, and packages of others."""
    assert list(build.debian_sources(TARGETS, "bookworm")) == [
        "deb http://mirror.example/debian/ bookworm main",
        "deb http://mirror.example/debian/ bookworm-updates main",
    ]


def test_missing_programs_are_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.main([]) == 2
    assert capsys.readouterr().err == (
        "image: mmdebstrap, podman, apt-get: not on PATH: apt-get install "
        "--no-install-recommends mmdebstrap podman crun apt (Debian 12 or newer)\n"
    )


def test_a_step_that_fails_is_one_line_and_names_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk, or a registry that is not reached: the program has said which."""
    for program in build.PROGRAMS:
        (tmp_path / program).write_text("#!/bin/sh\necho 'no space left' >&2\nexit 28\n")
        (tmp_path / program).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    real_run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **options: real_run(["mmdebstrap"], **options))
    assert build.main(["--stage", "check"]) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("image: `uv pip compile ...` failed with exit code 28, see above;")


def test_each_image_is_a_stage_of_the_recipe() -> None:
    """`podman build --target` knows them by name."""
    recipe = (REPOSITORY / "infra" / "image" / "Containerfile").read_text()
    stages = {line.split(" AS ")[1] for line in recipe.splitlines() if line.startswith("FROM ")}
    assert stages == set(build.EXTRAS)


def test_the_recipe_pulls_nothing_and_ends_as_an_ordinary_user() -> None:
    """`FROM` is Debian as this machine's apt has it."""
    recipe = (REPOSITORY / "infra" / "image" / "Containerfile").read_text()
    bases = [line.split()[1] for line in recipe.splitlines() if line.startswith("FROM ")]
    users = [line.split()[1] for line in recipe.splitlines() if line.startswith("USER ")]
    assert bases == ["${BASE}", "check"]
    assert users == ["10001:10001"]
