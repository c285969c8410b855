"""What is said to a cluster's supervisor and what it answers: one JSON line each way, one request a connection, over a Unix socket."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from infra.errors import Busy, HarnessError, NodeFailed, SupervisorError, WaitTimeout
from infra.kafka.spec import NodeStatus
from infra.network.impairment import Impairment, ImpairmentCounts, decode_impairment

SOCKET: Final = "supervisor.sock"
_ERRORS: Final[dict[str, type[HarnessError]]] = {
    error.__name__: error
    for error in (Busy, HarnessError, NodeFailed, SupervisorError, WaitTimeout)
}

NodeAction = Literal[
    "status",
    "kill",
    "pause",
    "resume",
    "stop",
    "start",
    "lease",
    "impair",
    "impairment_counts",
    "heal",
    "disk",
    "destroy",
]
SupervisorAction = Literal["lose_power", "take_away", "bring_back", "limit", "replace"]
"""What can be done to disks; see `infra.cluster.disks`."""


@dataclass(frozen=True)
class SupervisorRequest:
    """One thing to do."""

    verb: NodeAction
    node_id: int | None = None
    timeout_s: float = 30.0
    """How long the supervisor may take over it."""
    pid: int | None = None
    start_ticks: int | None = None
    grace_s: float = 0.0
    deed: SupervisorAction | None = None
    node_ids: tuple[int, ...] = ()
    """Whose disks."""
    write_bytes_per_s: int | None = None
    name: str | None = None
    """Of what is done to the network."""
    impairments: tuple[Impairment, ...] = ()


@dataclass(frozen=True)
class NodeReport:
    """A node as its parent sees it."""

    status: NodeStatus
    quiet_s: float
    """Seconds since it was last started, stopped, paused or resumed."""
    died_unasked: bool = False
    exit_status: int | None = None
    """As `subprocess` has it: negative is the number of a signal."""


@dataclass(frozen=True)
class SupervisorReply:
    """The state of all nodes after the request, or what went wrong with it."""

    nodes: tuple[NodeReport, ...] = ()
    node: NodeStatus | None = None
    """What the node was (kill) or is (start)."""
    error: str | None = None
    kind: str | None = None
    impairment_counts: tuple[ImpairmentCounts, ...] = ()
    """What the impairments of a name met with."""
    active_impairments: tuple[str, ...] = ()
    """The names of what is done to the network now; told with the status."""


def encode(message: SupervisorRequest | SupervisorReply) -> bytes:
    """Return the message as a line."""
    return json.dumps(asdict(message)).encode() + b"\n"


def decode_request(line: bytes) -> SupervisorRequest:
    """Return the request of a line.

    Raises:
        SupervisorError: it is none.
    """
    try:
        raw = json.loads(line)
        impairments, node_ids = (
            tuple(map(decode_impairment, raw.get("impairments", ()))),
            tuple(raw.get("node_ids", ())),
        )
        return SupervisorRequest(**(raw | {"impairments": impairments, "node_ids": node_ids}))
    except (ValueError, TypeError, KeyError) as error:
        raise SupervisorError(f"not a request: {error}") from error


def decode_reply(line: bytes) -> SupervisorReply:
    """Return the reply of a line.

    Raises:
        SupervisorError: it is none, as when the supervisor ended over it.
    """
    try:
        raw = json.loads(line)
        nodes = tuple(
            NodeReport(**(report | {"status": NodeStatus(**report["status"])}))
            for report in raw["nodes"]
        )
        node, caught = (
            NodeStatus(**raw["node"]) if raw["node"] else None,
            tuple(ImpairmentCounts(**one) for one in raw["impairment_counts"]),
        )
        return SupervisorReply(
            nodes, node, raw["error"], raw["kind"], caught, tuple(raw["active_impairments"])
        )
    except (ValueError, TypeError, KeyError) as error:
        raise SupervisorError(f"the supervisor did not answer, it said {line!r}") from error


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """Give an address of the folder's socket that fits the 108 bytes of unix(7), however long the folder's path is."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder_fd}/{SOCKET}"
    finally:
        os.close(folder_fd)


def send_request(folder: Path, request: SupervisorRequest) -> SupervisorReply:
    """Have the cluster's supervisor do something.

    Raises:
        SupervisorError: it cannot be reached, or refused.
        NodeFailed, WaitTimeout: as the supervisor raised them.
    """
    try:
        line = _exchange(folder, encode(request), timeout_s=request.timeout_s + 10)
    except OSError as error:
        raise SupervisorError(
            f"the supervisor of {folder.name} cannot be reached: {error}"
        ) from error
    reply = decode_reply(line)
    if reply.error is not None:
        raise _ERRORS.get(reply.kind or "", SupervisorError)(reply.error)
    return reply


def _exchange(folder: Path, line: bytes, timeout_s: float) -> bytes:
    with socket_address(folder) as address, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(address)
        connection.sendall(line)
        with connection.makefile("rb") as answers:
            return answers.readline()
