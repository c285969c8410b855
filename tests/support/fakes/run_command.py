"""Runs `ackbench` with the fake run: `run_command.py <mode of fake_run.py> <arguments>...`."""

import sys
from pathlib import Path
from unittest import mock

from ackbench.experiments.commands import cli, run

MODE, *ARGUMENTS = sys.argv[1:]
FAKE_RUN = Path(__file__).with_name("fake_run.py")

sys.argv = ["ackbench", *ARGUMENTS]
with (
    mock.patch.object(
        run, "runner_command", lambda sweep_id: (sys.executable, str(FAKE_RUN), MODE, sweep_id)
    ),
    mock.patch.object(run, "ensure_set_up"),
):
    cli.main()
