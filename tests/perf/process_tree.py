"""The duration, processor time and peak memory of a command and of all processes that it starts."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

_SAMPLE_S: Final = 0.03
JVM: Final = "JVM"
WORKERS: Final = "Python workers"
DRIVER: Final = "driver"


@dataclass(frozen=True)
class RunCost:
    """What one run of a command took."""

    seconds: float
    cpu_s: float
    """Of all processes, as last sampled."""
    peak_bytes: Mapping[str, int]
    """The largest sum of resident memory, by kind of process; processes share some pages."""
    peak_total_bytes: int
    """The largest sum over all kinds at one time."""
    output: str
    """What the command printed."""


def run_sampled(
    command: Sequence[str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    server_pid: int | None = None,
) -> RunCost:
    """Run a command and sample its process tree.

    Args:
        command: with its arguments.
        cwd: its working folder.
        env: its environment.
        server_pid: a process that works for it and runs already; its tree is sampled as well.

    Raises:
        RuntimeError: it failed; with its output.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    sampler = _Sampler([psutil.Process(pid) for pid in (process.pid, server_pid) if pid])
    thread = threading.Thread(target=sampler.run)
    thread.start()
    output, _ = process.communicate()
    seconds = time.monotonic() - begin
    sampler.ended.set()
    thread.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {output[-2000:]}")
    return RunCost(
        seconds,
        sum(sampler.cpu_s.values()) - sum(sampler.earlier_cpu_s.values()),
        dict(sampler.peak_bytes),
        sampler.peak_total_bytes,
        output,
    )


@dataclass
class _Sampler:
    roots: Sequence[psutil.Process]
    ended: threading.Event = field(default_factory=threading.Event)
    cpu_s: dict[int, float] = field(default_factory=dict)
    earlier_cpu_s: dict[int, float] = field(default_factory=dict)
    """The use of processes that ran before."""
    peak_bytes: Counter[str] = field(default_factory=Counter)
    peak_total_bytes: int = 0
    _kinds: dict[int, str] = field(default_factory=dict)

    def run(self) -> None:
        """Sample until the command has ended."""
        self._sample()
        self.earlier_cpu_s = dict(self.cpu_s)
        while not self.ended.wait(_SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        now: Counter[str] = Counter()
        try:
            processes = [
                process for root in self.roots for process in (root, *root.children(recursive=True))
            ]
        except psutil.Error:
            return
        for process in processes:
            try:
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info()
                kind = self._kind(process)
            except psutil.Error:  # it has ended since
                continue
            self.cpu_s[process.pid] = times.user + times.system
            now[kind] += memory.rss
        for kind, resident_bytes in now.items():
            self.peak_bytes[kind] = max(self.peak_bytes[kind], resident_bytes)
        self.peak_total_bytes = max(self.peak_total_bytes, sum(now.values()))

    def _kind(self, process: psutil.Process) -> str:
        if self._kinds.get(process.pid, DRIVER) == DRIVER:  # until it has executed its program
            kind = JVM if "java" in process.name() else DRIVER
            if kind == DRIVER and self._kinds.get(process.ppid(), DRIVER) != DRIVER:
                kind = WORKERS
            self._kinds[process.pid] = kind
        return self._kinds[process.pid]
