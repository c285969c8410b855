"""The handle of a cluster: `cluster.json` in its folder, which names the cluster and its processes.

It is on disk so that any process can find the cluster and its processes, whichever of them died.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from infra.errors import SupervisorError
from infra.kafka.spec import ClusterSpec, LaunchSpec, NodeStatus
from infra.machine.files import replace_file
from infra.process.processes import ProcessIdentity

HANDLE_FILE = "cluster.json"


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

    def living_holders(self) -> tuple[LeaseHolder, ...]:
        """Return the holders whose process has not ended."""
        return tuple(holder for holder in self.holders if holder.process.is_alive())

    def processes(self) -> tuple[ProcessIdentity, ...]:
        """Return the supervisor and the nodes as far as they were started, dead or alive."""
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
    launch = fields["launch"]
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
    )
