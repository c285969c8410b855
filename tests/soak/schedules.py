"""Random schedules of faults, and an experiment that runs each of them in a case of its own.

A schedule combines one to three faults, sequentially (`>>`) or in parallel (`&`), that fit into the
duration of a load. Equal seeds give equal schedules.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from ackbench.experiments.commands.faults import missing_capabilities_of
from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.faults import FAULTS, FaultKind
from ackbench.experiments.trial.faults.composition.composite import (
    impossible_reason,
    needs_load_s,
    unnoticed_reason,
)
from ackbench.experiments.trial.faults.composition.notation import format_fault, parse_fault
from ackbench.experiments.trial.faults.core.effects import Topology

CLIENT_TIMEOUT_S: Final = 1.0
"""The clients' `socket.timeout.ms`; every pause of a schedule is longer."""
NODES: Final = 3
LOAD_S: Final = 14.0
_ACKS_AND_IDEMPOTENCE: Final = (("0", False), ("1", False), ("all", False), ("all", True))
_MAX_FAULTS: Final = 3
_ATTEMPTS: Final = 1000
_MIN_FRACTION: Final = 0.3
"""Of a parameter's default (or of half the load, if that is less): the shortest random duration."""


def soak_experiment(schedules: int, seed: int) -> str:
    """Return the YAML of an experiment of random schedules.

    Args:
        schedules: how many; each is a case.
        seed: equal seeds give equal experiments on machines with the same capabilities.
    """
    rng = random.Random(seed)  # noqa: S311 - not used for secrets
    pools = list(_fault_pools())
    cases = [_case(rng, rng.choice(pools), f"{seed}.{number}") for number in range(schedules)]
    return yaml.safe_dump(
        {
            "name": "soak",
            "title": "Is the cluster healthy and the machine clean after every schedule of faults?",
            "question": "Random schedules of faults, sequential and parallel: "
            "does the harness complete every trial, and leave nothing behind?",
            "nodes": NODES,
            "axes": cases,
            "producer": {"socket.timeout.ms": round(CLIENT_TIMEOUT_S * 1000)},
            "topic": {"min.insync.replicas": "majority"},
            "workload": {
                "rate_records_per_s": 2000,
                "record_size_bytes": 100,
                "duration_s": LOAD_S,
                "producers": 1,
            },
            "keys": {"count": 16},
            "controls": False,
            "seed": seed,
        },
        sort_keys=False,
        width=1000,
    )


def _fault_pools() -> Iterator[tuple[str, ...]]:
    """Yield, for each kind of network and disk, the faults that are possible on such a cluster.

    Faults that need this network or disk occur as often as all faults that need neither.
    """
    possible = [
        kind
        for kind in FAULTS.values()
        if kind.kind not in {"none", "command"} and not missing_capabilities_of(kind)
    ]
    for network, disk in sorted({(kind.network, kind.disk) for kind in possible}):
        own = [kind.kind for kind in possible if (kind.network, kind.disk) == (network, disk)]
        others = [
            kind.kind
            for kind in possible
            if _is_possible_on(kind, network, disk) and kind.kind not in own
        ]
        yield (*others, *own * max(1, len(others) // len(own)))


def _is_possible_on(kind: FaultKind, network: str, disk: str) -> bool:
    return kind.network in {"loopback", network} and kind.disk in {"folder", disk}


def _case(rng: random.Random, kinds: Sequence[str], seed: str) -> dict[str, Any]:
    acks, idempotence = rng.choice(_ACKS_AND_IDEMPOTENCE)
    schedule = random_schedule(seed, kinds, NODES, LOAD_S)
    return {
        "acks": acks,
        "enable.idempotence": idempotence,
        "replication.factor": 3,
        "partitions": rng.choice((1, 3)),
        "fault": schedule,
    }


def random_schedule(seed: int | str, kinds: Sequence[str], nodes: int, duration_s: float) -> str:
    """Return a schedule in the notation of `experiments.trial.faults.composition.notation`.

    Args:
        seed: equal seeds give equal schedules.
        kinds: the faults to choose from; all of them must be possible on one cluster.
        nodes: how many nodes the cluster has; each is a replica.
        duration_s: the load's duration; the last heal is scheduled before its end.

    Raises:
        ValueError: no fault fits into this duration.
    """
    rng = random.Random(seed)  # noqa: S311 - not used for secrets
    topology = Topology(nodes=nodes, partitions=1, replication_factor=nodes)
    for max_faults in (*[_MAX_FAULTS] * _ATTEMPTS, *[1] * _ATTEMPTS):
        schedule = _random_fault(rng, kinds, nodes, rng.randint(1, max_faults), duration_s)
        if _is_possible(schedule, topology, duration_s):
            return format_fault(schedule)
    raise ValueError(f"none of {', '.join(kinds)} fits into {duration_s:g} s on {nodes} nodes")


def _random_fault(
    rng: random.Random, kinds: Sequence[str], nodes: int, count: int, duration_s: float
) -> FaultRequest:
    """Return a random combination of `count` faults."""
    text = format_fault(_random_leaf(rng, rng.choice(kinds), nodes, duration_s))
    for _ in range(count - 1):
        operator = rng.choice(("&", ">>"))
        leaf = _random_leaf(rng, rng.choice(kinds), nodes, duration_s)
        text = f"({text}) {operator} {format_fault(leaf)}"
    return parse_fault(text)


def _random_leaf(rng: random.Random, kind: str, nodes: int, duration_s: float) -> FaultRequest:
    fields = FAULTS[kind].parameters.model_fields
    durations = {
        name: field.default
        for name, field in fields.items()
        if name.endswith("_s") and name != "patience_s" and isinstance(field.default, float)
    }
    parameters: dict[str, Scalar] = {
        name: round(min(default, duration_s / 2) * rng.uniform(_MIN_FRACTION, 1), 2)
        for name, default in durations.items()
    }
    if "node" in fields:
        parameters["node"] = rng.randint(1, nodes)
    return FaultRequest(kind=kind, parameters=parameters)


def _is_possible(schedule: FaultRequest, topology: Topology, duration_s: float) -> bool:
    return (
        needs_load_s(schedule, topology) < duration_s
        and not impossible_reason(schedule, topology)
        and not unnoticed_reason(schedule, CLIENT_TIMEOUT_S, "all")
    )
