"""The reader's process starts with a command, ends with it however it ends, and gets no secret."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import psutil
import pytest
from support.command_line import ackbench

from ackbench.experiments.pages.live.files import LOCK, PAGE, live_folder
from ackbench.experiments.pages.live.process import (
    LiveOptions,
    ReaderProcess,
    live_page,
    reader_command,
    reader_environment,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import wait_until

SWEEP = "quick-20260101T000000-abcd"
COMMAND = f"""
import sys, time
from ackbench.experiments.pages.live.process import LiveOptions, live_page
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
home = Home.from_environment()
with live_page(home, SweepFolder(home.sweeps / "{SWEEP}"), LiveOptions(), print):
    print("started", flush=True)
    time.sleep(600)
"""


def readers_of(pid: int) -> list[ProcessIdentity]:
    """Return the children of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [ProcessIdentity.of(int(child)) for child in children]


def test_the_reader_ends_with_a_command_that_is_killed(home: Home) -> None:
    """The kernel ends it (PR_SET_PDEATHSIG); the page stays, and says that it is old."""
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        env={**os.environ, "ACKBENCH_HOME": str(home.root)},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    page = live_folder(home) / PAGE
    wait_until(page.is_file, awaiting="the live page", timeout_s=120)
    (reader,) = readers_of(command.pid)
    command.send_signal(signal.SIGKILL)
    command.wait()
    wait_until(lambda: not reader.is_alive(), awaiting="the end of the reader", timeout_s=30)
    assert page.is_file()


def test_the_reader_writes_the_end_of_a_run_and_exits(home: Home) -> None:
    """Its process is on idle CPUs only."""
    said: list[str] = []
    page = live_folder(home) / PAGE
    with live_page(home, SweepFolder(home.sweeps / SWEEP), LiveOptions(), said.append) as check:
        wait_until(page.is_file, awaiting="the live page", timeout_s=120)
        (reader,) = [
            one
            for one in readers_of(os.getpid())
            if b"ackbench.experiments.pages.live.reader" in command_of(one)
        ]
        assert os.sched_getscheduler(reader.pid) == os.SCHED_IDLE
        check()
    assert said == [f"live page: {page} (ackbench open live)"]
    assert not reader.is_alive()


def command_of(process: ProcessIdentity) -> bytes:
    """Return a process's command line."""
    return Path(f"/proc/{process.pid}/cmdline").read_bytes()


def test_a_reader_that_exits_is_said_once_with_its_reason(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run goes on."""
    monkeypatch.setattr(
        "ackbench.experiments.pages.live.process.reader_command",
        lambda *_: [sys.executable, "-c", "import sys; sys.exit('no memory')"],
    )
    said: list[str] = []
    with live_page(home, SweepFolder(home.sweeps / SWEEP), LiveOptions(), said.append) as check:
        wait_until(lambda: check() or len(said) > 1, awaiting="the remark", timeout_s=60)
        check()
    assert len(said) == 2
    assert said[1].startswith("no live page: no memory (log: ")


def test_a_killed_reader_leaves_no_old_figures(home: Home) -> None:
    """The page says that it has no data, and the run goes on."""
    said: list[str] = []
    page = live_folder(home) / PAGE
    with live_page(home, SweepFolder(home.sweeps / SWEEP), LiveOptions(), said.append) as check:
        wait_until(page.is_file, awaiting="the live page", timeout_s=120)
        reader_of_this_process().kill()
        wait_until(lambda: check() or len(said) > 1, awaiting="the remark", timeout_s=60)
        assert "its process exited by SIGKILL" in said[1]
        assert "its process exited by SIGKILL" in page.read_text()
        assert "The run goes on" in page.read_text()
    assert "The run has ended" in page.read_text()


def test_a_reader_that_does_not_end_leaves_no_old_figures(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped, so it cannot write that the run has ended."""
    monkeypatch.setattr("ackbench.experiments.pages.live.process._STOP_TIMEOUT_S", 0.2)
    page = live_folder(home) / PAGE
    with live_page(home, SweepFolder(home.sweeps / SWEEP), LiveOptions(), lambda _: None):
        wait_until(page.is_file, awaiting="the live page", timeout_s=120)
        reader_of_this_process().suspend()
    assert "its process did not end within 0.2 s" in page.read_text()
    assert "The run has ended" in page.read_text()


def test_a_failed_reader_leaves_the_page_of_another_sweep(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one's reader has the page."""
    monkeypatch.setattr(
        "ackbench.experiments.pages.live.process.reader_command",
        lambda *_: [sys.executable, "-c", ""],
    )
    folder, said = live_folder(home), list[str]()
    folder.mkdir(parents=True)
    (folder / PAGE).write_text("another sweep's")
    with (
        open_lock(folder / LOCK),
        live_page(home, SweepFolder(home.sweeps / SWEEP), LiveOptions(), said.append) as check,
    ):
        wait_until(lambda: check() or len(said) > 1, awaiting="the remark", timeout_s=60)
    assert (folder / PAGE).read_text() == "another sweep's"


def reader_of_this_process() -> psutil.Process:
    """Return the reader that the test has started."""
    (reader,) = [
        child
        for child in psutil.Process().children()
        if "ackbench.experiments.pages.live.reader" in child.cmdline()
    ]
    return reader


def open_lock(path: Path) -> IO[str]:
    """Return the lock of a file, which nobody else has."""
    lock = try_lock(path)
    assert lock is not None
    return lock


def test_a_reader_that_cannot_start_is_said_too(home: Home) -> None:
    """Its log cannot be created, for example."""
    (home.logs / SWEEP).parent.mkdir(parents=True)
    (home.logs / SWEEP).write_text("a file")
    reader = ReaderProcess(home, SweepFolder(home.sweeps / SWEEP), None)
    assert str(reader.failure()).startswith("[Errno")
    reader.stop()


def test_without_a_page_there_is_no_process(home: Home) -> None:
    """`--no-live`."""
    said: list[str] = []
    sweep = SweepFolder(home.sweeps / SWEEP)
    with live_page(home, sweep, LiveOptions(page=False), said.append) as check:
        check()
    assert said == []
    assert not live_folder(home).exists()


def test_the_reader_gets_no_secret(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It connects to nothing."""
    monkeypatch.setenv("BENCH_KEY_PASSWORD", "hunter2")
    assert "hunter2" not in str(reader_environment(home))
    assert reader_environment(home)["ACKBENCH_HOME"] == str(home.root)


def test_the_reader_finds_the_libraries_of_its_interpreter(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that needs LD_LIBRARY_PATH would not start; a preloaded clock was missing."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/python/lib")
    assert reader_environment(home)["LD_LIBRARY_PATH"] == "/opt/python/lib"


def test_clean_removes_the_page_unless_a_process_writes_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed run left; the second call has nothing to do."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    folder = live_folder(home)
    folder.mkdir()
    (folder / f".{PAGE}.4711.4711").write_text("half a page")
    lock = try_lock(folder / LOCK)
    assert lock is not None
    assert "live page" not in ackbench("clean").stdout
    lock.close()
    assert "removed the live page\n" in ackbench("clean").stdout
    assert not folder.exists()
    assert ackbench("clean").stdout == "nothing to clean\n"


def test_open_live_prints_where_the_page_is(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a page it says who writes one."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    missing = ackbench("open", "live")
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)
    live_folder(home).mkdir()
    (live_folder(home) / PAGE).write_text("a page")
    assert ackbench("open", "live").stdout == f"{live_folder(home) / PAGE}\n"


def test_the_command_names_the_sweep_and_the_port() -> None:
    """Neither is passed if there is none."""
    assert reader_command("s", 9464)[-5:] == [
        *("ackbench.experiments.pages.live.reader", "--sweep", "s", "--metrics-port", "9464")
    ]
    assert reader_command(None, None)[-1] == "ackbench.experiments.pages.live.reader"


def test_a_port_that_is_taken_is_one_line_before_anything_is_made() -> None:
    """With the option that names another."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {port} .* for metrics .*--metrics-port"):
            LiveOptions(metrics_port=port).check()
