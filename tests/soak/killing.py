"""Kill a run during a fault of each family, and find what `ackbench clean` leaves behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from e2e.command import AckbenchCommand
from rich.console import Console
from support.machine_state import machine_state

from ackbench.experiments.commands.faults import missing_capabilities_of
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.new_sweep import plan_experiment
from ackbench.experiments.planning.yaml_reader import parse_yaml
from ackbench.experiments.trial.faults import FAULTS, FaultKind
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

_FAULT_BEGIN_TIMEOUT_S = 600.0
"""Long enough for a busy machine."""
Axes = Mapping[str, str | int | bool]
_KILLED_PROCESSES = ("ackbench.infra.cluster.supervisor", "orchestration.runner")
"""In addition to the command itself: the processes that would clean up."""
_AXES: Axes = {"acks": 1, "enable.idempotence": False, "replication.factor": 3, "partitions": 1}
_ADDITIONAL_AXES: tuple[Axes, ...] = (
    {},
    {"coordination": "zookeeper", "kafka.version": "3.9.2"},
    {"acks": "all", "enable.idempotence": True, "transactions.records": 100},
    {"group.consumers": 2},
)
"""Tried in this order until the experiment is valid for a fault: nothing, ZooKeeper, transactions,
a consumer group."""


@dataclass(frozen=True)
class KillCase:
    """A fault during which a run is killed, and an experiment with this fault."""

    fault: FaultKind
    experiment: str
    """YAML."""


def kill_case(family: str) -> KillCase | None:
    """Return the first fault of a family that is possible on this machine, in an experiment.

    `None`: no fault of the family is possible.
    """
    kinds = (
        kind
        for kind in FAULTS.values()
        if kind.family == family and not missing_capabilities_of(kind)
    )
    cases = (
        KillCase(kind, _experiment(kind.kind, axes)) for kind in kinds for axes in _ADDITIONAL_AXES
    )
    return next((case for case in cases if _is_valid(case.experiment)), None)


def _experiment(fault: str, axes: Axes) -> str:
    return yaml.safe_dump(
        {
            "name": "killed",
            "title": "Killed",
            "question": "Is the machine as before?",
            "axes": {**_AXES, **axes, "fault": fault},
            "producer": {"socket.timeout.ms": 1000},
            "topic": {"min.insync.replicas": "majority"},
            "workload": {
                "rate_records_per_s": 2000,
                "record_size_bytes": 100,
                "duration_s": 30,
                "producers": 1,
            },
            "keys": {"count": 8},
            "controls": False,
        }
    )


def _is_valid(experiment: str) -> bool:
    try:
        plan_experiment(
            parse_experiment(parse_yaml(experiment, "killed"), "killed"), "killed", "killed"
        )
    except InputError:
        return False
    return True


def kill_in_each(families: Sequence[str], console: Console) -> Iterator[str]:
    """Kill a run during a fault of each family; yield a line per leftover and per failure."""
    for number, family in enumerate(families, start=1):
        where = f"kill -9, family {number} of {len(families)}: {family}"
        case = kill_case(family)
        if case is None:
            console.print(f"{where}: skipped, no fault of this family is possible on this machine")
            continue
        console.print(f"{where}: waiting for {case.fault.kind}")
        try:
            left = left_by_kill(case.experiment)
        except HarnessError as error:
            yield f"kill -9 during {case.fault.kind}: {error}"
            continue
        console.print(
            f"{where}: killed during {case.fault.kind}; {len(left)} leftovers after `clean`"
        )
        yield from (f"kill -9 during {case.fault.kind}: {line}" for line in left)


def left_by_kill(experiment: str) -> list[str]:
    """Kill a run during its fault, and return what is left after `clean`."""
    clone = Home.from_environment()
    with tempfile.TemporaryDirectory() as folder:
        bench = AckbenchCommand(Home(Path(folder) / "a home"))
        bench.home.root.mkdir()
        (bench.home.root / "cache").symlink_to(clone.cache)
        before = machine_state(bench.home.root)
        path = Path(folder) / "killed.yaml"
        path.write_text(experiment)
        kill_during_the_fault(bench, str(path))
        bench.run("clean", "--force")
        return machine_state(bench.home.root).added_since(before)


def kill_during_the_fault(bench: AckbenchCommand, experiment: str) -> None:
    """Start a run and, once its fault has begun, send SIGKILL to all processes that would clean up.

    These are the command, the process that runs the sweep, and the cluster's supervisor.

    Raises:
        HarnessError: the run ended before its fault began. Its processes are killed too.
    """
    command = bench.start("run", experiment)
    try:
        wait_until(
            lambda: _fault_has_begun(bench) or command.poll() is not None,
            awaiting="the fault to begin",
            timeout_s=_FAULT_BEGIN_TIMEOUT_S,
            every_s=0.05,
        )
    finally:
        begun = _fault_has_begun(bench)
        for process in bench.processes():
            pid = int(process.split()[0])
            if pid == command.pid or any(name in process for name in _KILLED_PROCESSES):
                os.kill(pid, 9)
        _, output = command.communicate(timeout=60)
    if not begun:
        raise HarnessError(f"the run ended before its fault began: {output.strip()}")


def _fault_has_begun(bench: AckbenchCommand) -> bool:
    return "fault_begin" in bench.event_kinds()
