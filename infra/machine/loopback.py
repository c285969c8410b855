"""What all servers on loopback share: their address, the host names they answer to, free ports."""

from __future__ import annotations

import socket
from typing import Final

from ackbench.infra.errors import MachineError

LOOPBACK: Final = "127.0.0.1"
SERVED_HOSTS: Final = (LOOPBACK, "localhost")
"""The names of this machine in the Host header of the requests that are answered.

A foreign page could otherwise reach a server under a name of its own (DNS rebinding).
"""


def require_free_port(name: str, port: int) -> None:
    """Check that no process listens on a port of this machine.

    Args:
        name: what is to listen there; the option `--<name>-port` names another port.
        port: the port.

    Raises:
        MachineError: the port is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise MachineError(
                f"port {port} of {LOOPBACK} is not available for {name} ({error.strerror}): "
                f"name another with --{name.lower()}-port"
            ) from error
