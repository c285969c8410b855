"""The protocol between the supervisor of a cluster and the processes that use the cluster.

Each connection to the supervisor's Unix socket carries one request and one reply, one JSON line
each.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ackbench.infra.errors import (
    HarnessError,
    ImpairmentConflict,
    NodeFailed,
    SupervisorError,
    WaitTimeout,
)
from ackbench.infra.kafka.spec import NodeStatus
from ackbench.infra.network.impairment import Impairment, ImpairmentCounts, decode_impairment
from ackbench.infra.process.exits import ProcessExit

SOCKET: Final = "supervisor.sock"
_ERRORS: Final[dict[str, type[HarnessError]]] = {
    error.__name__: error
    for error in (HarnessError, ImpairmentConflict, NodeFailed, SupervisorError, WaitTimeout)
}
"""The errors that a reply can name; the client raises them again."""
_TIMEOUT_S: Final = 30.0
"""For the supervisor, unless a request says otherwise."""
_REPLY_MARGIN_S: Final = 10.0
"""For the reply, in addition."""

NodeAction = Literal["kill", "pause", "resume", "stop", "start"]
DiskAction = Literal["lose_power", "shut_down", "bring_back", "limit", "replace"]
"""See `infra.cluster.disks`."""


@dataclass(frozen=True)
class ReportRequest:
    """Report the nodes; nothing is done."""

    kind: Literal["report"] = "report"


@dataclass(frozen=True)
class NodeRequest:
    """Do something to the process of a node."""

    action: NodeAction
    node_id: int
    timeout_s: float = _TIMEOUT_S
    """For a shutdown."""
    kind: Literal["node"] = "node"


@dataclass(frozen=True)
class ImpairRequest:
    """Start impairments of the nodes' traffic under a name."""

    name: str
    impairments: tuple[Impairment, ...]
    kind: Literal["impair"] = "impair"


@dataclass(frozen=True)
class CountsRequest:
    """Report what the impairments of a name have affected so far."""

    name: str
    kind: Literal["counts"] = "counts"


@dataclass(frozen=True)
class HealRequest:
    """End the impairments of a name."""

    name: str
    kind: Literal["heal"] = "heal"


@dataclass(frozen=True)
class DiskRequest:
    """Do something to the disks of nodes."""

    action: DiskAction
    node_ids: tuple[int, ...]
    write_bytes_per_s: int | None = None
    """Of `limit`: the highest write rate; `None` removes the limit."""
    kind: Literal["disk"] = "disk"


@dataclass(frozen=True)
class LeaseRequest:
    """Take over the lease of the cluster."""

    pid: int
    """The new holder, which its start time identifies too."""
    start_ticks: int
    grace_s: float
    kind: Literal["lease"] = "lease"


@dataclass(frozen=True)
class DestroyRequest:
    """End all nodes, and then the supervisor."""

    kind: Literal["destroy"] = "destroy"


SupervisorRequest = (
    ReportRequest
    | NodeRequest
    | ImpairRequest
    | CountsRequest
    | HealRequest
    | DiskRequest
    | LeaseRequest
    | DestroyRequest
)
_REQUESTS: Final[dict[str, type[SupervisorRequest]]] = {
    request.kind: request for request in get_args(SupervisorRequest)
}


@dataclass(frozen=True)
class NodeReport:
    """The state of a node as its parent process, the supervisor, knows it."""

    status: NodeStatus
    unchanged_s: float
    """Seconds since the node was last started, stopped, paused or resumed."""
    exited_unexpectedly: bool = False
    """Whether the process ended although no request had asked for it."""
    exit_status: int | None = None
    """As in `subprocess`: a negative value is the number of a signal."""
    unexpected_exits: tuple[ProcessExit, ...] = ()
    """Every exit of its process that no request had asked for, since the cluster was made."""


@dataclass(frozen=True)
class SupervisorReply:
    """The state of all nodes after the request, or the error that it caused."""

    nodes: tuple[NodeReport, ...] = ()
    node: NodeStatus | None = None
    """A node action's target: before the action (`kill`, `stop`), or after it (all others)."""
    error: str | None = None
    error_type: str | None = None
    """The class name of the error, one of `infra.errors`."""
    impairment_counts: tuple[ImpairmentCounts, ...] = ()
    """The traffic that the named impairments have affected."""
    active_impairments: tuple[str, ...] = ()
    """`status`: the names of the active impairments."""
    failures: tuple[ProcessExit, ...] = ()
    """`status`: what failed in the supervisor itself, such as a connection of a relay."""


def encode(message: SupervisorRequest | SupervisorReply) -> bytes:
    """Return the message as one JSON line."""
    return json.dumps(asdict(message)).encode() + b"\n"


def decode_request(line: bytes) -> SupervisorRequest:
    """Return the request in a line.

    Raises:
        SupervisorError: the line is no request.
    """
    try:
        fields = json.loads(line)
        if "impairments" in fields:
            fields["impairments"] = tuple(map(decode_impairment, fields["impairments"]))
        if "node_ids" in fields:
            fields["node_ids"] = tuple(fields["node_ids"])
        return _REQUESTS[fields["kind"]](**fields)
    except (ValueError, TypeError, KeyError) as error:
        raise SupervisorError(f"not a request: {error}") from error


def decode_reply(line: bytes) -> SupervisorReply:
    """Return the reply in a line.

    Raises:
        SupervisorError: the line is no reply, for example because the supervisor ended meanwhile.
    """
    try:
        fields = json.loads(line)
        return SupervisorReply(
            nodes=tuple(map(_decode_report, fields["nodes"])),
            node=NodeStatus(**fields["node"]) if fields["node"] else None,
            error=fields["error"],
            error_type=fields["error_type"],
            impairment_counts=tuple(
                map(ImpairmentCounts.from_mapping, fields["impairment_counts"])
            ),
            active_impairments=tuple(fields["active_impairments"]),
            failures=tuple(ProcessExit(**one) for one in fields["failures"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise SupervisorError(f"the supervisor did not answer: received {line!r}") from error


def _decode_report(fields: dict[str, Any]) -> NodeReport:
    exits = tuple(ProcessExit(**one) for one in fields["unexpected_exits"])
    return NodeReport(
        **(fields | {"status": NodeStatus(**fields["status"]), "unexpected_exits": exits})
    )


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """Yield an address of the folder's socket that fits into the 108 bytes of unix(7).

    The folder's own path may be longer; its path below /proc/self/fd never is.
    """
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder_fd}/{SOCKET}"
    finally:
        os.close(folder_fd)


def send_request(folder: Path, request: SupervisorRequest) -> SupervisorReply:
    """Send a request to the supervisor of a cluster and return its reply.

    Args:
        folder: the cluster's.
        request: the action.

    Raises:
        SupervisorError: the supervisor cannot be reached, or refused.
        HarnessError: the error of `infra.errors` that the action caused in the supervisor.
    """
    try:
        timeout_s = request.timeout_s if isinstance(request, NodeRequest) else _TIMEOUT_S
        line = _exchange(folder, encode(request), timeout_s=timeout_s + _REPLY_MARGIN_S)
    except OSError as error:
        raise SupervisorError(f"cannot reach the supervisor of {folder.name}: {error}") from error
    reply = decode_reply(line)
    if reply.error is not None:
        raise _ERRORS.get(reply.error_type or "", SupervisorError)(reply.error)
    return reply


def _exchange(folder: Path, line: bytes, timeout_s: float) -> bytes:
    with socket_address(folder) as address, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(address)
        connection.sendall(line)
        with connection.makefile("rb") as replies:
            return replies.readline()
