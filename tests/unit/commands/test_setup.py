"""Set-up: its steps, its record in the home, and what it says before a sweep."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from support.command_line import ackbench
from support.needed_programs import skip_without

from ackbench.experiments.commands import setup
from ackbench.experiments.commands.setup import COMPILED_MODULES
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.home import SET_UP_FILE, Home

PROGRAM = """
import sys
from pathlib import Path
from ackbench.experiments.commands import setup

class Cache:
    def __init__(self):
        self.made = False
    def __truediv__(self, name):
        return self
    def exists(self):
        return False
    @property
    def parent(self):
        return self
    def mkdir(self, **_):
        pass
    def touch(self):
        self.made = True

cache = Cache()
setup.cache_folder = lambda: cache
setup.ensure_compiled(print)
print("imported:", *[name for name in setup.COMPILED_MODULES if name in sys.modules])
print("marked:", cache.made)
"""


def test_the_marker_is_written_after_the_clients_were_compiled() -> None:
    """Importing the clients' loops compiles them; a marker without that would hide the cost."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()

    assert COMPILED_MODULES
    assert f"imported: {' '.join(COMPILED_MODULES)}" in lines
    assert "marked: True" in lines


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home."""
    return Home(tmp_path)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the steps of the set-up; return the list that the lines of a sweep's user go to."""

    def make_ready(home: Home, say: setup.Say) -> bool:
        say("1 of 5: fetching")
        record(home, "0.0.1")
        return True

    monkeypatch.setattr(setup, "make_ready", make_ready)
    return []


def record(home: Home, version: str) -> None:
    """Write that a version has set up the home."""
    found = setup.SetUp.of_this_process().model_copy(update={"ackbench": version})
    (home.root / SET_UP_FILE).write_text(found.model_dump_json())


def test_a_sweep_says_that_it_sets_up_a_new_home_first(home: Home, made: list[str]) -> None:
    """It never pays for the set-up silently."""
    setup.ensure_set_up(home, made.append)

    assert made[0].startswith(f"the home {home.root} was not set up yet: setting it up first")
    assert made[1:] == ["1 of 5: fetching"]


def test_a_home_of_an_earlier_version_is_set_up_again(home: Home, made: list[str]) -> None:
    """And both versions are named."""
    record(home, "0.0.9")
    setup.ensure_set_up(home, made.append)

    assert f"by ackbench {version('ackbench')} but by ackbench 0.0.9 on Python" in made[0]


def test_a_home_that_is_set_up_is_not_looked_at_again(home: Home, made: list[str]) -> None:
    """A sweep costs no time for it."""
    record(home, version("ackbench"))
    setup.ensure_set_up(home, made.append)

    assert made == []


def test_a_home_of_a_later_version_is_refused(home: Home, made: list[str]) -> None:
    """Its databases may have a form that this version does not know; one line."""
    record(home, "99.1.0")
    with pytest.raises(MachineError, match=r"was set up by ackbench 99\.1\.0, this is ") as error:
        setup.ensure_set_up(home, made.append)
    assert "set ACKBENCH_HOME to another folder" in str(error.value)
    assert "\n" not in str(error.value)
    assert made == []


def test_services_do_not_start_in_a_home_of_a_later_version(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would migrate its databases back, or fail."""
    record(home, "99.1.0")
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    result = ackbench("up", "--as-root")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "was set up by ackbench 99.1.0, this is " in result.stderr


@pytest.mark.parametrize("content", ["", "{", '{"ackbench": 1}'])
def test_a_damaged_record_counts_as_none(home: Home, made: list[str], content: str) -> None:
    """The set-up is made again, which costs little where nothing is missing."""
    (home.root / SET_UP_FILE).write_text(content)
    setup.ensure_set_up(home, made.append)

    assert "was not set up yet" in made[0]


def test_each_step_says_its_place_and_how_long_it_took() -> None:
    """A step that finds everything says nothing."""
    lines: list[str] = []

    assert setup._made(lambda say: say("fetching"), lines.append)
    assert not setup._made(lambda _: None, lines.append)
    assert lines == ["fetching", "done (0 s)"]


@pytest.mark.root
def test_a_disk_without_space_for_the_set_up_is_named_before_anything_is_made(
    tmp_path: Path,
) -> None:
    """A JVM that has no space for its start-up cache says nothing; it was waited for in vain."""
    skip_without("mount", "umount")
    mount = f"mount -t tmpfs -o size=70m tmpfs {shlex.quote(str(tmp_path))}"
    begin = f"{mount} && exec {shlex.quote(sys.executable)} -m ackbench setup"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", begin],
        env={**os.environ, "ACKBENCH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert f"the disk of {tmp_path}/home has 73 MB free, the set-up takes up to " in ran.stderr


@pytest.mark.further
@pytest.mark.root
def test_without_the_network_the_set_up_ends_with_one_line(tmp_path: Path) -> None:
    """In a network namespace with loopback only; the line names what was asked, and the log."""
    begin = f"ip link set lo up; exec {shlex.quote(sys.executable)} -m ackbench setup"
    ran = subprocess.run(
        ["unshare", "--net", "sh", "-c", begin],
        env={**os.environ, "ACKBENCH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "cannot resolve the jars of Kafka" in ran.stderr
    assert "Maven Central is reachable" in ran.stderr


def test_jars_that_cannot_be_fetched_end_the_set_up(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are fetched while other steps run; the record of a complete set-up is not written."""

    def unreachable(*_: object) -> None:
        raise MachineError("the jars of Kafka cannot be fetched from here")

    def nothing(*_: object) -> None:
        return

    monkeypatch.setattr(setup, "ensure_jars", unreachable)
    for step in (
        "ensure_compiled",
        "ensure_spark_ready",
        "_ensure_mlflow_store",
        "ensure_kafka_ready",
    ):
        monkeypatch.setattr(setup, step, nothing)
    with pytest.raises(MachineError, match="cannot be fetched from here"):
        setup.make_ready(home, nothing)
    assert not (home.root / SET_UP_FILE).exists()


def test_both_trainings_run_at_the_same_time_under_one_machine_lock(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other one here. They would wait for each other's lock for ever."""
    both = threading.Barrier(2, timeout=30)
    held: list[str] = []

    @contextmanager
    def lock(_home: Home, holder: str, _say: object) -> Iterator[None]:
        held.append(holder)
        yield
        held.append("released")

    def train(load: Callable[[], AbstractContextManager[object]]) -> None:
        with load():
            both.wait()
            assert "released" not in held

    monkeypatch.setattr(setup, "hold_machine_lock_for_command", lock)
    monkeypatch.setattr(setup, "ensure_jars", lambda *_: None)
    monkeypatch.setattr(setup, "ensure_compiled", lambda *_: None)
    monkeypatch.setattr(setup, "_ensure_mlflow_store", lambda *_: None)
    monkeypatch.setattr(setup, "ensure_spark_ready", lambda _home, _say, load: train(load))
    monkeypatch.setattr(setup, "ensure_kafka_ready", lambda _cache, _spec, _say, load: train(load))
    setup.make_ready(home, lambda _: None)
    assert set(held) == {"set-up", "released"}
    assert held.index("released") == len(held) // 2  # none is released before both are done
