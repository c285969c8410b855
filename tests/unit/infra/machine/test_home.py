"""The home is its owner's alone, whatever the umask, and is no folder with other content."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from support.command_line import ackbench
from support.modes import accessible_to_others

from ackbench.infra.errors import MachineError
from ackbench.infra.jvm.startup_cache import startup_cache
from ackbench.infra.machine import home as home_module
from ackbench.infra.machine.home import Home

RUN = Path(__file__).parents[3] / "support" / "fakes" / "run_command.py"
ONE_CELL = ("--set", "acks=all", "--set", "fault=leader-pause", "--set", "replication.factor=3")


@pytest.mark.further(umask=[0o000, 0o022])
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_the_home_of_a_run_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """That of a command and of all the processes that it starts."""
    home = tmp_path / "home"
    run = subprocess.run(
        [sys.executable, str(RUN), "completes", "run", "quick", "--no-controls", *ONE_CELL],
        env={**os.environ, "ACKBENCH_HOME": str(home)},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert {"sweeps", "logs", "runs"} <= {path.name for path in home.iterdir()}
    assert accessible_to_others(home) == {}


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_an_existing_home_becomes_private(tmp_path: Path, mode: int) -> None:
    """With all in it; programs stay executable, and links are not followed."""
    outside, home = tmp_path / "outside", Home(tmp_path / "home")
    outside.touch()
    outside.chmod(0o644)
    home.cache.mkdir(parents=True)
    for file, bits in (("data", 0o644), ("program", 0o755)):
        (home.cache / file).touch()
        (home.cache / file).chmod(bits)
    (home.cache / "link").symlink_to(outside)
    for folder in (home.cache, home.root):
        folder.chmod(mode)
    home.ensure_writable()
    assert accessible_to_others(home.root) == {}
    assert stat.S_IMODE((home.cache / "program").stat().st_mode) == 0o700
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


@pytest.fixture
def home_of_another(tmp_path: Path) -> Iterator[Home]:
    """Return a home of the user 65534."""
    home = Home(tmp_path / "home")
    home.ensure_writable()
    os.chown(home.root, 65534, 65534)
    yield home
    home_module._report_owner.cache_clear()
    shutil.rmtree(home.root)


@pytest.mark.root
def test_the_home_of_another_user_is_refused(
    home_of_another: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns a folder controls what is run from it; the message names the owner."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match=r"belongs to \S+, not to \S+: set ACKBENCH_HOME"):
        home_of_another.ensure_writable()


@pytest.mark.root
def test_root_is_warned_of_the_home_of_another_user(
    home_of_another: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once: in a container, the folders of the host often have another owner."""
    for _ in range(2):
        home_of_another.ensure_writable()
    assert capsys.readouterr().err.count("warning: the home folder") == 1


def test_a_folder_with_other_content_is_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and exit code 2, and nothing in it is changed: `clean` deletes in a home."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    (tmp_path / "thesis").mkdir(mode=0o755)
    refused = ackbench("run", "quick")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "is not a home of ackbench, as it has other content (thesis)" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
    (tmp_path / "sweeps").mkdir()
    Home(tmp_path).ensure_writable()


def test_a_home_whose_cache_is_a_link_uses_the_start_up_caches_of_the_other_home(
    tmp_path: Path,
) -> None:
    """The JVM would silently ignore them under other paths, and start slowly."""
    other, linked = Home(tmp_path / "other"), Home(tmp_path / "linked")
    other.cache.mkdir(parents=True)
    (other.cache / "kafka.jar").write_bytes(b"")
    linked.root.mkdir()
    (linked.root / "cache").symlink_to(other.cache)

    def cache_of(home: Home) -> Path:
        return startup_cache(home.cache, "kafka", [home.cache / "kafka.jar"], []).file

    assert cache_of(linked) == cache_of(other)


def test_a_clone_has_its_own_home_and_an_installation_that_of_the_user(tmp_path: Path) -> None:
    """The user's data folder by XDG's specification, in which a relative path does not count."""
    data = {"XDG_DATA_HOME": str(tmp_path)}

    assert home_module.default_root(tmp_path / "clone", data) == tmp_path / "clone" / ".ackbench"
    assert home_module.default_root(None, data) == tmp_path / "ackbench"
    for environment in ({}, {"XDG_DATA_HOME": "relative"}, {"XDG_DATA_HOME": ""}):
        usual = Path.home().resolve() / ".local" / "share" / "ackbench"
        assert home_module.default_root(None, environment) == usual


def test_a_user_without_a_home_folder_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in /etc/passwd; one line."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(MachineError, match="has no home folder") as error:
        home_module.default_root(None, {})
    assert "set ACKBENCH_HOME to a writable folder" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (
            '{"url": "file:///a%20clone/dist/ackbench.whl"}',
            " @ file:///a%20clone/dist/ackbench.whl",
        ),
        (None, ""),
    ],
)
def test_the_remedy_for_a_missing_package_installs_from_where_this_one_came(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, expected: str
) -> None:
    """No registry has what was built in a clone."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            return origin if name == "direct_url.json" else None

    monkeypatch.setattr(metadata, "distribution", lambda _: Installed())
    assert home_module._source() == expected
