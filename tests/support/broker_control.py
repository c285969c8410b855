"""Ask the keeper of an external broker to kill, pause, resume or start it; uses Python alone.

A command for faults by command: `python broker_control.py <name of the keeper> <action>`.
"""

from __future__ import annotations

import socket
import sys

_TIMEOUT_S = 60


def ask(keeper: str, action: str) -> str:
    """Return the keeper's answer: what it did."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        connection.connect(f"\0{keeper}")
        connection.sendall(action.encode())
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile().read()


if __name__ == "__main__":
    answer = ask(*sys.argv[1:])
    print(answer)  # noqa: T201 - the output of the command
    sys.exit(0 if answer else 1)
