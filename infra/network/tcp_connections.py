"""The TCP connections of this network namespace, as the kernel lists them (proc_pid_net(5))."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TABLES: Final = ("tcp", "tcp6")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
_WORD_BYTES: Final = 4


@dataclass(frozen=True)
class TcpConnection:
    """One end of a connection, or a socket that listens."""

    local: tuple[str, int]
    """Host and port."""
    remote: tuple[str, int]
    uid: int
    """Of the user whose process has this end."""
    inode: int
    """Of its socket; 0 when no process has it any more."""


def tcp_connections(process: Path = Path("/proc/self")) -> Iterator[TcpConnection]:
    """Yield the connections of the network namespace of a process.

    Args:
        process: the folder of the process in /proc.
    """
    for table in _TABLES:
        file = process / "net" / table
        for line in file.read_text().splitlines()[1:] if file.is_file() else ():
            fields = line.split()
            yield TcpConnection(
                _address(fields[_LOCAL]),
                _address(fields[_REMOTE]),
                int(fields[_UID]),
                int(fields[_INODE]),
            )


def is_of_this_user(peer: tuple[str, int]) -> bool:
    """Return whether the other end of a connection on loopback is a process of this user.

    Args:
        peer: the other end's host and port.
    """
    return any(
        connection.local == peer and connection.uid == os.geteuid()
        for connection in tcp_connections()
    )


def _address(encoded: str) -> tuple[str, int]:
    """Return host and port of `0100007F:1F90`: words in the byte order of the machine."""
    host, port = encoded.split(":")
    raw = bytes.fromhex(host)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + _WORD_BYTES][::-1] for at in range(0, len(raw), _WORD_BYTES))
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(port, 16)
