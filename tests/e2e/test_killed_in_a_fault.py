"""After SIGKILL during a fault, `ackbench clean` restores the machine's state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from e2e.command import AckbenchCommand
from soak.killing import kill_during_the_fault
from support.machine_state import machine_state

from ackbench.experiments.commands.faults import missing_capabilities_of
from ackbench.experiments.trial.faults import FAULTS

pytestmark = pytest.mark.cluster

FAULTS_WITH_KERNEL_STATE = ("leader-isolated", "leader-power-loss")
"""One of each family with state beyond its processes; `make soak` has all families.

The network family: namespaces, bridges and packet rules. The disk family: images, mounts and loop
devices.
"""


@pytest.mark.further
@pytest.mark.root
@pytest.mark.parametrize("kind", FAULTS_WITH_KERNEL_STATE)
def test_cleaning_after_kill_9_during_a_fault_restores_the_machine(
    bench: AckbenchCommand, experiment: Callable[..., str], kind: str
) -> None:
    """The command, its run and the supervisor are killed at once, so no process cleans up."""
    if missing_capabilities_of(FAULTS[kind]):
        pytest.skip(f"{kind}: {missing_capabilities_of(FAULTS[kind])[0].reason}")
    before = machine_state(bench.home.root)
    kill_during_the_fault(bench, experiment(kind, acks="[1]", duration_s=12))
    cleaned = bench.run("clean", "--force")
    assert cleaned.returncode == 0, cleaned.stderr
    assert machine_state(bench.home.root).added_since(before) == []
