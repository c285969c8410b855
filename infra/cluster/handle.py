"""The handle of a cluster: `cluster.json` in its folder, which names the cluster and its processes.

It is on disk so that any process can find the cluster and its processes, whichever of them died.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.spec import ClusterSpec, LaunchSpec, NodeStatus
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity

HANDLE_FILE = "cluster.json"
LOCK_FILE: Final = "supervisor.lock"
"""Locked in the cluster's folder while the cluster is provisioned, and while its supervisor runs.

It shows across containers, whose processes do not see each other, that the cluster is in use.
"""


@dataclass(frozen=True)
class LeaseHolder:
    """A process that keeps the cluster alive."""

    process: ProcessIdentity
    grace_s: float
    """How long the cluster outlives this process."""


@dataclass(frozen=True)
class ClusterHandle:
    """What another process needs to use the cluster, or to remove what is left of it."""

    name: str
    cluster_id: str
    spec: ClusterSpec
    launch: LaunchSpec
    shared_settings: Mapping[str, str]
    """The effective broker settings that all nodes share."""
    holders: tuple[LeaseHolder, ...]
    supervisor: ProcessIdentity | None = None
    """`None`: not started yet, or shut down cleanly."""
    nodes: tuple[NodeStatus, ...] = ()
    machine: MachineIdentity = field(default_factory=MachineIdentity.own)
    """Where its processes run."""
    lease_ends_s: float = 0.0
    """When the last grace of the holders that have ended is over, seconds of CLOCK_MONOTONIC."""

    def is_in_use(self) -> bool:
        """Return whether a process of this machine holds the cluster, or may soon hold it.

        A cluster without a holder is in use while the grace of its last holder lasts: the next task
        of a scheduler takes it.
        """
        if self.supervisor is None and self.nodes:
            return False  # shut down
        if self.living_holders():
            return True
        # A holder that the supervisor has not removed yet has just ended.
        has_grace = self.lease_ends_s > time.monotonic() or any(
            holder.grace_s > 0 for holder in self.holders
        )
        supervised = self.supervisor is not None and self.supervisor.is_alive()
        return self.machine.is_own and supervised and has_grace

    def living_holders(self) -> tuple[LeaseHolder, ...]:
        """Return the holders on this machine whose process has not ended."""
        if not self.machine.is_own:
            return ()
        return tuple(holder for holder in self.holders if holder.process.is_alive())

    def processes(self) -> tuple[ProcessIdentity, ...]:
        """Return the supervisor and the nodes as far as they were started, dead or alive.

        There are none on another machine: their pids would be those of other processes here.
        """
        if not self.machine.is_own:
            return ()
        nodes = (
            ProcessIdentity(node.pid, node.start_ticks)
            for node in self.nodes
            if node.pid is not None and node.start_ticks is not None
        )
        return (*((self.supervisor,) if self.supervisor else ()), *nodes)

    def write(self, folder: Path) -> None:
        """Write the handle to the cluster's folder, atomically."""
        content = json.dumps(asdict(self), indent=1)
        replace_file(folder / HANDLE_FILE, content, durable=False)


def read_handle(folder: Path) -> ClusterHandle:
    """Return the handle in a cluster's folder.

    Raises:
        SupervisorError: the folder has no handle, or its file is invalid.
    """
    try:
        return _decode(json.loads((folder / HANDLE_FILE).read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SupervisorError(
            f"no cluster at {folder}: cannot read {HANDLE_FILE} ({error})"
        ) from error


def _decode(fields: dict[str, Any]) -> ClusterHandle:
    launch, machine = fields["launch"], fields.get("machine")
    return replace(
        ClusterHandle(**fields),
        spec=ClusterSpec(**fields["spec"]),
        launch=LaunchSpec(
            command=tuple(launch["command"]),
            formatted=launch["formatted"],
            zookeeper=tuple(launch["zookeeper"]),
        ),
        holders=tuple(
            LeaseHolder(ProcessIdentity(**holder["process"]), holder["grace_s"])
            for holder in fields["holders"]
        ),
        supervisor=ProcessIdentity(**fields["supervisor"]) if fields["supervisor"] else None,
        nodes=tuple(NodeStatus(**node) for node in fields["nodes"]),
        machine=MachineIdentity(**machine) if machine else MachineIdentity.own(),
    )
