"""The gate's last word: its reasons, a line each, and its exit code."""

from __future__ import annotations

from collections.abc import Sequence

import click

from experiments.comparing.gate import EXIT_CODE


def passed(reasons: Sequence[str]) -> int:
    """Return the exit code, and say on stderr why it is not 0."""
    for reason in reasons:
        click.echo(f"ackbench: {' '.join(reason.split())}", err=True)
    return EXIT_CODE if reasons else 0
