"""The clusters of a sweep: created, reused and destroyed.

A sweep has one cluster at a time. Its clusters are numbered in the order in which they were
created and are found by their folders, so any process can destroy them, whichever process created
them and whether or not that process is still alive.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.ledger.trial_manifest import ClusterAssignment
from ackbench.experiments.orchestration.external_use import end_noted_use, finish_heals, note_use
from ackbench.experiments.orchestration.permission import require_permission
from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, TrialSpec, external_prefix
from ackbench.experiments.trial.faults.operations.commands import COMMAND, may_not_be_injected
from ackbench.infra.cluster import local
from ackbench.infra.cluster.handle import HANDLE_FILE, read_handle
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError, InputError, WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

if TYPE_CHECKING:
    from ackbench.infra.cluster.external import ExternalClusterInfo
    from ackbench.infra.network.external_relays import ExternalRelays

_LOG: Final = logging.getLogger(__name__)
HEALTHY_TIMEOUT_S: Final = 30.0
"""A cluster that is not healthy within this time after a trial is replaced."""
UNUSED_MARKER: Final = "unused"
"""A file in the folder of a cluster that no trial has run on yet."""
FIRST_CLUSTER: Final = "it is the first cluster since the sweep was begun or resumed"


@dataclass(frozen=True)
class AssignedCluster:
    """The cluster of one trial, and why it was assigned."""

    cluster: Cluster
    assignment: ClusterAssignment


def provision(home: Home, trial: TrialSpec, holder_grace_s: float) -> Cluster:
    """Create a cluster for a trial of the sweep and return it once it is healthy.

    The sweep's earlier clusters are destroyed first.

    Raises:
        ExperimentError: this machine may not run the trial; nothing was started.
        InputError, HarnessError: as `infra.cluster.local.provision`.
    """
    require_permission(home, trial)
    sweep_id, need = trial.sweep_id, trial.cluster
    finish_heals(home, sweep_id)
    _destroy_earlier(home, sweep_id)
    if not need.traits.started_here:
        return _external_cluster(home, sweep_id, need, relayed=False)
    folders = cluster_folders(home, sweep_id)
    number = _number(folders[-1]) + 1 if folders else 1
    cluster = local.provision(
        home.clusters, home.cache, f"{sweep_id}.{number:03d}", need.spec(), holder_grace_s
    )
    (cluster.folder / UNUSED_MARKER).touch()
    return cluster


def assign_cluster(home: Home, trial: TrialSpec, holder_grace_s: float) -> AssignedCluster:
    """Return the cluster for a trial.

    This is the sweep's current cluster if it has the required configuration and is healthy, else a
    new one. A trial whose fault can outlive it gets a cluster that no other trial has used.

    A cluster that several trials share is warmed up before the first of them, which would otherwise
    measure the start of the brokers. Where each trial has its own cluster, all have the same start.

    Raises:
        ExperimentError: this machine may not run the trial; nothing was started.
        InputError, HarnessError: as `infra.cluster.local.provision` and `warm_up_brokers`.
    """
    require_permission(home, trial)
    if access := trial.cluster.external:
        relayed = trial.cluster.has_relays
        commands = [one for one in trial.fault.leaves() if one.kind == COMMAND]
        faults = [str(one.parameters["name"]) for one in commands]
        return AssignedCluster(
            _external_cluster(home, trial.sweep_id, trial.cluster, relayed=relayed, faults=faults),
            ClusterAssignment(
                cluster=access.addresses, made=False, why="it is an external cluster"
            ),
        )
    folders = cluster_folders(home, trial.sweep_id)
    if not folders:
        reusable: Cluster | str = FIRST_CLUSTER
    else:
        reusable = _reusable_cluster(folders[-1], trial, holder_grace_s)
    if isinstance(reusable, str):
        new = provision(home, trial, holder_grace_s)
        return _assign(new, trial, reusable)
    return _assign(reusable, trial)


def destroy_after_use(home: Home, trial: TrialSpec, cluster: Cluster) -> None:
    """Destroy the cluster of a trial whose fault can outlive it, so that no other trial gets it.

    Of an external cluster, the relays of the trial are ended.
    """
    if not trial.cluster.traits.started_here:
        cluster.destroy()
    if trial.needs_own_cluster:
        _destroy_earlier(home, trial.sweep_id)


def destroy_all(home: Home, sweep_id: str) -> HarnessError | None:
    """Destroy every cluster of the sweep, running or not. Idempotent.

    Logs are kept until `ackbench clean`. From an external cluster, the sweep's topics and groups
    are deleted.

    Returns:
        Why something of the sweep may be left in an external cluster; `None`: nothing is.
    """
    left = end_noted_use(home, sweep_id)
    for folder in cluster_folders(home, sweep_id):
        # A process that was killed before it wrote the handle had started no broker.
        if (folder / HANDLE_FILE).is_file():
            local.destroy(folder)
    return left


def _destroy_earlier(home: Home, sweep_id: str) -> None:
    """Destroy the clusters of earlier trials; if anything is left, the step `destroy` fails."""
    if left := destroy_all(home, sweep_id):
        _LOG.warning("%s", left)


def _external_cluster(
    home: Home, sweep_id: str, need: ClusterNeed, *, relayed: bool, faults: Sequence[str] = ()
) -> Cluster:
    """Return the external cluster in its current state, which the sweep uses from now on.

    Args:
        home: where its use is noted.
        sweep_id: the sweep.
        need: the cluster.
        relayed: whether clients connect to relays, which run until the cluster is destroyed.
        faults: the names of the faults by command that are about to be injected.

    Raises:
        InputError: it cannot be reached, is another one, or none may be injected: a broker is down.
    """
    from ackbench.experiments.trial.clients.settings.security import (
        connection_settings,
        register_security,
    )
    from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
    from ackbench.infra.cluster.external import ExternalCluster, probe_cluster

    access = need.external
    if access is None:
        raise AssertionError(need)
    servers = access.addresses
    register_security(servers, access.security)
    connection = confluent_settings(connection_settings(servers))
    reported = probe_cluster(connection)
    if access.cluster_id not in {None, reported.cluster_id}:
        raise InputError(
            f"{servers} answers as cluster {reported.cluster_id}, but the sweep was planned for "
            f"{access.cluster_id}"
        )
    if faults:
        _require_complete(connection, faults)
    note_use(home, sweep_id, access)
    return ExternalCluster(
        home.external / sweep_id,
        need.spec(),
        connection,
        reported,
        external_prefix(sweep_id),
        _start_relays(access, connection, reported) if relayed else None,
    )


def _require_complete(connection: Mapping[str, Any], faults: Sequence[str]) -> None:
    """Wait until no broker is down: one that the trial before has stopped may still be starting.

    Raises:
        InputError: one is. What the cluster does then is not what the fault alone would cause.
    """
    from ackbench.infra.cluster.external import unavailable_parts

    down: list[str] = []

    def complete() -> bool:
        down[:] = unavailable_parts(connection)
        return not down

    try:
        wait_until(complete, awaiting="all brokers", timeout_s=HEALTHY_TIMEOUT_S, every_s=0.5)
    except WaitTimeout as error:
        raise InputError(may_not_be_injected(faults, down[0])) from error


def _start_relays(
    access: ExternalAccess, connection: Mapping[str, Any], reported: ExternalClusterInfo
) -> ExternalRelays:
    """Start relays in front of the brokers, for clients that use the addresses of the relays.

    Raises:
        InputError: a file of the security properties cannot be used.
    """
    from ackbench.experiments.trial.clients.settings.security import (
        register_security,
        security_behind_relay,
    )
    from ackbench.infra.network.external_relays import ExternalRelays
    from ackbench.infra.network.tls import tls_context

    try:
        relays = ExternalRelays(reported.addresses, tls_context(connection))
    except OSError as error:
        raise InputError(f"cannot start relays in front of {access.addresses}: {error}") from error
    register_security(relays.bootstrap_servers, security_behind_relay(access.security))
    return relays


def _assign(cluster: Cluster, trial: TrialSpec, why_new: str = "") -> AssignedCluster:
    """Mark the cluster as used, and warm it up if other trials follow on it."""
    from ackbench.experiments.trial.clients.librdkafka import warm_up

    unused = (cluster.folder / UNUSED_MARKER).is_file()
    if unused and not trial.needs_own_cluster:
        try:
            warm_up.warm_up_brokers(cluster)
        except HarnessError:
            local.destroy(cluster.folder)  # else the next trial finds the topic of the warm-up
            raise
    (cluster.folder / UNUSED_MARKER).unlink(missing_ok=True)
    if why_new:
        why = why_new
    elif unused:
        why = FIRST_CLUSTER
    else:
        why = "it was healthy after the previous trial, and no fault on it can outlive its trial"
    return AssignedCluster(
        cluster, ClusterAssignment(cluster=cluster.folder.name, made=unused, why=why)
    )


def _reusable_cluster(folder: Path, trial: TrialSpec, holder_grace_s: float) -> Cluster | str:
    """Return the cluster of that folder, leased by this process; or, as a clause, why not."""
    try:
        handle = read_handle(folder)
        if handle.spec != trial.cluster.spec():
            return "the previous cluster has another configuration"
        if trial.needs_own_cluster and not (folder / UNUSED_MARKER).is_file():
            return "its fault can outlive the trial"
        if handle.supervisor is None:
            return "the previous cluster was destroyed after its trial"
        cluster = local.attach(folder, holder_grace_s)
        cluster.wait_until_healthy(HEALTHY_TIMEOUT_S)
    except HarnessError as error:
        return f"the previous cluster did not become healthy: {error}"
    return cluster


def cluster_folders(home: Home, sweep_id: str) -> list[Path]:
    """Return the folders of the sweep's clusters in the order of their numbers."""
    folders = [path for path in home.clusters.glob("*") if path.stem == sweep_id]
    return sorted((path for path in folders if path.suffix[1:].isdecimal()), key=_number)


def _number(folder: Path) -> int:
    """Return the number of a cluster, which has three digits or more."""
    return int(folder.suffix[1:])
