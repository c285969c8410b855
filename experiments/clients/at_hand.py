"""The trial's own clients, as a fault reaches them: processes of ours that can be killed, stopped and started again."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.clients.group import ConsumerGroup
from experiments.clients.groups import ConsumerGroups
from experiments.clients.member import MemberProcess
from experiments.clients.producer import ProducerProcess


@dataclass(frozen=True)
class ClientsAtHand:
    """A view for faults; the trial starts and ends them."""

    producers: tuple[ProducerProcess, ...]
    """Those whose ledger outlives them."""
    groups: ConsumerGroups

    def first_producer(self) -> ProducerProcess | None:
        """Return producer 0; `None`: it is none that can be started again."""
        return next((producer for producer in self.producers if producer.job.producer == 0), None)

    def holder_of(self, partition: int) -> MemberProcess | None:
        """Return the member of the first group that reads a partition; `None`: none does."""
        group = self.first_group()
        return group.holder_of(partition) if group else None

    def first_group(self) -> ConsumerGroup | None:
        """Return the group that something is done to; `None`: there is none."""
        return self.groups.first()
