"""What a lesson claims about Kafka, as the experiment that tests it puts it, and when an experiment cannot test it any more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from experiments.errors import ExperimentError
from experiments.ledger.record import Cell, Frozen
from experiments.plurals import counted, listed

LESSONS = 18
"""How many claims there are, in the order of the lessons."""
NO_FAULT = "none"

Told = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]


class Claim(Frozen):
    """A claim of the lessons, and what is done about it."""

    lesson: int = Field(ge=1, le=LESSONS, strict=True)
    """Its place among the lessons; says too how the finding is made (`experiments.findings`)."""
    says: Told
    """The claim."""
    mechanism: Told
    """How Kafka does it."""
    method: Told
    """What is done, and what is measured."""
    refuted_by: Told
    """What would have to be seen for the claim to fall."""
    in_production: Told | None = None
    """What to set where it matters."""
    varies: tuple[str, ...] = ()
    """Axes of which at least two values must be left, for there is nothing to compare without."""
    strikes: bool = False
    """Whether a fault must strike in some cell."""
    nodes_at_least: int = Field(default=1, ge=1, strict=True)


def check_claim(claim: Claim, cells: Sequence[Cell], nodes: int) -> None:
    """See that what is left of an experiment still tests its claim.

    Args:
        claim: the experiment's.
        cells: its own cells, with every override in them.
        nodes: how many brokers it has where a cell does not say it.

    Raises:
        ExperimentError: an override took away what the question is about; one line with the reason.
    """
    if claim.strikes and all(cell.get("fault", NO_FAULT) == NO_FAULT for cell in cells):
        raise ExperimentError("fault is none in every cell, and the question is what a fault does: leave it a fault, or ask another experiment")
    for axis in claim.varies:
        values = {str(cell.get(axis)): None for cell in cells}
        if len(values) < 2:  # noqa: PLR2004 - a comparison has two sides
            raise ExperimentError(f"{axis} is {listed(list(values))} in every cell, and the question compares: give it two values or more")
    most = max(int(str(cell.get("nodes", nodes))) for cell in cells)
    if most < claim.nodes_at_least:
        raise ExperimentError(f"nodes is {most}; the question needs at least {counted(claim.nodes_at_least, 'node')}")
