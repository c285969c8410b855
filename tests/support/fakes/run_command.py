"""Runs `ackbench` with another process in place of the DAG: `run_beside.py <stand-in's mode> <arguments of ackbench>...`."""

import sys
from pathlib import Path
from unittest import mock

from experiments import cli
from experiments.commands import run

MODE, *ARGUMENTS = sys.argv[1:]
STAND_IN = Path(__file__).with_name("dag_run.py")

sys.argv = ["ackbench", *ARGUMENTS]
with mock.patch.object(
    run, "embedded_command", lambda sweep_id: (sys.executable, str(STAND_IN), MODE, sweep_id)
):
    cli.main()
