"""Which cluster a trial gets: the sweep's healthy cluster, or an unused one of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.orchestration import clusters
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.trial.clients.librdkafka import warm_up
from ackbench.infra.cluster import local
from ackbench.infra.cluster.handle import ClusterHandle, read_handle
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.spec import ClusterSpec, ClusterState, LaunchSpec
from ackbench.infra.machine.home import Home
from ackbench.infra.process.processes import ProcessIdentity


class UnhealthyCluster(MemoryCluster):
    """A cluster with a fenced broker."""

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Time out."""
        raise WaitTimeout(f"waited {timeout_s:g} s; node 2 is fenced")


@pytest.fixture
def warmed_up() -> list[str]:
    """Return the numbers of the clusters that were warmed up; the test's clusters add theirs."""
    return []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warmed_up: list[str]) -> Home:
    """Return a home whose clusters are only handles on disk."""
    monkeypatch.setattr(
        warm_up, "warm_up_brokers", lambda cluster: warmed_up.append(cluster.folder.name[-3:])
    )

    def provision(
        folder: Path, _cache: Path, name: str, spec: ClusterSpec, _grace_s: float
    ) -> MemoryCluster:
        (folder / name).mkdir(parents=True)
        ClusterHandle(
            name, "id", spec, LaunchSpec((), ""), {}, (), supervisor=ProcessIdentity.own()
        ).write(folder / name)
        return MemoryCluster(folder / name, spec)

    def destroy(folder: Path) -> None:
        replace(read_handle(folder), supervisor=None).write(folder)

    monkeypatch.setattr(local, "provision", provision)
    monkeypatch.setattr(local, "destroy", destroy)
    monkeypatch.setattr(local, "attach", lambda folder, _grace_s: MemoryCluster(folder))
    return Home(tmp_path)


def assign(home: Home, trial: TrialSpec) -> tuple[str, bool, str]:
    """Assign a cluster to a trial; return its number, whether it is new, and why."""
    assignment = clusters.assign_cluster(home, trial, 0).assignment
    return assignment.cluster[-3:], assignment.made, assignment.why


def test_trials_share_a_healthy_cluster(home: Home) -> None:
    """The first trial creates it."""
    assert assign(home, a_spec()) == ("001", True, clusters.FIRST_CLUSTER)
    assert assign(home, a_spec())[:2] == ("001", False)


def test_the_first_trial_gets_the_provisioned_cluster(home: Home) -> None:
    """A trial that needs an unused cluster gets it too."""
    trial = a_spec(needs_own_cluster=True)
    clusters.provision(home, trial, 0)
    assert assign(home, trial) == ("001", True, clusters.FIRST_CLUSTER)


def test_a_trial_whose_fault_can_outlive_it_shares_its_cluster_with_no_other(home: Home) -> None:
    """Neither the trial before it nor the one after it runs on the same cluster."""
    assign(home, a_spec())
    trial = a_spec(needs_own_cluster=True)
    assigned = clusters.assign_cluster(home, trial, 0)
    assert (assigned.assignment.cluster[-3:], assigned.assignment.why) == (
        "002",
        "its fault can outlive the trial",
    )
    clusters.destroy_after_use(home, trial, assigned.cluster)
    assert assign(home, a_spec()) == (
        "003",
        True,
        "the previous cluster was destroyed after its trial",
    )


def test_an_unhealthy_cluster_is_replaced_and_the_assignment_gives_the_reason(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason names what was unhealthy."""
    assign(home, a_spec())
    monkeypatch.setattr(local, "attach", lambda folder, _grace_s: UnhealthyCluster(folder))
    number, made, why = assign(home, a_spec())
    assert (number, made) == ("002", True)
    assert why.endswith("node 2 is fenced")


def test_a_trial_that_needs_another_configuration_gets_a_new_cluster(home: Home) -> None:
    """Only trials with equal needs share a cluster."""
    assign(home, a_spec())
    other = replace(a_spec().cluster, nodes=5)
    assert assign(home, a_spec(cluster=other)) == (
        "002",
        True,
        "the previous cluster has another configuration",
    )


def test_a_shared_cluster_is_warmed_up_once(home: Home, warmed_up: list[str]) -> None:
    """Otherwise the first of its trials would measure the start of the brokers."""
    assign(home, a_spec())
    assign(home, a_spec())
    assert warmed_up == ["001"]


def test_a_cluster_of_a_single_trial_is_not_warmed_up(home: Home, warmed_up: list[str]) -> None:
    """All such trials have the same start."""
    assign(home, a_spec(needs_own_cluster=True))
    assert warmed_up == []


def test_a_sweep_may_have_more_than_999_clusters(home: Home) -> None:
    """Each has the next number, and the newest one is used: a trial may need its own cluster."""
    trial = a_spec(needs_own_cluster=True)
    (home.clusters / f"{trial.sweep_id}.999").mkdir(parents=True)
    names = [clusters.provision(home, trial, 0).folder.name]
    assert clusters.assign_cluster(home, trial, 0).assignment.cluster == names[0]
    names.append(clusters.assign_cluster(home, trial, 0).assignment.cluster)
    assert names == [f"{trial.sweep_id}.1000", f"{trial.sweep_id}.1001"]


def test_clusters_of_other_sweeps_are_not_those_of_the_sweep(home: Home) -> None:
    """The names of their folders may begin alike, and an id is no pattern."""
    for name in ("a.001", "a.b.002", "a.external", "[a].003"):
        (home.clusters / name).mkdir(parents=True)
    numbers = {
        sweep_id: clusters.cluster_folders(home, sweep_id) for sweep_id in ("a", "a.b", "[a]")
    }
    assert {sweep_id: [path.name for path in paths] for sweep_id, paths in numbers.items()} == {
        "a": ["a.001"],
        "a.b": ["a.b.002"],
        "[a]": ["[a].003"],
    }


def test_a_cluster_whose_warm_up_failed_is_not_used_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic of the warm-up may be left there, and the next trial would fail because of it."""

    def fail(_cluster: object) -> None:
        raise WaitTimeout("42 records not answered within 30 s")

    with monkeypatch.context() as patch:
        patch.setattr(warm_up, "warm_up_brokers", fail)
        with pytest.raises(WaitTimeout):
            assign(home, a_spec())
    assert assign(home, a_spec())[:2] == ("002", True)
