"""`ackbench faults`: what can go wrong, by family; of one fault, its parameters. Says of each whether this machine can do it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import click

from experiments.errors import UnknownName
from experiments.faults import FAULTS, FaultKind
from experiments.messages.phrases import did_you_mean
from infra.cluster.capabilities import MissingCapability, missing

NOT_HERE = "cannot be done here"


def list_faults() -> int:
    """Print each family's faults, a line each, and under those that this machine cannot do why, and what would enable them."""
    width = max(map(len, FAULTS))
    for family, kinds in itertools.groupby(FAULTS.values(), key=lambda kind: kind.family):
        click.echo(_bold(family))
        for kind in kinds:
            click.echo(f"  {kind.kind:{width}}  {kind.summary}")
            for lack in lacks_of(kind):
                click.echo(f"  {'':{width}}  {NOT_HERE}: {lack.reason} -> {lack.then}")
    return 0


def explain_fault(named: str) -> int:
    """Print what a fault does, its parameters with their defaults, and what it needs.

    Raises:
        UnknownName: there is no such fault.
    """
    if named not in FAULTS:
        raise UnknownName(f"unknown fault {named}{did_you_mean(named, FAULTS)}")
    for line in _explained(FAULTS[named]):
        click.echo(line)
    return 0


def lacks_of(kind: FaultKind) -> tuple[MissingCapability, ...]:
    """Return what this machine lacks for a fault; nothing where it can be done."""
    return tuple(lack for lack in map(missing, sorted(kind.required_capabilities)) if lack)


def _explained(kind: FaultKind) -> Iterator[str]:
    yield f"{_bold(kind.kind)} ({kind.family}): {kind.summary}"
    for name, field in kind.parameters.model_fields.items() if kind.kind != "none" else ():
        yield f"  {name} = {field.default}: {field.description}"
    yield from (f"  needs {means}" for means in sorted(kind.required_capabilities))
    yield from (f"  {NOT_HERE}: {lack.reason} -> {lack.then}" for lack in lacks_of(kind))
    if kind.needs_own_cluster:
        yield "  what it does can outlive its trial: each gets a cluster of its own"


def _bold(text: str) -> str:
    return click.style(text, bold=True) if sys.stdout.isatty() else text
