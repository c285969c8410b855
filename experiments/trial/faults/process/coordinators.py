"""The coordinators of a group and of a transactional id.

Each is the broker that leads one partition of an internal topic: the one that the id maps to
(https://kafka.apache.org/documentation/#design_offsettracking, KIP-98).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackbench.experiments.trial.faults.core import FaultContext
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.spec import PartitionState

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.interface import ClientProcesses

_SIGN_BIT: Final = 1 << 31


@dataclass(frozen=True)
class Coordinator:
    """The way to a coordinator of the clients of a trial."""

    topic: str
    """The internal topic."""
    id_of: Callable[[ClientProcesses], str | None]
    """Returns the id that it coordinates; `None`: the clients have none."""

    def leader(self, context: FaultContext) -> int | None:
        """Return the coordinator's node; `None`: there is none now, or no broker answers."""
        partition = self.partition(context)
        return partition.leader if partition else None

    def change(self, context: FaultContext, node: int) -> str | None:
        """Return when the coordinator was another node, or none; `None`: it is still this one."""
        partition = self.partition(context)
        if partition is None or partition.leader == node:
            return None
        now = "had no leader" if partition.leader is None else f"was led by node {partition.leader}"
        return (
            f"{self.topic}-{partition.partition}, which node {node} led as the coordinator of "
            f"{self.coordinated(context)}, {now} {context.elapsed_s():.2f} s after the fault began"
        )

    def partition(self, context: FaultContext) -> PartitionState | None:
        """Return the partition that the id maps to; `None`: no id, or no broker answers."""
        coordinated = self.coordinated(context)
        if coordinated is None:
            return None
        try:
            partitions = context.cluster.describe([self.topic]).of(self.topic)
        except WaitTimeout:
            return None
        return (
            partitions[coordinating_partition(coordinated, len(partitions))] if partitions else None
        )

    def coordinated(self, context: FaultContext) -> str | None:
        """Return the id that it coordinates; `None`: the clients have none."""
        return self.id_of(context.clients) if context.clients else None


def coordinating_partition(coordinated: str, partitions: int) -> int:
    """Return which partition of the internal topic an id maps to.

    It is the absolute value of Java's `String.hashCode`, 0 for the smallest integer, modulo the
    number of partitions (`Utils.abs` in TransactionStateManager.partitionFor and
    GroupCoordinatorService.partitionFor).
    """
    code = 0
    for unit in memoryview(coordinated.encode("utf-16-le")).cast("H"):
        code = (code * 31 + unit) & 0xFFFF_FFFF
    if code & _SIGN_BIT:
        code = (2 * _SIGN_BIT - code) % _SIGN_BIT
    return code % partitions


TRANSACTION: Final = Coordinator(
    "__transaction_state", lambda clients: next(iter(clients.transactional_ids), None)
)
"""That of producer 0."""
GROUP: Final = Coordinator("__consumer_offsets", lambda clients: clients.groups.first_id())
"""That of the first group."""
