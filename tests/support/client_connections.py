"""Counts the TCP connections of a trial's client processes while the trial runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ackbench.infra.network.tcp_connections import tcp_connections

_EVERY_S = 0.02


@dataclass
class ClientConnections:
    """The connections of client processes to brokers, and to anything else."""

    direct: set[tuple[int, int]] = field(default_factory=set)
    """To a listener of a broker: its port, and that of the client."""
    others: set[tuple[int, int]] = field(default_factory=set)
    """To another port, such as a relay's."""


@contextmanager
def counted_connections(
    ports: Collection[int], others: Collection[int]
) -> Iterator[ClientConnections]:
    """Count the connections of all processes that this one has started.

    Args:
        ports: of the brokers' listeners.
        others: processes that are no clients: the brokers.
    """
    counted, stop = ClientConnections(), threading.Event()

    def count() -> None:
        while not stop.wait(_EVERY_S):
            for process in psutil.Process().children(recursive=True):
                if process.pid not in others:
                    _count(Path("/proc", str(process.pid)), ports, counted)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield counted
    finally:
        stop.set()
        thread.join()


def _count(process: Path, ports: Collection[int], counted: ClientConnections) -> None:
    sockets = set()
    with suppress(OSError):  # it has ended
        for link in (process / "fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                if found := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())):
                    sockets.add(int(found[1]))
    for connection in tcp_connections() if sockets else ():
        if connection.inode in sockets and connection.remote[1]:
            pair = (connection.remote[1], connection.local[1])
            (counted.direct if connection.remote[1] in ports else counted.others).add(pair)
