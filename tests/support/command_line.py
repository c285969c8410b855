"""The command, run in the test's own process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from experiments.cli import cli


def ackbench(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(cli, arguments, prog_name="ackbench")
