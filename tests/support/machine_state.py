"""What a machine holds that clusters and faults make beside files: compared before and after, so that nothing is left behind unseen."""

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
    """Each a set of lines for a person."""

    namespaces: frozenset[str]
    links: frozenset[str]
    rules: frozenset[str]
    queues: frozenset[str]
    mounts: frozenset[str]
    loop_devices: frozenset[str]
    control_groups: frozenset[str]
    processes: frozenset[str]
    """Those that were started for the home."""

    def left_since(self, before: MachineState) -> list[str]:
        """Return what is here that was not, a line each with its kind."""
        return [
            f"{field.name}: {line}"
            for field in fields(self)
            for line in sorted(getattr(self, field.name) - getattr(before, field.name))
        ]


def machine_state(home: Path) -> MachineState:
    """Return what there is now; what cannot be asked without root is empty both before and after."""
    return MachineState(
        namespaces=frozenset(_names(Path("/run/netns"))),
        links=frozenset(_names(Path("/sys/class/net"))),
        rules=frozenset(_said("nft", "list", "ruleset")),
        queues=frozenset(_said("tc", "qdisc", "show")),
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


def _said(program: str, *arguments: str) -> list[str]:
    found = shutil.which(program, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin")
    return (
        subprocess.run(
            [found, *arguments], capture_output=True, text=True, check=False
        ).stdout.splitlines()
        if found
        else []
    )


def processes_of(home: Path) -> Iterator[str]:
    """Yield the pid and command of every living process that was started for a home."""
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get("ACKBENCH_HOME") == str(home)
            ):
                yield f"{process.pid} {' '.join(process.cmdline())[:200]}"
        except psutil.Error:
            continue  # it ended meanwhile, or is another user's
