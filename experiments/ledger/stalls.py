"""Stalls: times in which the harness or its machine kept a process of the trial from running.

They are no evidence about Kafka. A trial notes them as events while it runs; the measures take them
off what they would otherwise count as Kafka's, and the results name them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen

STALLED: Final = "stalled"
"""Kind of the event of one stall, when it ended; its detail is a `Stall`."""
STALLS_SAMPLED: Final = "stalls_sampled"
"""Kind of the event that a trial looked for stalls until then; its detail is a `StallSampling`."""
MACHINE: Final = "machine"
"""The process of a stall of the entire machine."""
HARNESS: Final = "trial"
"""The process that runs the trial: its stalls delay what it observes, and none of its clients."""
RELAY: Final = "relay"
"""The process of the relays, through which all that clients send and receive passes."""
OF_EACH_CLIENT: Final = frozenset({MACHINE, RELAY})
"""A stall of one of these is one of each client."""
CONSUMER: Final = "consumer 0"
"""The concurrent consumer."""
_NODE: Final = "node"


def producer_name(producer: int) -> str:
    """Return the name of a producer's process."""
    return f"producer {producer}"


def node_name(node: int) -> str:
    """Return the name of a node's process."""
    return f"{_NODE} {node}"


def is_node(process: str) -> bool:
    """Return whether the name of a process is that of a node."""
    return process.partition(" ")[0] == _NODE


class StallCause(StrEnum):
    """Why a process did not run."""

    STOPPED = "stopped"
    """By a signal (SIGSTOP) or a debugger, and not by the trial's fault."""
    WAITED_FOR_CPU = "waited-for-cpu"
    """It was ready to run, and the machine's processors were busy with others."""
    MAJOR_FAULTS = "major-faults"
    """It waited for its own memory, which was not in RAM; `Stall.amount` has how many times."""
    STEAL = "steal"
    """The hypervisor gave the machine's processors to others."""
    SWAP = "swap"
    """The machine read back memory that it had swapped out; `Stall.amount` has the pages."""
    FROZEN = "frozen"
    """Neither the sampler nor any client ran: the machine was paused, or its container frozen."""
    LATE = "late"
    """The sampler did not run, while the clients did."""


class Stall(Frozen):
    """One stall."""

    process: str
    """`producer 0`, `consumer 0`, `member 1`, `node 2`, `RELAY`, `MACHINE` or `HARNESS`."""
    cause: StallCause
    began_ns: int
    ended_ns: int
    amount: int | None = None
    """Of what the cause counts; `None`: it counts nothing."""


class StallSampling(Frozen):
    """The extent of a trial's search for stalls."""

    samples: int
    unknown: tuple[str, ...] = ()
    """The figures that this machine does not have, and of which process: they show no stall."""
    cpu_s: float
    """The CPU time that the sampling took."""
    cpu_ns: dict[str, int] = Field(default_factory=dict)
    """The CPU time that each process took meanwhile, by its name; empty: an older ledger."""
