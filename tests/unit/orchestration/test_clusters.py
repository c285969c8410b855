"""Which cluster a trial gets: the sweep's own while that can be trusted, one that nobody used where its fault can outlive it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.fakes.cluster import MemoryCluster

from experiments.clients.librdkafka import warm_up
from experiments.orchestration import clusters
from experiments.sweep.plan import TrialSpec
from infra.cluster import local
from infra.cluster.handle import ClusterHandle, read_handle
from infra.errors import WaitTimeout
from infra.kafka.spec import ClusterSpec, ClusterState, LaunchSpec
from infra.machine.home import Home
from infra.process.processes import ProcessIdentity


class Unwhole(MemoryCluster):
    """One that does not heal."""

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Never."""
        raise WaitTimeout(f"waited {timeout_s:g} s; node 2 is fenced")


@pytest.fixture
def run_in() -> list[str]:
    """The clusters that were run in."""
    return []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_in: list[str]) -> Home:
    """A home whose clusters are handles on disk and nothing else."""
    monkeypatch.setattr(
        warm_up, "warm_up_brokers", lambda cluster: run_in.append(cluster.folder.name[-3:])
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


def lodge(home: Home, trial: TrialSpec) -> tuple[str, bool, str]:
    """Find a cluster for a trial; return the number, whether it is new, and why."""
    cluster_assignment = clusters.fit_for(home, trial, 0).cluster_assignment
    return cluster_assignment.cluster[-3:], cluster_assignment.made, cluster_assignment.why


def test_trials_share_a_cluster_that_is_whole_again(home: Home) -> None:
    """The first one makes it."""
    assert lodge(home, a_spec()) == ("001", True, "it is the first of this sweep")
    assert lodge(home, a_spec())[:2] == ("001", False)


def test_the_cluster_that_was_provisioned_for_the_sweep_is_its_first_trials(home: Home) -> None:
    """Also where that trial needs one that nobody used."""
    trial = a_spec(needs_own_cluster=True)
    clusters.provision(home, trial.sweep_id, trial.cluster, 0)
    assert lodge(home, trial) == ("001", True, "it is the first of this sweep")


def test_a_trial_whose_fault_can_outlive_it_shares_with_nobody(home: Home) -> None:
    """Neither with those before it nor with those after it."""
    lodge(home, a_spec())
    assert lodge(home, a_spec(needs_own_cluster=True)) == ("002", True, "its fault can outlive it")
    clusters.used_up(home, a_spec(needs_own_cluster=True))
    assert lodge(home, a_spec()) == ("003", True, "the one before was used up")


def test_a_cluster_that_does_not_prove_itself_whole_is_made_anew_and_the_trial_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is what it lacked."""
    lodge(home, a_spec())
    monkeypatch.setattr(local, "attach", lambda folder, _grace_s: Unwhole(folder))
    number, made, why = lodge(home, a_spec())
    assert (number, made) == ("002", True)
    assert why.endswith("node 2 is fenced")


def test_another_kind_of_cluster_is_made_where_one_is_needed(home: Home) -> None:
    """Equal needs share, unequal ones do not."""
    lodge(home, a_spec())
    other = a_spec().cluster.model_copy(update={"nodes": 5})
    assert lodge(home, a_spec(cluster=other)) == (
        "002",
        True,
        "another kind of cluster was needed than the one before",
    )


def test_a_cluster_is_run_in_once_before_the_first_of_those_who_share_it(
    home: Home, run_in: list[str]
) -> None:
    """Or whoever is drawn to be the first would measure the start of its brokers."""
    lodge(home, a_spec())
    lodge(home, a_spec())
    assert run_in == ["001"]


def test_a_cluster_that_only_one_trial_gets_is_not_run_in(home: Home, run_in: list[str]) -> None:
    """All such trials have the same start."""
    lodge(home, a_spec(needs_own_cluster=True))
    assert run_in == []
