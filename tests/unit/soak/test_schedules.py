"""Random schedules are valid, reproducible, and heal on a cluster in memory."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soak.schedules import random_schedule
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.faults import fault_request, refuse_invalid_fault
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext, process
from ackbench.experiments.trial.faults.composition.composite import needs_load_s
from ackbench.experiments.trial.faults.composition.execution import inject
from ackbench.experiments.trial.faults.composition.notation import format_fault, parse_fault
from ackbench.experiments.trial.faults.core.effects import Topology

WITHOUT_CAPABILITIES = tuple(
    kind.kind
    for kind in FAULTS.values()
    if (kind.network, kind.disk) == ("loopback", "folder") and kind.kind != "none"
)
TOPOLOGY = Topology(nodes=3, partitions=1, replication_factor=3)
PROCESS_FAULTS = tuple(
    kind.kind for kind in process.KINDS if not kind.parameters().impossible_reason(TOPOLOGY)
)
EXPERIMENT = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)


@given(seed=st.integers(), nodes=st.sampled_from((3, 5)), duration_s=st.floats(8, 60))
@settings(max_examples=200, deadline=None)
def test_each_schedule_is_valid(seed: int, nodes: int, duration_s: float) -> None:
    """It is in canonical notation, possible on the cluster, and healed before the load ends."""
    text = random_schedule(seed, WITHOUT_CAPABILITIES, nodes, duration_s)
    fault = fault_request(EXPERIMENT, text, {})
    topology = Topology(nodes=nodes, partitions=1, replication_factor=3)
    refuse_invalid_fault(fault, topology, duration_s, 1000, "all")
    assert (format_fault(parse_fault(text)), needs_load_s(fault, topology) < duration_s) == (
        text,
        True,
    )


def test_equal_seeds_give_equal_schedules() -> None:
    """Different seeds nearly always give different ones."""
    schedules = [random_schedule(seed, PROCESS_FAULTS, 3, 14) for seed in range(100)]
    assert schedules == [random_schedule(seed, PROCESS_FAULTS, 3, 14) for seed in range(100)]
    assert len(set(schedules)) > 95


def test_every_fault_and_both_operators_occur() -> None:
    """In 400 schedules of a load that is long enough for a rolling restart."""
    schedules = [parse_fault(random_schedule(seed, PROCESS_FAULTS, 3, 30)) for seed in range(400)]
    assert {leaf.kind for schedule in schedules for leaf in schedule.leaves()} == set(
        PROCESS_FAULTS
    )
    assert {schedule.joined for schedule in schedules} == {None, "&", ">>"}


def test_faults_that_cannot_fit_are_an_error() -> None:
    """A majority of two nodes is both of them."""
    with pytest.raises(ValueError, match=r"none of majority-crash fits into 14 s on 2 nodes"):
        random_schedule(1, ["majority-crash"], 2, 14)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_schedule_heals(seed: int) -> None:
    """Injected with a hundredth of its durations: every node runs at the end."""
    cluster = MemoryCluster()
    fault = fault_request(EXPERIMENT, random_schedule(seed, PROCESS_FAULTS, 3, 14), {}).with_leaves(
        _shortened
    )
    inject(fault, FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=0.01))
    assert set(cluster.states.values()) == {"running"}


def _shortened(leaf: FaultRequest) -> FaultRequest:
    short = {
        name: value / 100
        for name, value in leaf.parameters.items()
        if name.endswith("_s") and isinstance(value, float)
    }
    return leaf.model_copy(update={"parameters": leaf.parameters | short})
