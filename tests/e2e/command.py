"""The command as a user runs it, in a home of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.machine_state import processes_of
from support.set_up_home import SET_UP

from ackbench.experiments.commands.setup import make_ready
from ackbench.experiments.trial.events.journal import JOURNAL_FILE
from ackbench.infra.machine.home import Home

COMMAND = Path(sys.executable).with_name("ackbench")


@dataclass(frozen=True)
class AckbenchCommand:
    """The command with its own home."""

    home: Home
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables."""
    prefix: tuple[str, ...] = ()
    """A command that runs the command, as another user for example."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment with the home, by which a killed run's processes are found."""
        return {**os.environ, "ACKBENCH_HOME": str(self.home.root), **self.variables}

    def run(self, *arguments: str, timeout_s: float = 800) -> subprocess.CompletedProcess[str]:
        """Run the command and wait for its exit."""
        return subprocess.run(
            [*self.prefix, COMMAND, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in a session of its own, as a terminal does."""
        return subprocess.Popen(
            [*self.prefix, COMMAND, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def show(self, *sweep: str) -> dict[str, Any]:
        """Return the output of `show --json` for a sweep; without one, for the newest."""
        process = self.run("show", "--json", *sweep)
        assert process.returncode == 0, process.stderr
        results: dict[str, Any] = json.loads(process.stdout)
        return results

    def processes(self) -> list[str]:
        """Return the commands of all running processes that were started for this home."""
        return sorted(processes_of(self.home.root))

    def event_kinds(self) -> list[str]:
        """Return the kinds of the events in the running trial's journal."""
        lines = list[str]()
        for path in self.home.sweeps.glob(f"*/trials/*.partial/{JOURNAL_FILE}"):
            with suppress(FileNotFoundError):  # the trial was sealed meanwhile
                lines += path.read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]


def new_bench(folder: Path, variables: Mapping[str, str] | None = None) -> AckbenchCommand:
    """Return the command with a new home in a folder; its name has a space."""
    bench = AckbenchCommand(Home(folder / "a home"), variables or {})
    bench.home.root.mkdir()
    (bench.home.root / "cache").symlink_to(SET_UP.cache)
    return bench


@contextmanager
def bench_in(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[AckbenchCommand]:
    """Return the command with a new home in a folder, and end what was started for it.

    Args:
        folder: where the home is made.
        variables: further environment variables.
    """
    make_ready(SET_UP, print)
    bench = new_bench(folder, variables)
    yield bench
    bench.run("clean", "--force")


def write_experiment(
    folder: Path,
    fault: str,
    *,
    acks: str = "[1, all]",
    duration_s: float = 4,
    controls: bool = False,
    sections: str = "",
) -> str:
    """Write a small experiment and return its path."""
    path = folder / "small.yaml"
    path.write_text(
        f"name: small\ntitle: Small\nquestion: Does a sweep run from start to finish?\n"
        f"axes: {{acks: {acks}, enable.idempotence: false, replication.factor: 3,\n"
        f"       partitions: 2, fault: {fault}}}\n"
        f"topic: {{min.insync.replicas: majority}}\n"
        f"workload: {{rate_records_per_s: 2000, record_size_bytes: 100,\n"
        f"           duration_s: {duration_s}, producers: 2}}\n"
        f"keys: {{count: 8}}\n"
        f"seed: 7\ncontrols: {str(controls).lower()}\n{sections}"
    )
    return str(path)
