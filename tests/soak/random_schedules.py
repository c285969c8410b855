"""Random schedules of faults, the same for the same seed: one to three, in turn and at once, that fit into the time of a load. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from experiments.faults import FAULTS
from experiments.faults.composition.composite import heals_at_s, impossible_reason, unnoticed_reason
from experiments.faults.composition.notation import format_fault, parse_fault
from experiments.faults.core.effects import Topology
from experiments.ledger.record import Scalar
from experiments.sweep.plan import FaultRequest

CLIENT_TIMEOUT_S: Final = 1.0
"""The `socket.timeout.ms` that a schedule's pauses are longer than."""
_MOST_PARTS: Final = 3
_TRIES: Final = 1000
_SHORTEST: Final = 0.3
"""A time is at least so much of its default, or of half the load where that is less."""


def random_schedule(seed: int | str, kinds: Sequence[str], nodes: int, duration_s: float) -> str:
    """Return a schedule as `experiments.faults.composition.notation` has it, with times drawn at random.

    Args:
        seed: equal seeds give equal schedules.
        kinds: the faults to draw from; all of them must be possible on one cluster.
        nodes: how many the cluster has; each is a replica.
        duration_s: the load's; the last heal is asked for before its end.

    Raises:
        ValueError: no fault of these fits into that time.
    """
    dice = random.Random(seed)  # noqa: S311 - no secret hangs on it
    shape = Topology(nodes=nodes, partitions=1, replication_factor=nodes)
    for most in (*(_MOST_PARTS for _ in range(_TRIES)), *(1 for _ in range(_TRIES))):
        schedule = _drawn(dice, kinds, nodes, dice.randint(1, most), duration_s)
        if _can_be(schedule, shape, duration_s):
            return format_fault(schedule)
    raise ValueError(f"none of {', '.join(kinds)} fits into {duration_s:g} s on {nodes} nodes")


def _drawn(
    dice: random.Random, kinds: Sequence[str], nodes: int, parts: int, duration_s: float
) -> FaultRequest:
    text = format_fault(_leaf(dice, dice.choice(kinds), nodes, duration_s))
    for _ in range(parts - 1):
        text = f"({text}) {dice.choice(('&', '>>'))} {format_fault(_leaf(dice, dice.choice(kinds), nodes, duration_s))}"
    return parse_fault(text)


def _leaf(dice: random.Random, kind: str, nodes: int, duration_s: float) -> FaultRequest:
    fields = FAULTS[kind].parameters.model_fields
    times = {
        name: field.default
        for name, field in fields.items()
        if name.endswith("_s") and name != "patience_s" and isinstance(field.default, float)
    }
    drawn: dict[str, Scalar] = {
        name: round(min(default, duration_s / 2) * dice.uniform(_SHORTEST, 1), 2)
        for name, default in times.items()
    }
    return FaultRequest(
        kind=kind, parameters=drawn | ({"node": dice.randint(1, nodes)} if "node" in fields else {})
    )


def _can_be(schedule: FaultRequest, shape: Topology, duration_s: float) -> bool:
    return (
        heals_at_s(schedule) < duration_s
        and not impossible_reason(schedule, shape)
        and not unnoticed_reason(schedule, CLIENT_TIMEOUT_S, "all")
    )
