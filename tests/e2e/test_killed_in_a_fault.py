"""A run that is killed with -9 while a fault has hold of the machine: `ackbench clean` leaves it as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from e2e.command import Bench
from soak.killing import kill_during_the_fault
from support.machine_state import machine_state

from experiments.commands.faults import missing_capabilities_of
from experiments.faults import FAULTS

pytestmark = pytest.mark.cluster

FAULTS_THAT_HOLD = ("leader-isolated", "leader-power-loss")
"""One of each family that makes more than processes: namespaces, bridges and rules; images, mounts and loop devices. `make soak` has all families."""


@pytest.mark.root
@pytest.mark.parametrize("kind", FAULTS_THAT_HOLD)
def test_kill_9_during_a_fault_leaves_the_machine_as_it_was(
    bench: Bench, experiment: Callable[..., str], kind: str
) -> None:
    """The command, what carries out its run and the cluster's supervisor are killed at once, so nobody is left to tidy up."""
    if missing_capabilities_of(FAULTS[kind]):
        pytest.skip(f"{kind}: {missing_capabilities_of(FAULTS[kind])[0].reason}")
    before = machine_state(bench.home.root)
    kill_during_the_fault(bench, experiment(kind, acks="[1]", duration_s=12))
    cleaned = bench.run("clean", "--force")
    assert cleaned.returncode == 0, cleaned.stderr
    assert machine_state(bench.home.root).left_since(before) == []
