"""System resources of clusters and faults, compared before and after a test to detect leaks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import psutil


@dataclass(frozen=True)
class MachineState:
    """The resources of a machine, as readable lines by kind."""

    namespaces: frozenset[str]
    links: frozenset[str]
    rules: frozenset[str]
    queues: frozenset[str]
    mounts: frozenset[str]
    loop_devices: frozenset[str]
    control_groups: frozenset[str]
    processes: frozenset[str]
    """The processes that were started for the home."""

    def added_since(self, before: MachineState) -> list[str]:
        """Return the resources that did not exist before, one line each with the kind."""
        return [
            f"{field.name}: {line}"
            for field in fields(self)
            for line in sorted(getattr(self, field.name) - getattr(before, field.name))
        ]


def machine_state(home: Path) -> MachineState:
    """Return the current resources; those that only root can list are empty for other users."""
    return MachineState(
        namespaces=frozenset(_names(Path("/run/netns"))),
        links=frozenset(_names(Path("/sys/class/net"))),
        rules=frozenset(_output_lines("nft", "list", "ruleset")),
        queues=frozenset(_output_lines("tc", "qdisc", "show")),
        mounts=frozenset(
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        loop_devices=frozenset(
            f"{path.parts[3]} {path.read_text().strip()}"
            for path in Path("/sys/block").glob("loop*/loop/backing_file")
        ),
        control_groups=frozenset(
            str(path) for path in Path("/sys/fs/cgroup").glob("**/ackbench*") if path.is_dir()
        ),
        processes=frozenset(processes_of(home)),
    )


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _output_lines(program: str, *arguments: str) -> list[str]:
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin"
    executable = shutil.which(program, path=path)
    if not executable:
        return []
    command = [executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def processes_of(home: Path) -> Iterator[str]:
    """Yield pid and command of every running process that was started for a home."""
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get("ACKBENCH_HOME") == str(home)
            ):
                yield f"{process.pid} {' '.join(process.cmdline())[:200]}"
        except psutil.Error:
            continue  # it has exited, or belongs to another user
