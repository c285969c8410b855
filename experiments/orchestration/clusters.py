"""The clusters of a sweep: one at a time, numbered in the order they were made, found again by their folders whoever died."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.ledger.record import ClusterAssignment
from experiments.sweep.plan import ClusterNeed, TrialSpec
from infra.cluster import local
from infra.cluster.handle import HANDLE_FILE as HANDLE
from infra.cluster.handle import read_handle
from infra.cluster.interface import Cluster
from infra.errors import HarnessError
from infra.machine.home import Home

WHOLE_TIMEOUT_S: Final = 30.0
"""A cluster that a fault or a killed task left behind heals within this, or is made anew."""
UNUSED: Final = "unused"
"""A file in the folder of a cluster that no trial has run on yet."""


@dataclass(frozen=True)
class AssignedCluster:
    """A cluster for one trial, and how it came by it."""

    cluster: Cluster
    cluster_assignment: ClusterAssignment


def provision(home: Home, sweep_id: str, need: ClusterNeed, holder_grace_s: float) -> Cluster:
    """Make a cluster for the sweep and return it once it is whole; any that it had before is destroyed.

    Raises:
        InputError, HarnessError: as `infra.cluster.local.provision`.
    """
    if need.external:
        return _outside(home, sweep_id, need)
    destroy_all(home, sweep_id)
    folders = _folders(home, sweep_id)
    number = int(folders[-1].suffix[1:]) + 1 if folders else 1
    cluster = local.provision(
        home.clusters, home.cache, f"{sweep_id}.{number:03d}", need.spec(), holder_grace_s
    )
    (cluster.folder / UNUSED).touch()
    return cluster


def fit_for(home: Home, trial: TrialSpec, holder_grace_s: float) -> AssignedCluster:
    """Return the cluster for a trial: the sweep's own where it is of the kind that is needed and proves itself whole; otherwise a new one.

    A trial whose fault can outlive it gets one that nobody has used. One that several trials share is run in before the first of them, or that one
    would measure the brokers' start; where every trial has its own, all have the same start.

    Raises:
        InputError, HarnessError: as `infra.cluster.local.provision` and `run_in`.
    """
    if trial.cluster.external:
        return AssignedCluster(
            _outside(home, trial.sweep_id, trial.cluster),
            ClusterAssignment(
                cluster=trial.cluster.external, made=False, why="it is somebody else's"
            ),
        )
    folders = _folders(home, trial.sweep_id)
    found = (
        _whole(folders[-1], trial, holder_grace_s) if folders else "it is the first of this sweep"
    )
    if isinstance(found, str):
        return _lodged(provision(home, trial.sweep_id, trial.cluster, holder_grace_s), trial, found)
    return _lodged(found, trial)


def used_up(home: Home, trial: TrialSpec) -> None:
    """After a trial whose fault can outlive it: end its cluster, so that nobody gets it."""
    if trial.needs_own_cluster:
        destroy_all(home, trial.sweep_id)


def destroy_all(home: Home, sweep_id: str) -> None:
    """End every cluster of the sweep, living or not; a second time finds nothing to do. Logs are kept until `ackbench clean`."""
    for folder in _folders(home, sweep_id):
        if (folder / HANDLE).is_file():  # killed before it wrote one, it had started nothing
            local.destroy(folder)


def _outside(home: Home, sweep_id: str, need: ClusterNeed) -> Cluster:
    """Return the cluster that is somebody else's, as it is now."""
    from experiments.clients.settings.security import connection_settings, register_security
    from infra.cluster.external import ExternalCluster, probe_cluster

    servers = str(need.external)
    register_security(servers, need.security)
    connection = connection_settings(servers)
    return ExternalCluster(
        home.clusters / f"{sweep_id}.external", need.spec(), connection, probe_cluster(connection)
    )


def _lodged(cluster: Cluster, trial: TrialSpec, why: str = "") -> AssignedCluster:
    """Say how the trial came by it, run it in if others are to follow, and mark it as used from now on."""
    from experiments.clients.librdkafka import warm_up

    unused = (cluster.folder / UNUSED).is_file()
    if unused and not trial.needs_own_cluster:
        warm_up.warm_up_brokers(cluster)
    (cluster.folder / UNUSED).unlink(missing_ok=True)
    shared = "it was whole again after the trial before, and no fault there can outlive its trial"
    return AssignedCluster(
        cluster,
        ClusterAssignment(
            cluster=cluster.folder.name,
            made=unused,
            why=why or ("it is the first of this sweep" if unused else shared),
        ),
    )


def _whole(folder: Path, trial: TrialSpec, holder_grace_s: float) -> Cluster | str:
    """Return the cluster of that folder, held by this process; or why it will not do, as a clause."""
    try:
        handle = read_handle(folder)
        if handle.spec != trial.cluster.spec():
            return "another kind of cluster was needed than the one before"
        if trial.needs_own_cluster and not (folder / UNUSED).is_file():
            return "its fault can outlive it"
        if handle.supervisor is None:
            return "the one before was used up"
        cluster = local.attach(folder, holder_grace_s)
        cluster.wait_until_healthy(WHOLE_TIMEOUT_S)
    except HarnessError as error:
        return f"the one before did not prove itself whole: {error}"
    return cluster


def _folders(home: Home, sweep_id: str) -> list[Path]:
    return sorted(home.clusters.glob(f"{sweep_id}.[0-9][0-9][0-9]"))
