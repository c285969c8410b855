"""The run killed with -9 during a fault of each family, and what `ackbench clean` leaves then."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from e2e.command import Bench
from rich.console import Console
from support.machine_state import machine_state

from experiments.commands.faults import missing_capabilities_of
from experiments.faults import FAULTS, FaultKind
from experiments.planning.experiment import parse_experiment
from experiments.planning.new_sweep import plan_experiment
from experiments.planning.yaml_reader import parse_yaml
from infra.errors import HarnessError, InputError
from infra.machine.home import Home
from infra.process.waiting import wait_until

_BEGINS_WITHIN_S = 600.0
"""On a machine that has much else to do."""
Axes = Mapping[str, str | int | bool]
_ENDED = ("infra.cluster.supervisor", "orchestration.embedded")
"""With the command itself: who would tidy up."""
_AXES: Axes = {"acks": 1, "enable.idempotence": False, "replication.factor": 3, "partitions": 1}
_ALSO: tuple[Axes, ...] = (
    {},
    {"coordination": "zookeeper", "kafka.version": "3.9.2"},
    {"acks": "all", "enable.idempotence": True, "workload.transaction_records": 100},
    {"workload.consumers": 2},
)
"""What a fault may want, one after the other, until there is an experiment that takes it: nothing more, ZooKeeper, transactions, a consumer group."""


@dataclass(frozen=True)
class Killing:
    """A fault to kill a run in, and the experiment that takes it."""

    fault: FaultKind
    experiment: str
    """As a file has it."""


def killing_in(family: str) -> Killing | None:
    """Return the first fault of a family that this machine can do, in the least experiment that takes it; `None`: there is none."""
    here = (
        kind
        for kind in FAULTS.values()
        if kind.family == family and not missing_capabilities_of(kind)
    )
    tries = (Killing(kind, _experiment(kind.kind, also)) for kind in here for also in _ALSO)
    return next((killing for killing in tries if _can_be(killing.experiment)), None)


def _experiment(fault: str, also: Axes) -> str:
    return yaml.safe_dump(
        {
            "name": "killed",
            "title": "Killed",
            "question": "Is the machine as before?",
            "axes": {**_AXES, **also, "fault": fault},
            "producer": {"socket.timeout.ms": 1000},
            "topic": {"min.insync.replicas": "majority"},
            "workload": {
                "rate_records_per_s": 2000,
                "record_size_bytes": 100,
                "duration_s": 30,
                "keys": 8,
                "producers": 1,
            },
            "controls": False,
        }
    )


def _can_be(experiment: str) -> bool:
    try:
        plan_experiment(
            parse_experiment(parse_yaml(experiment, "killed"), "killed"), "killed", "killed"
        )
    except InputError:
        return False
    return True


def kill_in_each(families: Sequence[str], console: Console) -> Iterator[str]:
    """Kill a run in a fault of each family; yield a line for each thing that was left behind, and for each family in which none could be killed."""
    for number, family in enumerate(families, start=1):
        where = f"kill -9, family {number} of {len(families)}: {family}"
        killing = killing_in(family)
        if killing is None:
            console.print(f"{where}: not tried, for none of its faults can be done here")
            continue
        console.print(f"{where}: {killing.fault.kind} is awaited")
        try:
            left = left_by_kill(killing.experiment)
        except HarnessError as error:
            yield f"kill -9 during {killing.fault.kind}: {error}"
            continue
        console.print(
            f"{where}: killed during {killing.fault.kind}, then clean: {len(left)} things left"
        )
        yield from (f"kill -9 during {killing.fault.kind}: {line}" for line in left)


def left_by_kill(experiment: str) -> list[str]:
    """Kill the command, what carries out its run and the supervisor at once while a fault is under way; return what is left after `clean`."""
    clone = Home.from_environment()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Home(Path(folder) / "a home"))
        bench.home.root.mkdir()
        bench.home.cache.symlink_to(clone.cache)
        before = machine_state(bench.home.root)
        path = Path(folder) / "killed.yaml"
        path.write_text(experiment)
        kill_during_the_fault(bench, str(path))
        bench.run("clean", "--force")
        return machine_state(bench.home.root).left_since(before)


def kill_during_the_fault(bench: Bench, experiment: str) -> None:
    """Start a run, and kill with -9 whoever would tidy up once its fault has begun.

    Raises:
        HarnessError: the run came to no fault; nothing of it goes on all the same.
    """
    command = bench.start("run", experiment)
    try:
        wait_until(
            lambda: _begun(bench) or command.poll() is not None,
            awaiting="the fault to begin",
            timeout_s=_BEGINS_WITHIN_S,
            every_s=0.05,
        )
    finally:
        begun = _begun(bench)
        for process in bench.processes():
            pid = int(process.split()[0])
            if pid == command.pid or any(name in process for name in _ENDED):
                os.kill(pid, 9)
        _, said = command.communicate(timeout=60)
    if not begun:
        raise HarnessError(f"the run ended before its fault began: {said.strip()}")


def _begun(bench: Bench) -> bool:
    return "fault_begin" in bench.diary()
