"""`cluster.json`: what a cluster is and which processes belong to it, on disk, so that it is found again whoever died."""

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
    """A process that keeps the cluster alive, and for how long its end may go unanswered."""

    process: ProcessIdentity
    grace_s: float


@dataclass(frozen=True)
class ClusterHandle:
    """All that another process needs to use the cluster, or to remove what is left of it."""

    name: str
    cluster_id: str
    spec: ClusterSpec
    launch: LaunchSpec
    shared_settings: Mapping[str, str]
    """Effective broker settings that all nodes share."""
    holders: tuple[LeaseHolder, ...]
    supervisor: ProcessIdentity | None = None
    """`None`: not started yet, or ended in good order."""
    nodes: tuple[NodeStatus, ...] = ()

    def living_holders(self) -> tuple[LeaseHolder, ...]:
        """Those whose process has not ended."""
        return tuple(holder for holder in self.holders if holder.process.is_alive())

    def processes(self) -> tuple[ProcessIdentity, ...]:
        """The supervisor and the nodes, where they were started; they need not live any more."""
        nodes = (
            ProcessIdentity(n.pid, n.start_ticks)
            for n in self.nodes
            if n.pid is not None and n.start_ticks is not None
        )
        return (*((self.supervisor,) if self.supervisor else ()), *nodes)

    def write(self, folder: Path) -> None:
        """Replace the cluster's file, so that a reader sees the old one or the new one."""
        replace_file(folder / HANDLE_FILE, json.dumps(asdict(self), indent=1))


def read_handle(folder: Path) -> ClusterHandle:
    """Read the cluster's file.

    Raises:
        SupervisorError: there is none, or it is no handle.
    """
    try:
        return _parsed(json.loads((folder / HANDLE_FILE).read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SupervisorError(
            f"no cluster at {folder}: {HANDLE_FILE} cannot be read ({error})"
        ) from error


def _parsed(raw: dict[str, Any]) -> ClusterHandle:
    handle = ClusterHandle(**raw)
    return replace(
        handle,
        spec=ClusterSpec(**raw["spec"]),
        launch=LaunchSpec(
            tuple(raw["launch"]["command"]),
            raw["launch"]["formatted"],
            tuple(raw["launch"]["zookeeper"]),
        ),
        holders=tuple(
            LeaseHolder(ProcessIdentity(**holder["process"]), holder["grace_s"])
            for holder in raw["holders"]
        ),
        supervisor=ProcessIdentity(**raw["supervisor"]) if raw["supervisor"] else None,
        nodes=tuple(NodeStatus(**node) for node in raw["nodes"]),
    )
