"""Samples of this machine's own processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbench.infra.process import samples
from ackbench.infra.process.processes import is_stopped
from ackbench.infra.process.samples import (
    MachineSample,
    MachineSampler,
    ProcessSampler,
    own_thread_wait_ns,
)
from ackbench.infra.process.waiting import wait_until

Process = subprocess.Popen[bytes]


@pytest.fixture
def process() -> Iterator[Process]:
    """Return a process that waits for its input."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        yield waiting
        waiting.kill()


def sampler_of(process: Process) -> ProcessSampler:
    """Return the sampler of a process."""
    sampler = ProcessSampler.of(process.pid)
    assert sampler is not None
    return sampler


def test_a_sample_shows_that_a_process_is_stopped(process: Process) -> None:
    """And that it goes on."""
    sampler = sampler_of(process)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(process.pid), awaiting="SIGSTOP", timeout_s=10)
    stopped = sampler.sample()
    process.send_signal(signal.SIGCONT)
    running = sampler.sample()
    assert stopped is not None
    assert running is not None
    assert stopped.state == "T" != running.state


def test_a_process_that_ended_has_no_sample(process: Process) -> None:
    """Neither a zombie, nor a process that is not there at all."""
    sampler = sampler_of(process)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert sampler.sample() is None
    assert ProcessSampler.of(process.pid) is None
    process.wait()
    assert ProcessSampler.of(process.pid) is None


def test_a_sample_counts_what_was_since_the_previous_one() -> None:
    """Of this process, which runs between the two."""
    sampler = ProcessSampler.of(os.getpid())
    assert sampler is not None
    before = sampler.sample()
    after = sampler.sample()
    sampler.close()
    sampler.close()
    assert before is not None
    assert after is not None
    assert (after.runs or 0) >= 0
    assert (after.waited_ns or 0) >= 0


def planted_proc(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    """Let the samplers read these files instead of those of the kernel."""
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.setattr(samples, "_PROC", folder)


TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
STAT = "7 (a) b) S 1 1 1 0 -1 0 0 0 {faults} 0 {user} 1 0 0 20 0 1 0 99 0"


def test_the_threads_that_do_the_work_of_a_jvm_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thread only waits for the others; that which waited longest counts.

    The CPU time is that of the process: user and system time of all threads.
    """
    files = {"7__stat": STAT.format(faults=3, user=4), "7__comm": "java\n"}
    threads = {"7": "java", "8": "java", "9": "data-plane-kafk", "10": "GC Thread#0"}
    for thread, name in threads.items():
        files[f"7__task__{thread}__comm"] = f"{name}\n"
        files[f"7__task__{thread}__schedstat"] = "1 1000 10"
    planted_proc(tmp_path, monkeypatch, **files)
    sampler = ProcessSampler.of(7)
    assert sampler is not None
    planted_proc(
        tmp_path,
        monkeypatch,
        **{
            "7__stat": STAT.format(faults=5, user=9),
            "7__task__7__schedstat": "1 99000 99",
            "7__task__8__schedstat": "1 1500 11",
            "7__task__9__schedstat": "1 4000 12",
            "7__task__10__schedstat": "1 99000 99",
        },
    )
    sample = sampler.sample()
    sampler.close()
    assert sample == samples.ProcessSample("S", 2, 3000, 3, 2, cpu_ns=5 * TICK_NS)
    assert sampler.cpu_ns == 10 * TICK_NS


def test_without_schedstat_waits_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may lack the file; state and page faults are there."""
    planted_proc(
        tmp_path, monkeypatch, **{"7__stat": STAT.format(faults=0, user=0), "7__comm": "python\n"}
    )
    sampler = ProcessSampler.of(7)
    assert sampler is not None
    assert not sampler.counts_runs
    assert sampler.sample() == samples.ProcessSample("S", 0)
    assert own_thread_wait_ns() is None
    sampler.close()


def test_the_stolen_share_is_that_of_all_time_since_the_previous_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guest time is included in user time, and does not count twice."""
    vmstat = "nr_free 1\npswpin {}\npswpout 9\n"
    planted_proc(
        tmp_path, monkeypatch, stat="cpu 10 0 10 70 0 0 0 5 10 0\ncpu0", vmstat=vmstat.format(4)
    )
    sampler = MachineSampler()
    planted_proc(
        tmp_path, monkeypatch, stat="cpu 12 0 10 70 0 0 0 13 12 0\ncpu0", vmstat=vmstat.format(7)
    )
    assert sampler.sample() == MachineSample(0.8, 3)


def test_figures_that_the_kernel_does_not_count_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a missing file nor an unusual one is an error."""
    planted_proc(tmp_path, monkeypatch, stat="cpu 1 2\n")
    sample = MachineSampler().sample()
    assert sample == MachineSample()
    assert list(sample.unknown()) == ["CPU steal", "pages swapped in"]


def test_this_machine_has_every_figure() -> None:
    """Else the sampling would find less than it could."""
    assert list(MachineSampler().sample().unknown()) == []
    assert own_thread_wait_ns() is not None
