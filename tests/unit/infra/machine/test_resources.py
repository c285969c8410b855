"""The resources of the machine, and whether they are enough for a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.records import a_spec

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.planning.capacity import ResourceNeeds, resource_needs
from ackbench.experiments.sweep.plan import ClusterNeed, Plan, TrialSpec, Workload
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.resources import GIB, MachineResources, require_resources, this_machine

SMALL = MachineResources(memory_bytes=2 * GIB, disk_bytes=10 * GIB, cores=2, root=False)


def planned(*trials: TrialSpec) -> Plan:
    """Return a plan with these trials."""
    return Plan(
        sweep_id="s", experiment="e", question="q", seed=1, repeats=1, trials=trials, refused=()
    )


def a_load(duration_s: float) -> TrialSpec:
    """Return a trial of 100,000 records per second."""
    return a_spec(
        workload=Workload(
            rate_records_per_s=100_000,
            record_size_bytes=1000,
            duration_s=duration_s,
            keys=Keys(count=0),
            producers=1,
        )
    )


def test_this_machine_has_some_of_every_resource(tmp_path: Path) -> None:
    """For a folder that does not exist yet, its parent's disk counts."""
    machine = this_machine(tmp_path / "not" / "there" / "yet")

    assert min(machine.memory_bytes, machine.disk_bytes, machine.cores) > 0


@pytest.mark.parametrize(
    ("memory_gib", "disk_gib", "words"),
    [
        (3, 1, "a sweep needs 3.0 GiB of memory and 2.0 GiB are free"),
        (1, 11, "a sweep needs 11.0 GiB of disk and 10.0 GiB are free"),
    ],
)
def test_insufficient_resources_are_one_line_with_both_figures(
    memory_gib: int, disk_gib: int, words: str
) -> None:
    """What is needed and what is free."""
    with pytest.raises(MachineError, match=words):
        require_resources(
            SMALL, memory_bytes=memory_gib * GIB, disk_bytes=disk_gib * GIB, purpose="a sweep"
        )


def test_too_few_open_files_are_told_before_the_first_trial() -> None:
    """Spark's JVM has 336 files open; with fewer its start fails after the last trial."""
    few = replace(SMALL, open_files=256)
    needs = resource_needs(planned(a_load(10)))
    with pytest.raises(MachineError, match=r"needs 512 open .* may have 256: .*ulimit -n 4096"):
        require_resources(
            few, memory_bytes=0, disk_bytes=0, open_files=needs.open_files, purpose="a sweep"
        )


def test_exactly_enough_resources_are_accepted() -> None:
    """All that is free may be used."""
    require_resources(
        SMALL, memory_bytes=SMALL.memory_bytes, disk_bytes=SMALL.disk_bytes, purpose="a sweep"
    )


def test_a_sweep_without_trials_needs_nothing() -> None:
    """When every cell is refused, nothing will be started."""
    assert resource_needs(planned()) == ResourceNeeds(0, 0)


def test_disk_grows_with_records_and_memory_with_nodes() -> None:
    """Twice the trials take more disk and no more memory, because they run one at a time.

    More nodes take more memory.
    """
    one, two = resource_needs(planned(a_load(10))), resource_needs(planned(a_load(10), a_load(10)))
    wide = resource_needs(
        planned(
            a_load(10).model_copy(update={"cluster": ClusterNeed(nodes=5, kafka_version="4.3.1")})
        )
    )

    assert (two.memory_bytes, two.disk_bytes > one.disk_bytes) == (one.memory_bytes, True)
    assert wide.memory_bytes > one.memory_bytes


def test_the_disk_has_room_for_every_replica_of_every_record() -> None:
    """A million records of 1,000 bytes on three replicas are three billion bytes at least."""
    assert resource_needs(planned(a_load(10))).disk_bytes > 3 * 10**9
