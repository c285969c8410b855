"""Many nights in a row: `ackbench up` runs one short sweep after the other, and is measured.

Processes, memory, open files and disk at the beginning and the end show whether something grows.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import psutil
from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from support.machine_state import machine_state

from infra.errors import WaitTimeout
from infra.machine.home import Home
from infra.process.waiting import wait_until

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
_RUN_TIMEOUT_S: Final = 600.0
_START_TIMEOUT_S: Final = 240.0
_SAMPLES: Final = 12
"""Lines that are printed over all nights."""
_MORE_PROCESSES: Final = 2
"""How many more processes than at the beginning are no growth: a worker that is being forked."""
_SERVICES: Final = ("api-server", "scheduler", "dag-processor", "mlflow", "experiments.cli")
"""Words of the services' command lines, to tell which of them grew; the last is `ackbench up`."""
_TASK: Final = "task_id="
"""Begins the folder of a task's logs."""
_EXIT: Final = "Task exited"
"""Follows the error that ended a task."""
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
        ports = _free_port(), _free_port()
        services = bench.start(
            *("up", "--no-login", "--as-root", "--experiments", str(experiments)),
            *("--airflow-port", str(ports[0]), "--mlflow-port", str(ports[1])),
        )
        samples: list[Sample] = []
        try:
            _wait_until_up(ports[0], services)
            for night in range(1, nights + 1):
                if time.monotonic() - start_s > budget_s:
                    break
                failures += _one_night(bench.home, ports[0], night)
                if night == 1 and failures:
                    break  # then no night succeeds, and nothing is measured
                samples.append(_sample(bench, night))
                if night % max(1, nights // _SAMPLES) == 1:
                    say(str(samples[-1]))
        except (WaitTimeout, OSError) as error:
            failures.append(str(error))
        finally:
            services.send_signal(signal.SIGINT)
            output = services.communicate(timeout=60)
        if not samples:
            failures.append(f"no sweep ended: {output}")
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


def _wait_until_up(port: int, services: subprocess.Popen[str]) -> None:
    def answers() -> bool:
        if services.poll() is not None:
            raise WaitTimeout(f"`ackbench up` ended: {services.communicate()}")
        try:
            return "dag_id" in _call(port, "dags/ackbench_sweep")
        except OSError:
            return False

    wait_until(answers, awaiting="the services", timeout_s=_START_TIMEOUT_S, every_s=1)
    _call(port, "dags/ackbench_sweep", {"is_paused": False}, method="PATCH")


def _one_night(home: Home, port: int, night: int) -> list[str]:
    """Request a sweep and wait for its end; return a line with the reasons if it failed."""
    run_id = f"night-{night}"
    _call(
        port,
        "dags/ackbench_sweep/dagRuns",
        {"dag_run_id": run_id, "logical_date": None, "conf": {"experiment": _FILE}},
    )
    states: list[str] = []

    def has_ended() -> bool:
        states[:] = [_call(port, f"dags/ackbench_sweep/dagRuns/{run_id}")["state"]]
        return states[0] in {"success", "failed"}

    wait_until(has_ended, awaiting=f"the end of {run_id}", timeout_s=_RUN_TIMEOUT_S, every_s=1)
    if states == ["success"]:
        return []
    return [f"{run_id}: {states[0]}: {'; '.join(_errors_of(home, run_id)) or 'no task says why'}"]


def _errors_of(home: Home, run_id: str) -> list[str]:
    """Return the errors in the logs of a run's tasks, each with its task, without repetitions."""
    errors = []
    for log in sorted((home.logs / "airflow").glob(f"*/run_id={run_id}/{_TASK}*/**/*.log")):
        task = next(part for part in log.parts if part.startswith(_TASK)).removeprefix(_TASK)
        for entry in map(json.loads, log.read_text().splitlines()):
            if entry["level"] in {"error", "critical"} and entry["event"] != _EXIT:
                causes = [detail["exc_value"] for detail in entry.get("error_detail", ())]
                errors.append(f"{task}: {': '.join([entry['event'], *causes])}")
    return list(dict.fromkeys(errors))


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


def _call(
    port: int, path: str, body: dict[str, Any] | None = None, *, method: str | None = None
) -> dict[str, Any]:
    """Call Airflow's API and return its answer."""
    request = Request(
        f"http://127.0.0.1:{port}/api/v2/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urlopen(request, timeout=30) as response:  # noqa: S310 - the same
        answer: dict[str, Any] = json.load(response)
    return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
