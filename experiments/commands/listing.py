"""`ackbench list`."""

from __future__ import annotations

import math
import sys

import click

from experiments.spec.catalog import catalogue
from experiments.spec.model import Experiment


def list_experiments() -> int:
    """Print each experiment's name, what it sweeps, and its question."""
    experiments = catalogue()
    width = max((len(experiment.name) for experiment in experiments), default=0)
    for experiment in experiments:
        click.echo(f"{_bold(experiment.name.ljust(width))}  {experiment.title}")
        click.echo(f"{'':{width}}  {_extent(experiment)}")
    return 0


def _extent(experiment: Experiment) -> str:
    """Return how much it is: the points of its cross products, before duplicates fall together and clients refuse some."""
    cells = sum(math.prod(len(values) for values in cross.values()) for cross in experiment.axes)
    repeats = f" x {experiment.repeats}" if experiment.repeats > 1 else ""
    schedule = f", scheduled {experiment.schedule}" if experiment.schedule else ""
    return f"{cells} cells{repeats} of {experiment.workload.duration_s:g} s on {experiment.nodes} nodes{schedule}"


def _bold(text: str) -> str:
    return click.style(text, bold=True) if sys.stdout.isatty() else text
