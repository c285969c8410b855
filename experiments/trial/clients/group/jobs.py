"""The jobs of a consumer group and of its members, and how far the group came."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen, Keys
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, ClientKind
from ackbench.experiments.sweep.workload import Commit, Copiers, GroupMembers
from ackbench.experiments.trial.clients.process.client_job import ClientJob
from ackbench.experiments.trial.clients.settings.librdkafka import (
    delivery_timeout_ms,
    transaction_timeout_ms,
)

MARGIN_S: Final = 5.0
"""For how much longer than its time-out a call of a copier's producer may take."""
TRANSACTIONAL_ID: Final = "transactional.id"


class CopyTarget(Frozen):
    """Where a copier writes to.

    A copier is a member that processes a record by producing one of the same identity.
    """

    topic: str
    partitions: Annotated[int, Field(gt=0)]
    """The number of partitions; a copy goes to its record's partition modulo this."""
    settings: dict[str, str]
    """The producer's settings, passed as they are.

    A copier that commits in a transaction has its own `transactional.id` here.
    """
    record_size_bytes: Annotated[int, Field(gt=0)]
    keys: Keys
    """The keys of the records as their producer chose them."""

    @property
    def longest_batch_s(self) -> float:
        """The longest time that one batch of a copier can take, by the time-outs of its producer.

        Its copies are delivered; a transaction is then given its offsets, committed and, if that
        fails, aborted.
        """
        delivery_s = delivery_timeout_ms(self.settings) / 1000 + MARGIN_S
        if TRANSACTIONAL_ID not in self.settings:
            return delivery_s
        return delivery_s + 3 * self.transaction_s

    @property
    def transaction_s(self) -> float:
        """The time-out of each call that ends a transaction."""
        return transaction_timeout_ms(self.settings) / 1000 + MARGIN_S


class MemberJob(ClientJob):
    """The job description of one generation of a member."""

    consumer: Annotated[int, Field(ge=1)]
    """Its number in the trial; 0 is the concurrent consumer."""
    generation: Annotated[int, Field(ge=0)] = 0
    partitions: Annotated[int, Field(gt=0)]
    settings: dict[str, str]
    """The client's settings with `group.id`, passed as they are."""
    warm_up_records: Annotated[int, Field(ge=0)] = 0
    """How many records each producer sent before its schedule began; see `record.layout`."""
    load: GroupMembers | Copiers
    """The settings by which it processes and commits."""
    records_per_s: Annotated[float, Field(ge=0)] = 0
    """The processing rate of a slow member until it is unthrottled; 0: as fast as it can."""
    output: CopyTarget | None = None
    """Where a copier writes to; `None`: the member processes a record by storing it in its file."""

    @property
    def commit(self) -> Commit:
        """When the member commits."""
        return self.load.commits

    @property
    def member_name(self) -> str:
        """The member: `member 1`, or `copier 1`."""
        return f"{'member' if self.output is None else 'copier'} {self.consumer}"

    @property
    def name(self) -> str:
        """The member and its generation: `member 1.0`."""
        return f"{self.member_name}.{self.generation}"

    @property
    def stem(self) -> str:
        """The beginning of the names of its files."""
        return f"member-{self.consumer}.{self.generation}"

    @property
    def reads(self) -> Path:
        """The mapped file with the processed records (`consumer.reads`)."""
        return self.file("reads")

    @property
    def output_log(self) -> Path:
        """The log of librdkafka of a copier's producer."""
        return self.file("output.log")

    @property
    def event_log(self) -> Path:
        """The member's events, one JSON line each."""
        return self.file("events")

    @property
    def errors(self) -> Path:
        """Its standard error."""
        return self.file("errors")

    @property
    def job_file(self) -> Path:
        """This job description."""
        return self.file("json")


class GroupJob(Frozen):
    """The job description of a group."""

    group: str
    """Its `group.id`."""
    load: GroupMembers | Copiers
    client: ClientKind = DEFAULT_CLIENT
    """The kind of client that the members run on."""
    limits_polls: bool = True
    """Whether that client has `max.poll.records`."""
    client_version: str | None = None
    """The version of librdkafka; `None`: the installed one."""
    bootstrap_servers: str
    topic: str
    partitions: int
    warm_up_records: int = 0
    """As of `MemberJob`."""
    settings: dict[str, str]
    """The settings of a consumer; those that only a member needs are added."""
    token: int
    """Identifies the trial's records."""
    folder: Path
    number: int = 1
    """The group's number in the trial, from 1 on."""
    output: CopyTarget | None = None
    """Where the members copy to; `None`: they do not copy.

    With transactions each member's `transactional.id` is this one with the member's number.
    """

    @property
    def command(self) -> tuple[str, ...]:
        """The user's program that copies; empty: ackbench's own copiers do."""
        return self.load.command if isinstance(self.load, Copiers) else ()


class GroupResult(Frozen):
    """How far a group committed."""

    committed: dict[int, int]
    """The committed offset of each partition as the coordinator reports it; 0 if there is none."""
    at_end: bool
    """Whether the group committed all requested offsets."""
    group: int = 1
    """The group's number in the trial."""
    consumers: tuple[int, ...] = ()
    """The numbers of its members."""
    hung: tuple[str, ...] = ()
    """The members whose client hung, one sentence each; they were killed."""
