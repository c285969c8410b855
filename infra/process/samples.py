"""Samples of the kernel's counts of a process and of this machine: why a process did not run.

The sources are /proc/<pid>/stat and schedstat, /proc/stat and /proc/vmstat (proc(5)). Containers
and kernels may lack one of them, or not count in it: then the figure is unknown (`None`).

Files stay open between two samples, which takes a third of the time of opening them anew, and a
file of an ended process cannot become that of a later one with the same pid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from ackbench.infra.process.processes import parse_stat

_PROC: Final = Path("/proc")
_JVM: Final = "java"
_JVM_THREADS: Final = (_JVM, "data-plane-kafk")
"""The names of the threads of a JVM that do its work: the main thread of a client, and those of a
broker's requests. The thread whose id is the pid only waits for the others."""
_READ_BYTES: Final = 1 << 16
_NS_PER_TICK: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_STEAL: Final = 7
"""Place of the stolen time in the first line of /proc/stat."""
_SWAPPED_IN: Final = b"\npswpin "
_GUEST: Final = 8
"""The places from here on are included in others."""


@dataclass(frozen=True)
class ProcessSample:
    """The activity of a process since the previous sample."""

    state: str
    """The state of its main thread now, one letter: `R`, `S`, `D`, `T`, ..."""
    major_faults: int
    """How often it waited for memory that had to be read from a disk."""
    waited_ns: int | None = None
    """The longest time that a working thread waited for a CPU, of waits that have ended. It may
    have begun before the previous sample."""
    runs: int | None = None
    """How often its working threads got a CPU."""
    threads: int = 1
    """How many working threads it has."""
    cpu_ns: int = 0
    """The CPU time that all its threads took, in the kernel's ticks of 10 ms (USER_HZ)."""


@dataclass
class ProcessSampler:
    """Samples one process, from its creation on; the files close when the process has ended.

    A process that runs no JVM works in its main thread.
    """

    pid: int
    cpu_ns: int = 0
    """The CPU time that the process had taken by the last sample, from its start on."""
    _stat: int = -1
    _threads: list[int] = field(default_factory=list)
    _faults: int = 0
    _scheduled: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return a sampler of the process that has a pid now; `None`: there is none."""
        sampler = cls(pid)
        try:
            sampler._stat = os.open(_PROC / str(pid) / "stat", os.O_RDONLY)
        except OSError:
            return None
        for folder in _working_threads(pid):
            with suppress(OSError):
                sampler._threads.append(os.open(folder / "schedstat", os.O_RDONLY))
        if sampler.sample() is None:
            return None
        return sampler

    @property
    def counts_runs(self) -> bool:
        """Whether the kernel tells when its working threads ran."""
        return bool(self._threads)

    def sample(self) -> ProcessSample | None:
        """Return the sample since the previous one; `None`: the process has ended."""
        stat = None
        with suppress(OSError):
            stat = parse_stat(os.pread(self._stat, _READ_BYTES, 0))
        if stat is None or stat.has_ended:
            self.close()
            return None
        faults, self._faults = stat.major_faults - self._faults, stat.major_faults
        cpu_ns = stat.cpu_ticks * _NS_PER_TICK
        taken_ns, self.cpu_ns = cpu_ns - self.cpu_ns, cpu_ns
        if not self._threads:
            return ProcessSample(stat.state, faults, cpu_ns=taken_ns)
        before, self._scheduled = self._scheduled, [*map(_schedule, self._threads)]
        waits = [0, *(now[0] - then[0] for then, now in zip(before, self._scheduled, strict=False))]
        runs = [now[1] - then[1] for then, now in zip(before, self._scheduled, strict=False)]
        return ProcessSample(
            stat.state, faults, max(waits), sum(runs), len(self._threads), taken_ns
        )

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        for descriptor in (self._stat, *self._threads):
            if descriptor >= 0:
                os.close(descriptor)
        self._stat, self._threads = -1, []


def _working_threads(pid: int) -> list[Path]:
    """Return the folders of the threads that do a process' work."""
    process = _PROC / str(pid)
    if _name(process) != _JVM:
        return [process]
    threads = [thread for thread in (process / "task").glob("*") if thread.name != str(pid)]
    return [thread for thread in threads if _name(thread).startswith(_JVM_THREADS)]


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().rstrip("\n")
    except OSError:
        return ""


def _schedule(descriptor: int) -> tuple[int, int]:
    """Return the time a thread has waited for a CPU, in ns, and how often it got one; 0: ended."""
    try:
        _, waited_ns, runs = map(int, os.pread(descriptor, _READ_BYTES, 0).split())
    except (OSError, ValueError):
        return 0, 0
    return waited_ns, runs


@dataclass(frozen=True)
class MachineSample:
    """The activity of the machine since the previous sample; `None`: unknown."""

    stolen_share: float | None = None
    """The part of the CPUs' time that the hypervisor gave to others."""
    swapped_in_pages: int | None = None

    def unknown(self) -> Iterator[str]:
        """Yield the names of the figures that this machine does not have."""
        if self.stolen_share is None:
            yield "CPU steal"
        if self.swapped_in_pages is None:
            yield "pages swapped in"


class MachineSampler:
    """Samples this machine, from its creation on."""

    def __init__(self) -> None:
        self._ticks, self._pages = _cpu_ticks(), _swapped_in()

    def sample(self) -> MachineSample:
        """Return the sample since the previous one."""
        ticks, pages = _cpu_ticks(), _swapped_in()
        before, self._ticks = self._ticks, ticks
        pages_before, self._pages = self._pages, pages
        share = None
        if ticks is not None and before is not None:
            share = (ticks[0] - before[0]) / max(1, ticks[1] - before[1])
        swapped = None if pages is None or pages_before is None else pages - pages_before
        return MachineSample(share, swapped)


def own_thread_wait_ns() -> int | None:
    """Return how long the calling thread has waited for a CPU so far; `None`: unknown."""
    try:
        return int((_PROC / "thread-self" / "schedstat").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _cpu_ticks() -> tuple[int, int] | None:
    """Return the stolen time and all time of the CPUs, in clock ticks."""
    try:
        with (_PROC / "stat").open("rb") as file:
            ticks = [int(word) for word in file.readline().split()[1:]]
        return ticks[_STEAL], sum(ticks[:_GUEST])
    except (OSError, ValueError, IndexError):
        return None


def _swapped_in() -> int | None:
    try:
        counts = (_PROC / "vmstat").read_bytes()
        return int(counts[counts.index(_SWAPPED_IN) + len(_SWAPPED_IN) :].split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return None
