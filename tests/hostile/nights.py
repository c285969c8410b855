"""Many nights in a row: `ackbench up` runs one short sweep after the other, and is measured.

Processes, memory, open files and disk at the beginning and the end show whether something grows.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.services import Services, running_services
from support.machine_state import machine_state

from ackbench.infra.errors import WaitTimeout

EXPERIMENT: Final = """\
name: one-night
title: One night
question: Is everything as it was the night before?
construction: One short trial without a fault.
axes: {acks: all, enable.idempotence: true, replication.factor: 3, partitions: 1, fault: none}
workload: {rate_records_per_s: 1000, record_size_bytes: 100, duration_s: 1, producers: 1}
controls: false
repeats: 1
"""
_FILE: Final = "one-night.yaml"
_MIB: Final = 2**20
_SAMPLES: Final = 12
"""Lines that are printed over all nights."""
_MORE_PROCESSES: Final = 2
"""How many more processes than at the beginning are no growth: a worker that is being forked."""
_SERVICES: Final = ("api-server", "scheduler", "dag-processor", "mlflow", "ackbench up")
"""Words of the services' command lines, to tell which of them grew; the last is `ackbench up`."""
_GROWTH: Final = 1.5
"""The memory and the open files at the end may be this many times those after the first nights."""


@dataclass(frozen=True)
class Sample:
    """What the services of a home use between two sweeps."""

    nights: int
    processes: int
    memory_mib: float
    """The proportional set size (PSS) of all processes: shared pages are counted once."""
    open_files: int
    disk_mib: float
    service_mib: tuple[tuple[str, float], ...]
    """The memory by service, as in `memory_mib`; `others` has the rest."""

    def __str__(self) -> str:
        """Return the sample as a line."""
        services = ", ".join(f"{name} {mib:.0f}" for name, mib in self.service_mib)
        return (
            f"after {self.nights} nights: {self.processes} processes, "
            f"{self.memory_mib:.0f} MiB of memory ({services}), {self.open_files} open files, "
            f"{self.disk_mib:.0f} MiB of disk"
        )


def run(nights: int, budget_s: float, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Run one sweep after the other under the services, and compare the end with the beginning.

    Args:
        nights: how many sweeps.
        budget_s: start no sweep after this time.
        say: called with a line for some of the samples.
    """
    start_s = time.monotonic()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiments = Path(folder) / "experiments"
        experiments.mkdir()
        (experiments / _FILE).write_text(EXPERIMENT)
        before = machine_state(bench.home.root)
        samples: list[Sample] = []
        try:
            with running_services(bench, experiments) as services:
                for night in range(1, nights + 1):
                    if time.monotonic() - start_s > budget_s:
                        break
                    failures += _one_night(services, night)
                    if night == 1 and failures:
                        break  # then no night succeeds, and nothing is measured
                    samples.append(_sample(bench, night))
                    if night % max(1, nights // _SAMPLES) == 1:
                        say(str(samples[-1]))
        except (WaitTimeout, OSError) as error:
            failures.append(str(error))
        if not samples:
            failures.append("no sweep ended")
        else:
            say(str(samples[-1]))
            failures += _growth(samples)
        left = machine_state(bench.home.root).added_since(before)
        failures += [f"left behind: {line}" for line in left]
    return Figures(
        "nights",
        "each sweep succeeds; processes, memory and open files do not grow; nothing is left",
        len(samples),
        tuple(failures),
        time.monotonic() - start_s,
    )


def _growth(samples: list[Sample]) -> list[str]:
    """Return what grew, compared with the first sample after the caches are filled."""
    first, last = samples[min(len(samples) - 1, len(samples) // 10)], samples[-1]
    grown = []
    if last.processes > first.processes + _MORE_PROCESSES:
        grown.append(f"processes: {first.processes}, then {last.processes}")
    if last.memory_mib > _GROWTH * first.memory_mib:
        grown.append(f"memory: {first.memory_mib:.0f} MiB, then {last.memory_mib:.0f} MiB")
    if last.open_files > _GROWTH * first.open_files:
        grown.append(f"open files: {first.open_files}, then {last.open_files}")
    return grown


def _one_night(services: Services, night: int) -> list[str]:
    """Request a sweep and wait for its end; return a line with the reasons if it failed."""
    run_id = f"night-{night}"
    services.trigger(run_id, _FILE)
    state = services.wait_for_run(run_id)
    if state == "success":
        return []
    return [f"{run_id}: {state}: {'; '.join(services.errors_of(run_id)) or 'no task says why'}"]


def _sample(bench: AckbenchCommand, nights: int) -> Sample:
    open_files: list[int] = []
    memory = dict.fromkeys((*_SERVICES, "others"), 0.0)
    for line in bench.processes():
        try:
            process = psutil.Process(int(line.split(maxsplit=1)[0]))
            pss, files = process.memory_full_info().pss, process.num_fds()
        except psutil.Error:
            continue  # it has ended since it was listed
        memory[next((name for name in _SERVICES if name in line), "others")] += pss / _MIB
        open_files.append(files)
    disk_bytes = sum(
        path.lstat().st_blocks * 512
        for folder, _, names in os.walk(bench.home.root)
        for path in (Path(folder, name) for name in names)
        if path.exists()
    )
    return Sample(
        nights,
        len(open_files),
        sum(memory.values()),
        sum(open_files),
        disk_bytes / _MIB,
        tuple(memory.items()),
    )
