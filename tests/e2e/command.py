"""The command as a user runs it, in a home of its own."""

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
class Bench:
    """A home, and the command that works in it."""

    home: Home

    @property
    def environment(self) -> dict[str, str]:
        """Name the home; a killed run's processes are found by it."""
        return {**os.environ, "ACKBENCH_HOME": str(self.home.root)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
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

    def shown(self) -> dict[str, Any]:
        """Return what `show --json` prints of the newest sweep."""
        shown = self.run("show", "--json")
        assert shown.returncode == 0, shown.stderr
        found: dict[str, Any] = json.loads(shown.stdout)
        return found

    def processes(self) -> list[str]:
        """Return the commands of every living process that was started for this home."""
        return sorted(processes_of(self.home.root))

    def diary(self) -> list[str]:
        """Return the kinds of events that the trial under way has noted."""
        lines = [
            line
            for path in self.home.sweeps.glob(f"*/trials/*.partial/{JOURNAL_FILE}")
            for line in path.read_text().splitlines()
        ]
        return [json.loads(line)["kind"] for line in lines]
