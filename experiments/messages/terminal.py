"""Output of commands to the terminal: text of others never moves its cursor or colours it.

Commands print with `echo` and `echo_json`, and tables with `TerminalConsole`
(`experiments.messages.console`); `tests/unit/messages/test_writers.py` finds those that do not.
"""

from __future__ import annotations

import shutil
import sys

import click

from ackbench.experiments.messages.phrases import wrap_line
from ackbench.experiments.messages.visible import visible, visible_json


def echo(text: object = "", *, err: bool = False, bold: bool = False) -> None:
    """Print text.

    Args:
        text: what to print.
        err: print to standard error.
        bold: print it bold, if the output is a terminal.
    """
    shown = visible(str(text))
    click.echo(click.style(shown, bold=True) if bold else shown, err=err)


def echo_wrapped(text: str, indent: int, *, bold: bool = False) -> None:
    """Print a line, broken between words if the output is a terminal.

    Args:
        text: the line.
        indent: of its further lines.
        bold: print it bold, if the output is a terminal.
    """
    if not sys.stdout.isatty():
        echo(text, bold=bold)
        return
    for line in wrap_line(text, shutil.get_terminal_size().columns, " " * indent):
        echo(line, bold=bold)


def echo_error(text: str) -> None:
    """Print text to standard error; on a terminal its lines are broken between words."""
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        lines = (
            wrap_line(line, columns, "  ") if len(line) > columns else [line]
            for line in text.split("\n")
        )
        text = "\n".join(part for parts in lines for part in parts)
    echo(text, err=True)


def echo_json(document: str) -> None:
    """Print a JSON document; characters that a terminal would act on are escaped in it."""
    click.echo(visible_json(document))


def echo_progress(text: str, *, last: bool) -> None:
    """Print a line to standard error in place of the one before; the last one stays."""
    click.echo(f"\r{visible(text)}", err=True, nl=last)
