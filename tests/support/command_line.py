"""Runs the command line in the test's process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from ackbench.experiments.commands.cli import cli


def ackbench(*arguments: str) -> Result:
    """Run `ackbench` with these arguments, and return its output and exit code."""
    return CliRunner().invoke(cli, arguments, prog_name="ackbench")
