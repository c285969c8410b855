"""An experiment of random schedules: each a cell of its own, drawn by the seed among the faults that this machine can do."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from soak.random_schedules import random_schedule

from experiments.commands.faults import missing_capabilities_of
from experiments.faults import FAULTS, FaultKind

SETTINGS = (("0", False), ("1", False), ("all", False), ("all", True))
NODES, LOAD_S = 3, 14.0


def soak_experiment(schedules: int, seed: int) -> str:
    """Return the experiment file; equal seeds give equal files on equal machines."""
    dice = random.Random(seed)  # noqa: S311 - no secret hangs on it
    grounds = list(_grounds())
    crosses = [
        _cross(dice, dice.choice(grounds), f"{seed}.{number}") for number in range(schedules)
    ]
    return yaml.safe_dump(
        {
            "name": "soak",
            "title": "Does every schedule of faults end with a whole cluster and a clean machine?",
            "question": "Random schedules of faults, in turn and at once: does the harness come to the end of every trial, and leave nothing behind?",
            "nodes": NODES,
            "axes": crosses,
            "producer": {"socket.timeout.ms": 1000},
            "topic": {"min.insync.replicas": "majority"},
            "workload": {
                "rate_records_per_s": 2000,
                "record_size_bytes": 100,
                "duration_s": LOAD_S,
                "keys": 16,
                "producers": 1,
            },
            "controls": False,
            "seed": seed,
        },
        sort_keys=False,
        width=1000,
    )


def _grounds() -> Iterator[tuple[str, ...]]:
    """Yield the faults that one cluster can have: those of each kind of network and disk as often as all those that need neither."""
    here = [
        kind
        for kind in FAULTS.values()
        if kind.kind != "none" and not missing_capabilities_of(kind)
    ]
    for ground in sorted({(kind.network, kind.disk) for kind in here}):
        own = [kind.kind for kind in here if (kind.network, kind.disk) == ground]
        others = [kind.kind for kind in here if _stands_on(kind, ground) and kind.kind not in own]
        yield (*others, *own * max(1, len(others) // len(own)))


def _stands_on(kind: FaultKind, ground: tuple[str, str]) -> bool:
    return kind.network in {"loopback", ground[0]} and kind.disk in {"folder", ground[1]}


def _cross(dice: random.Random, kinds: Sequence[str], seed: str) -> dict[str, Any]:
    acks, idempotence = dice.choice(SETTINGS)
    schedule = random_schedule(seed, kinds, NODES, LOAD_S)
    return {
        "acks": acks,
        "enable.idempotence": idempotence,
        "replication.factor": 3,
        "partitions": dice.choice((1, 3)),
        "fault": schedule,
    }
