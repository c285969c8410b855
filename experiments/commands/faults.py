"""`ackbench faults`: the faults by family, the parameters of one, and what this machine lacks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.messages.terminal import echo, echo_wrapped
from ackbench.experiments.trial.faults import FAULTS, FaultKind
from ackbench.infra.cluster.capabilities import MissingCapability, missing_capability

UNAVAILABLE: Final = "not available on this machine"
FAMILIES: Final = tuple(dict.fromkeys(kind.family for kind in FAULTS.values()))


def print_faults(named: str | None) -> int:
    """Print one fault with its parameters, or the faults by family.

    Args:
        named: a fault, a family, or a part of names: `crash`; `None`: all faults.

    Raises:
        UnknownName: no fault is named so.
    """
    if kind := FAULTS.get(named or ""):
        _explain(kind)
    else:
        _list(named)
    return 0


def _list(only: str | None) -> None:
    """Print the faults by family, and for each unavailable one the reason and the remedy."""
    listed = [kind for kind in FAULTS.values() if only in {None, kind.family}] or [
        kind for kind in FAULTS.values() if only in kind.kind.split("-")
    ]
    if not listed:
        raise UnknownName(f"unknown fault {only}{did_you_mean(str(only), [*FAULTS, *FAMILIES])}")
    width = max(len(kind.kind) for kind in listed)
    for family, kinds in itertools.groupby(listed, key=lambda kind: kind.family):
        echo(family, bold=True)
        for kind in kinds:
            echo_wrapped(f"  {kind.kind:{width}}  {kind.summary}", width + 4)
            for lack in missing_capabilities_of(kind):
                text = f"{UNAVAILABLE}: {lack.reason} -> {lack.remedy}"
                echo_wrapped(f"  {'':{width}}  {text}", width + 4)


def _explain(kind: FaultKind) -> None:
    """Print what a fault does, its parameters with their defaults, and what it needs."""
    echo_wrapped(f"{kind.kind} ({kind.family}): {kind.summary}", 0, bold=True)
    for line in _description(kind):
        echo_wrapped(line, 4)


def missing_capabilities_of(kind: FaultKind) -> tuple[MissingCapability, ...]:
    """Return what this machine lacks for a fault, each once; empty if the fault is available."""
    lacks = map(missing_capability, sorted(kind.required_capabilities))
    return tuple(dict.fromkeys(lack for lack in lacks if lack))


def _description(kind: FaultKind) -> Iterator[str]:
    for name, field in kind.parameters.model_fields.items() if kind.kind != "none" else ():
        yield f"  {name} = {field.default}: {field.description}"
    yield from (f"  needs {capability}" for capability in sorted(kind.required_capabilities))
    yield from (
        f"  {UNAVAILABLE}: {lack.reason} -> {lack.remedy}" for lack in missing_capabilities_of(kind)
    )
    if kind.needs_own_cluster:
        yield "  its effect can outlive the trial: every trial gets a new cluster"
