"""The clusters of a sweep: one at a time, numbered in the order they were made, found again by their folders whoever died."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiments.plan import ClusterNeed
from infra import local
from infra.cluster import Cluster, ClusterSpec
from infra.errors import HarnessError
from infra.handle import NAME as HANDLE
from infra.handle import read_handle
from infra.home import Home

WHOLE_TIMEOUT_S: Final = 30.0
"""A cluster that a fault or a killed task left behind heals within this, or is made anew."""


def provision(home: Home, sweep_id: str, need: ClusterNeed, holder_grace_s: float) -> Cluster:
    """Make a cluster for the sweep and return it once it is whole; any that it had before is destroyed.

    Raises:
        InputError, HarnessError: as `infra.local.provision`.
    """
    destroy_all(home, sweep_id)
    folders = _folders(home, sweep_id)
    number = int(folders[-1].suffix[1:]) + 1 if folders else 1
    return local.provision(home.clusters, home.cache, f"{sweep_id}.{number:03d}", _spec(need), holder_grace_s)


def fit_for(home: Home, sweep_id: str, need: ClusterNeed, holder_grace_s: float) -> Cluster:
    """Return the sweep's cluster when it is of the kind that is needed and whole; otherwise a new one.

    Raises:
        InputError, HarnessError: as `infra.local.provision`.
    """
    folders = _folders(home, sweep_id)
    found = _whole(folders[-1], need, holder_grace_s) if folders else None
    return found or provision(home, sweep_id, need, holder_grace_s)


def destroy_all(home: Home, sweep_id: str) -> None:
    """End every cluster of the sweep, living or not; a second time finds nothing to do. Logs are kept until `ackbench clean`."""
    for folder in _folders(home, sweep_id):
        if (folder / HANDLE).is_file():  # killed before it wrote one, it had started nothing
            local.destroy(folder)


def _whole(folder: Path, need: ClusterNeed, holder_grace_s: float) -> Cluster | None:
    """Return the cluster of that folder, held by this process; `None` when it is dead, of another kind, or does not heal."""
    try:
        if read_handle(folder).spec != _spec(need):
            return None
        cluster = local.attach(folder, holder_grace_s)
        cluster.wait_until_whole(WHOLE_TIMEOUT_S)
    except HarnessError:
        return None
    return cluster


def _folders(home: Home, sweep_id: str) -> list[Path]:
    return sorted(home.clusters.glob(f"{sweep_id}.[0-9][0-9][0-9]"))


def _spec(need: ClusterNeed) -> ClusterSpec:
    return ClusterSpec(nodes=need.nodes, kafka_version=need.kafka_version, broker=dict(need.broker), network=need.network, disk=need.disk)
