"""Exits of processes: when, how, and whether a signal of the supervisor explains them.

The kernel reports how a process ended (wait(2)): by which signal, or with which status. It does not
report who sent the signal. So an exit counts as requested only if the signals that were sent to the
process before it had ended explain it.
"""

from __future__ import annotations

import signal
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

_SIGNAL_BASE: Final = 128
"""A JVM that a signal ends exits with this plus the signal's number, as shells report it."""


@dataclass(frozen=True)
class ProcessExit:
    """One exit of a process."""

    process: str
    """Which process, in messages: `node 3`."""
    number: int
    """Counts the exits of this process, which may be started again, from 1 on."""
    at_s: float
    """When the exit was noted, at once: seconds of CLOCK_MONOTONIC."""
    how: str
    """`exited by SIGKILL`: see `describe_exit`."""
    requested: bool = False
    """Whether a request explains it."""
    node_id: int | None = None
    """The node, if it is one."""
    status: int | None = None
    """As in `subprocess`: a negative one is the number of a signal. `None`: unknown."""

    def __str__(self) -> str:
        """Return a clause: `node 3 exited by SIGKILL`."""
        return f"{self.process} {self.how}"


def describe_exit(status: int | None) -> str:
    """Return how a process ended: `exited by SIGKILL`, `exited with status 1`.

    Args:
        status: as of `ProcessExit`.
    """
    if status is None:
        return "exited, with an unknown status"
    if status < 0:
        return f"exited by {_signal_name(-status) or f'signal {-status}'}"
    name = _signal_name(status - _SIGNAL_BASE)
    return f"exited with status {status}{f' ({_SIGNAL_BASE} + {name})' if name else ''}"


def is_explained(status: int, sent: Container[int]) -> bool:
    """Return whether signals explain an exit.

    A process that was killed by a signal was sent that one. One that exited itself was asked to
    (SIGTERM): what it returns then is its own choice, and SIGKILL leaves it none.

    Args:
        status: as in `describe_exit`.
        sent: the signals that were sent before the process had ended.
    """
    return -status in sent if status < 0 else signal.SIGTERM in sent


def is_kill(status: int) -> bool:
    """Return whether another program must have ended the process: by SIGKILL or SIGTERM.

    The kernel ends a process by SIGKILL when memory is short.
    """
    return status in {-signal.SIGKILL, -signal.SIGTERM, _SIGNAL_BASE + signal.SIGTERM}


def _signal_name(number: int) -> str:
    """Return `SIGKILL`; empty: no signal of a name has this number."""
    return signal.Signals(number).name if number in set(signal.Signals) else ""
