"""The run killed with -9 during a fault of each family, and what `ackbench clean` leaves then."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.command import Bench
from rich.console import Console
from standins.machine_state import machine_state

from experiments.commands.faulting import lacks_of
from experiments.faults import FAULTS
from experiments.spec.model import experiment_of
from experiments.spec.reading import parse
from experiments.sweeps import planned_as
from infra.errors import InputError
from infra.home import Home
from infra.waiting import wait_until

_ENDED = ("infra.supervisor", "orchestration.embedded")
"""With the command itself: who would tidy up."""
_EXPERIMENT = """
name: killed
title: Killed
question: Is the machine as before?
axes: {{acks: [1], enable.idempotence: false, replication.factor: 3, partitions: 1, fault: "{fault}"}}
producer: {{socket.timeout.ms: 1000}}
topic: {{min.insync.replicas: majority}}
workload: {{rate_records_per_s: 2000, record_size_bytes: 100, duration_s: 30, keys: 8, producers: 1}}
controls: false
"""


def first_of_each_family() -> dict[str, str | None]:
    """Return, by family, a fault that this machine and the experiment can do; `None` where there is none."""
    found: dict[str, str | None] = {}
    for kind in FAULTS.values():
        if kind.kind != "none" and found.get(kind.family) is None:
            found[kind.family] = None if lacks_of(kind) or not _can_be(kind.kind) else kind.kind
    return found


def _can_be(kind: str) -> bool:
    """Whether the experiment takes the fault: some want a ZooKeeper, transactions or a consumer group."""
    try:
        planned_as(experiment_of(parse(_EXPERIMENT.format(fault=kind), "killed"), "killed"), "killed", "killed")
    except InputError:
        return False
    return True


def kill_in_each_family(console: Console) -> Iterator[str]:
    """Kill a run in a fault of each family; yield a line for each thing that was left behind."""
    for family, kind in first_of_each_family().items():
        if kind is None:
            console.print(f"not tried: {family}: none of its faults can be done here in a plain experiment")
            continue
        left = left_by_kill(kind)
        console.print(f"kill -9 during {kind} ({FAULTS[kind].family}), then clean: {len(left)} things left")
        yield from (f"kill -9 during {kind}: {line}" for line in left)


def left_by_kill(kind: str) -> list[str]:
    """Kill the command, what carries out its run and the supervisor at once while a fault is under way; return what is left after `clean`."""
    clone = Home.from_environment()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Home(Path(folder) / "a home"))
        bench.home.root.mkdir()
        bench.home.cache.symlink_to(clone.cache)
        before = machine_state(bench.home.root)
        path = Path(folder) / "killed.yaml"
        path.write_text(_EXPERIMENT.format(fault=kind))
        kill_during_the_fault(bench, str(path))
        bench.run("clean", "--force")
        return machine_state(bench.home.root).left_since(before)


def kill_during_the_fault(bench: Bench, experiment: str) -> None:
    """Start a run, and kill with -9 whoever would tidy up once its fault has begun."""
    command = bench.start("run", experiment)
    wait_until(lambda: "fault_begin" in bench.diary(), awaiting="the fault to begin", timeout_s=180, every_s=0.05)
    for process in bench.processes():
        pid = int(process.split()[0])
        if pid == command.pid or any(name in process for name in _ENDED):
            os.kill(pid, 9)
    command.communicate(timeout=60)
