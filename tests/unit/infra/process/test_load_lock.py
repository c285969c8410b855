"""One load at a time on this machine, whichever home starts it; real processes take the lock."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.load_lock import hold_machine_lock

HOLDER = """
import sys
from pathlib import Path
from ackbench.infra.machine.home import Home
from ackbench.infra.process.load_lock import hold_machine_lock
home, say = Home(Path(sys.argv[1])), lambda text: print(text, flush=True)
with hold_machine_lock(home, "quick-1", say, 60):
    print("held", flush=True)
    sys.stdin.read()
"""


class NamelessSocket(socket.socket):
    """A socket where a sandbox allows no abstract names."""

    def bind(self, _address: object) -> None:
        """Refuse."""
        raise PermissionError(errno.EPERM, "Operation not permitted")


@contextmanager
def a_holder(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the lock until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.fixture(params=["of the same home", "of another home"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the home of the other load; the test's is `tmp_path / "a"`."""
    return tmp_path / ("a" if request.param == "of the same home" else "b")


def test_a_load_waits_for_the_one_that_runs_and_names_it(tmp_path: Path, other: Path) -> None:
    """At once, and not when the wait has ended."""
    holders: list[str] = []
    with (
        a_holder(other) as process,
        pytest.raises(WaitTimeout, match=r"held by quick-1 \(process \d+, started \d\d:\d\d"),
        hold_machine_lock(Home(tmp_path / "a"), "mine", holders.append, timeout_s=0.2),
    ):
        pytest.fail("two loads at a time")
    (holder,) = holders
    assert re.fullmatch(
        rf"quick-1 \(process {process.pid}, started \d\d:\d\d(, home {re.escape(str(other))})?\)",
        holder,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_lock_ends_with_its_holder(tmp_path: Path, other: Path, number: signal.Signals) -> None:
    """However that ends: the kernel releases it."""
    with a_holder(other) as process:
        process.send_signal(number)
        with hold_machine_lock(Home(tmp_path / "a"), "mine", lambda _: None, timeout_s=60):
            assert process.wait(60) != 0


def test_a_killed_waiter_leaves_the_lock_with_its_holder(tmp_path: Path) -> None:
    """It had taken the lock of its own home; the next load of that home gets both parts."""
    home = Home(tmp_path / "a")
    holders: list[str] = []
    with (
        hold_machine_lock(Home(tmp_path / "b"), "mine", holders.append),
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(home.root)], stdout=subprocess.PIPE, text=True
        ) as waiter,
    ):
        assert waiter.stdout
        assert waiter.stdout.readline().startswith(f"mine (process {os.getpid()}, started ")
        waiter.kill()
    with hold_machine_lock(home, "next", holders.append, timeout_s=60):
        assert holders == []


def test_a_process_that_holds_the_lock_may_take_it_again(tmp_path: Path) -> None:
    """An embedded run takes it once, and so does each of its steps."""
    holders: list[str] = []
    for _ in range(2):
        with (
            hold_machine_lock(Home(tmp_path), "mine", holders.append),
            hold_machine_lock(Home(tmp_path), "again", holders.append),
        ):
            assert holders == []


def test_without_abstract_sockets_the_lock_of_the_home_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And a warning says that loads of other homes are not excluded."""
    monkeypatch.setattr("ackbench.infra.process.load_lock.socket.socket", NamelessSocket)
    with hold_machine_lock(Home(tmp_path), "mine", lambda _: None):
        assert "only loads of this home wait for each other" in caplog.text
