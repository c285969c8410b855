"""The load of a trial, in the sections of an experiment's file. Pure.

Each setting is declared here: experiments have these sections, a plan has their values for a trial,
and the jobs of the clients are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from ackbench.experiments.ledger.moved import lift_load
from ackbench.experiments.ledger.trial_manifest import (
    Boolean,
    Frozen,
    Keys,
    Number,
    Scalar,
    WholeNumber,
)
from ackbench.experiments.messages.validation import inner_model

AutoOffsetReset = Literal["earliest", "latest", "none"]
"""Kafka's `auto.offset.reset`: where a member continues whose next offset is not available.

With `none` it gets an error instead.
"""
Commit = Literal["before", "after", "within", "auto"]
"""When a member of a group commits: before or after it processes a record.

`within`: in one transaction with the record that it produces. `auto`: when its client does by
itself (`enable.auto.commit`).
"""
AfterFailure = Literal["seek", "continue"]
"""The action of a member after a record that it could not process.

`seek`: it seeks back to that record, and reads and processes it again. `continue`: it goes on with
the next batch, as an application does that catches the error and polls.
"""
Delivery = Literal["at-most-once", "at-least-once", "exactly-once"]
Identity = Literal["value", "header", "key", "text"]
"""Where a record has its identity, which a program that copies passes on.

`value`: the value is ackbench's own, and stays as it is. `header`: a header. `key`: it is the key.
`text`: it is a part of the value.
"""
COMMIT_BY_DELIVERY: Final[Mapping[Delivery, Commit]] = MappingProxyType(
    {"at-most-once": "before", "at-least-once": "after", "exactly-once": "within"}
)


class ProducerLoad(Frozen):
    """The load of the producers. It is open-loop: the schedule does not wait for the cluster."""

    rate_records_per_s: Number = Field(default=10_000.0, gt=0, le=10_000_000)
    """Rate of all producers together."""
    record_size_bytes: WholeNumber = Field(default=100, ge=1, le=1_000_000)
    """Size of a record's value, including ackbench's header."""
    duration_s: Number = Field(default=10.0, gt=0, le=86_400)
    producers: WholeNumber = Field(default=1, ge=1, le=64)
    headers: WholeNumber = Field(default=0, ge=0, le=9)
    """Headers of each record.

    With at least one, digests of each record's fields are recorded, and the log is replayed at the
    end. 0: none of this.
    """
    record_serving_brokers: Boolean = False
    """Whether the broker is recorded that served each record.

    Applies to the producers and the concurrent consumer.
    """

    @property
    def records(self) -> int:
        """Number of records in the schedule."""
        return round(self.rate_records_per_s * self.duration_s)


class Transactions(Frozen):
    """The transactions of each producer."""

    records: WholeNumber = Field(default=500, ge=1, le=1_000_000)
    """Records per transaction."""
    abort_every: WholeNumber = Field(default=0, ge=0, le=1_000_000)
    """Every n-th transaction is aborted on purpose; 0: none."""


class Members(Frozen):
    """The members of a consumer group, copiers or not."""

    slow_members: WholeNumber = Field(default=0, ge=0, le=64)
    """Number of slow members of each group; they are its first members."""
    slow_records_per_s: Number = Field(default=0.0, ge=0, le=10_000_000)
    """Maximum rate of each slow member during the load; 0: no member is slow."""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """The members' `auto.offset.reset`."""
    commit_every_records: WholeNumber = Field(default=500, ge=1, le=100_000)
    """Approximate maximum number of records between two commits of a member."""
    asynchronous_commits: Boolean = False
    """`True`: a member goes on before the coordinator has answered its commit (`commitAsync`).

    An offset whose commit failed is committed again with the next one.
    """
    commit_on_revocation: Boolean = True
    """`True`: a member commits what it has processed before its partitions are revoked."""
    static: Boolean = False
    """`True`: each member has its own `group.instance.id` (KIP-345).

    A member that returns within its session has its partitions again, without a rebalance.
    """


class GroupMembers(Members):
    """Consumer groups, each of which reads the topic."""

    consumers: WholeNumber = Field(default=1, ge=1, le=64)
    """Members of each group."""
    groups: WholeNumber = Field(default=1, ge=1, le=16)
    """Number of groups of that size; faults of members affect the first one."""
    commit: Literal["before", "after", "auto"] = "after"
    """When a member commits: before or after it processes a record.

    `auto`: the client does by itself, each `auto.commit.interval.ms`.
    """
    pause_while_processing: Boolean = False
    """`True`: a member pauses its partitions and polls while it works on a batch.

    So `max.poll.interval.ms` does not end its membership (`pause`, `resume`).
    """
    fail_every: WholeNumber = Field(default=0, ge=0, le=1_000_000)
    """Every n-th batch of a member fails in its middle, once; 0: none."""
    after_failure: AfterFailure = "seek"
    """The action of a member after such a failure."""

    @property
    def members(self) -> int:
        """Members of each group."""
        return self.consumers

    @property
    def commits(self) -> Commit:
        """When the members commit."""
        return self.commit


class Copiers(Members):
    """The group that copies the records to another topic (consume-process-produce).

    The concurrent consumer then reads that topic.
    """

    copiers: WholeNumber = Field(default=1, ge=1, le=64)
    """Members of the group."""
    delivery: Delivery = "at-least-once"
    """Delivery semantics of the copiers: commit before, after, or in one transaction.

    Of a program: what it is meant to have, and is judged by.
    """
    pause_while_processing: ClassVar[bool] = False
    fail_every: ClassVar[int] = 0
    after_failure: ClassVar[AfterFailure] = "seek"
    command: tuple[Annotated[str, Strict(), Field(min_length=1)], ...] = ()
    """A program that copies in the place of ackbench's copiers, and its arguments.

    Only for `ackbench run` with a file, as `allow_code`.
    """
    identity: Identity = "value"
    """Where the program finds a record's identity, and leaves it."""
    value: str | None = Field(default=None, min_length=1, max_length=4_000)
    """The value of each record, for a program that reads values.

    With `identity: text`, `{id}` stands in it for the identity. `None`: ackbench's own value.
    """

    @property
    def members(self) -> int:
        """Members of the group."""
        return self.copiers

    @property
    def groups(self) -> int:
        """Number of groups."""
        return 1

    @property
    def commits(self) -> Commit:
        """When the members commit."""
        return COMMIT_BY_DELIVERY[self.delivery]


class LoadSections(BaseModel):
    """The sections of a load that are not about its producers. `None`: it is without them."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    keys: Keys = Field(default_factory=Keys)
    transactions: Transactions | None = None
    """`None`: no transactions."""
    group: GroupMembers | None = None
    """`None`: only the concurrent consumer reads the topic."""
    copies: Copiers | None = Field(default=None, alias="copy")
    """`None`: the records are not copied."""

    def section(self, name: str) -> Frozen | None:
        """Return a section by its name in the file."""
        return cast("Frozen | None", getattr(self, _FIELDS[name]))


_FIELDS: Final = {field.alias or name: name for name, field in LoadSections.model_fields.items()}
_OF_A_PROGRAM: Final = frozenset({"command", "identity", "value"})
LOAD_SECTIONS: Final[Mapping[str, type[Frozen]]] = MappingProxyType(
    {
        "workload": ProducerLoad,
        **{
            name: cast("type[Frozen]", inner_model(LoadSections.model_fields[field].annotation))
            for name, field in _FIELDS.items()
        },
    }
)
"""The sections of a load by their names in the file."""


class Workload(ProducerLoad, LoadSections):
    """The load of a trial."""

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, load: Any) -> Any:
        """Return the load of an earlier plan, which had no sections, with its sections."""
        return lift_load(load) if isinstance(load, Mapping) else load

    @property
    def of_members(self) -> GroupMembers | Copiers | None:
        """The section of the members of a consumer group; `None`: there is no group."""
        return self.copies or self.group

    @property
    def members(self) -> int:
        """Number of members of a consumer group, copiers or not."""
        return self.of_members.members if self.of_members else 0

    @property
    def commits(self) -> Commit:
        """When the members of a consumer group commit."""
        return self.of_members.commits if self.of_members else GroupMembers().commits

    @property
    def auto_offset_reset(self) -> AutoOffsetReset:
        """The `auto.offset.reset` of the members of a consumer group."""
        return (self.of_members or GroupMembers()).auto_offset_reset

    @property
    def identity(self) -> Identity:
        """Where the records have their identity."""
        return self.copies.identity if self.copies else "value"

    def settings(self) -> dict[str, dict[str, Scalar]]:
        """Return the values of each section that the load has, by its name in the file.

        A command is one text; a section without one has nothing of it.
        """
        sections = {name: self.section(name) for name in _FIELDS}
        return {
            "workload": self.model_dump(include=set(ProducerLoad.model_fields)),
            **{name: _scalars(section) for name, section in sections.items() if section},
        }


def _scalars(section: Frozen) -> dict[str, Scalar]:
    values = section.model_dump()
    if command := values.get("command"):
        return {**values, "command": " ".join(command)}
    return {name: value for name, value in values.items() if name not in _OF_A_PROGRAM}
