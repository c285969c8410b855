"""Random schedules: each can be planned, ends in time and comes again with its seed; struck on a cluster in memory, each heals."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soak.random_schedules import random_schedule
from support.fakes.cluster import MemoryCluster

from experiments.events.clock import now_ns
from experiments.events.journal import Journal
from experiments.faults import FAULTS, FaultContext, process
from experiments.faults.composition.composite import heals_at_s
from experiments.faults.composition.execution import inject
from experiments.faults.composition.notation import format_fault, parse_fault
from experiments.faults.core.effects import Topology
from experiments.planning.experiment import parse_experiment
from experiments.planning.faults import fault_request, refuse_invalid_fault
from experiments.sweep.plan import FaultRequest

GROUND = tuple(
    kind.kind
    for kind in FAULTS.values()
    if (kind.network, kind.disk) == ("loopback", "folder") and kind.kind != "none"
)
OF_PROCESSES = tuple(kind.kind for kind in process.KINDS)
EXPERIMENT = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)


@given(seed=st.integers(), nodes=st.sampled_from((3, 5)), duration_s=st.floats(8, 60))
@settings(max_examples=200, deadline=None)
def test_each_schedule_can_be_planned(seed: int, nodes: int, duration_s: float) -> None:
    """It reads, is written in the one way, is possible on such a cluster, and is healed before the load ends."""
    text = random_schedule(seed, GROUND, nodes, duration_s)
    fault = fault_request(EXPERIMENT, text, {})
    refuse_invalid_fault(
        fault, Topology(nodes=nodes, partitions=1, replication_factor=3), duration_s, 1000, "all"
    )
    assert (format_fault(parse_fault(text)), heals_at_s(fault) < duration_s) == (text, True)


def test_a_seed_gives_the_same_schedule_and_another_one_another() -> None:
    """A hundred seeds hold nearly as many schedules."""
    drawn = [random_schedule(seed, OF_PROCESSES, 3, 14) for seed in range(100)]
    assert drawn == [random_schedule(seed, OF_PROCESSES, 3, 14) for seed in range(100)]
    assert len(set(drawn)) > 95


def test_every_fault_is_drawn_some_time() -> None:
    """And so are both ways to join them."""
    drawn = [parse_fault(random_schedule(seed, OF_PROCESSES, 3, 14)) for seed in range(400)]
    assert {leaf.kind for schedule in drawn for leaf in schedule.leaves()} == set(OF_PROCESSES)
    assert {schedule.joined for schedule in drawn} == {None, "&", ">>"}


def test_what_fits_nowhere_is_said() -> None:
    """A majority of two is all of them."""
    with pytest.raises(ValueError, match=r"none of majority-crash fits into 14 s on 2 nodes"):
        random_schedule(1, ["majority-crash"], 2, 14)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_schedule_heals(seed: int) -> None:
    """Struck in a hundredth of its time, whatever meets whom: every node runs in the end."""
    cluster = MemoryCluster()
    fault = fault_request(EXPERIMENT, random_schedule(seed, OF_PROCESSES, 3, 14), {}).with_leaves(
        _hastened
    )
    inject(fault, FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=0.01))
    assert set(cluster.states.values()) == {"running"}


def _hastened(leaf: FaultRequest) -> FaultRequest:
    short = {
        name: value / 100
        for name, value in leaf.parameters.items()
        if name.endswith("_s") and isinstance(value, float)
    }
    return leaf.model_copy(update={"parameters": leaf.parameters | short})
