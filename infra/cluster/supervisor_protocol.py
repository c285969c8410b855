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
from typing import Any, Final, Literal

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
_REPLY_MARGIN_S: Final = 10.0
"""How long a reply may take beyond the time that the request allows the supervisor."""

NodeAction = Literal["kill", "pause", "resume", "stop", "start"]
NetworkAction = Literal["impair", "impairment_counts", "heal"]
DiskAction = Literal["lose_power", "shut_down", "bring_back", "limit", "replace"]
"""See `infra.cluster.disks`."""
SupervisorAction = NodeAction | NetworkAction | Literal["status", "lease", "disk", "destroy"]


@dataclass(frozen=True)
class SupervisorRequest:
    """One action of the supervisor, with the parameters that this action needs."""

    action: SupervisorAction
    node_id: int | None = None
    """The target of a node action."""
    timeout_s: float = 30.0
    """How long the supervisor may take."""
    pid: int | None = None
    """`lease`: the new holder, together with its start time and its grace."""
    start_ticks: int | None = None
    grace_s: float = 0.0
    disk_action: DiskAction | None = None
    node_ids: tuple[int, ...] = ()
    """`disk`: the nodes whose disks are the target."""
    write_bytes_per_s: int | None = None
    """Disk action `limit`: the highest write rate; `None` removes the limit."""
    name: str | None = None
    """The name of the impairments of a network action."""
    impairments: tuple[Impairment, ...] = ()


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
    """Network actions: the traffic that the named impairments have affected."""
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
        fields["impairments"] = tuple(map(decode_impairment, fields.get("impairments", ())))
        fields["node_ids"] = tuple(fields.get("node_ids", ()))
        return SupervisorRequest(**fields)
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
        line = _exchange(folder, encode(request), timeout_s=request.timeout_s + _REPLY_MARGIN_S)
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
