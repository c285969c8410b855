"""The command as a user runs it, in a home of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.machine_state import processes_of

from experiments.trial.run import JOURNAL_FILE
from infra.machine.home import Home

COMMAND = Path(sys.executable).with_name("ackbench")


@dataclass(frozen=True)
class AckbenchCommand:
    """The command with its own home."""

    home: Home

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment with the home, by which a killed run's processes are found."""
        return {**os.environ, "ACKBENCH_HOME": str(self.home.root)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command and wait for its exit."""
        return subprocess.run(
            [COMMAND, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in a session of its own, as a terminal does."""
        return subprocess.Popen(
            [COMMAND, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def show(self) -> dict[str, Any]:
        """Return the output of `show --json` for the newest sweep."""
        process = self.run("show", "--json")
        assert process.returncode == 0, process.stderr
        results: dict[str, Any] = json.loads(process.stdout)
        return results

    def processes(self) -> list[str]:
        """Return the commands of all running processes that were started for this home."""
        return sorted(processes_of(self.home.root))

    def event_kinds(self) -> list[str]:
        """Return the kinds of the events in the running trial's journal."""
        lines = [
            line
            for path in self.home.sweeps.glob(f"*/trials/*.partial/{JOURNAL_FILE}")
            for line in path.read_text().splitlines()
        ]
        return [json.loads(line)["kind"] for line in lines]
