"""Rules for chosen requests, and their actions: one entry of a table each.

An entry has the words of the evidence, the parameters that the action needs, and what it does with
a request or a response that meets the rule. Planning, evidence and relays read nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import RequestHead
from ackbench.infra.kafka.spec import Listener
from ackbench.infra.network.treatment import Direction, FrameTreatment

if TYPE_CHECKING:
    from ackbench.infra.kafka.messages import Selection

RuleAction = Literal[
    "hold", "delay", "drop", "reset", "error", "repeat", "slow", "rewrite", "respond"
]
"""The action of a rule on a request or a response."""
NEXT_TRANSACTION: Final = "next-transaction"
"""The end of a rule that the relays see: a producer's next transaction has a stored record."""
BOTH_SIDES: Final[tuple[Direction, ...]] = ("responses", "requests")


@dataclass(frozen=True)
class RequestRule:
    """The relays of all nodes act on some requests of one API, or on the responses to them.

    A request that is held, or whose connection is to be dropped, takes with it what follows on its
    connection in the same direction, as TCP would: until the rule is removed, or, with a delay,
    until that has passed. A request that is repeated is forwarded, and delivered once more after
    the delay on a connection of its own, whose response is discarded: like a late request on a
    connection that its sender has closed. A connection is slow in the rule's direction from its
    first request that meets the rule on; the bytes that were not read stay with the sender.
    """

    api: str
    """Its name in Kafka's protocol: `Produce`."""
    side: Direction
    action: RuleAction
    error: str = ""
    """The error to put into responses: `NOT_LEADER_OR_FOLLOWER`."""
    delay_ms: float = 0
    rewrite: str = ""
    """The changes of named fields, in the notation of `infra.kafka.field_changes`."""
    bytes_per_s: int = 0
    """The rate at which a slow connection is read."""
    topic: str = ""
    """Only what is about this topic is changed or answered; empty: about all."""
    topic_id: str | None = None
    """The id of that topic, for messages that have no names (KIP-516)."""
    partition: int | None = None
    """Only what is about this partition is changed or answered; `None`: about all."""
    on_call: int = 1
    """The first one that the rule acts on, of those that it meets."""
    times: int | None = None
    """The largest number that it acts on; `None`: it acts on all."""
    probability: float = 1.0
    """With which it acts on each from there on."""
    seed: int = 0
    until: str = ""
    """The end of the rule: the relays know `NEXT_TRANSACTION`; the fault waits for all others."""
    listener: Listener = "client"
    """Of the nodes that receive the requests."""
    kind: Literal["request-rule"] = "request-rule"

    def selection(self) -> Selection:
        """Return the topic and partition that it is about."""
        from ackbench.infra.kafka.messages import Selection

        return Selection(self.topic, self.topic_id, self.partition)

    def __str__(self) -> str:
        """Return it as evidence: `the relays drop 3 Produce responses`."""
        some = "" if self.times is None else f"{self.times} "
        what = f"{some}{self.api} {self.side}"
        if self.probability < 1:
            what += f" (probability {self.probability:g})"
        if self.on_call > 1:
            what += f" from number {self.on_call} on"
        partition = [] if self.partition is None else [f"partition {self.partition}"]
        chosen = partition + ([f"topic {self.topic}"] if self.topic else [])
        where = f" for {' of '.join(chosen)}" if chosen else ""
        done = ACTIONS[self.action].sentence.format(what=what, where=where, rule=self)
        between = "" if self.listener == "client" else f" of the {self.listener} listeners"
        end = f" until {self.until}" if self.until else ""
        return f"the relays{between} {done}{end}"


@dataclass(frozen=True)
class MetFrame:
    """A request that meets a rule, or the response to it."""

    rule: RequestRule
    frame: bytes
    head: RequestHead
    """Of the request, also if the frame is the response."""
    repeat: Callable[[float], None]
    """Delivers the frame once more, after so many seconds."""
    brokers: tuple[tuple[int, str, int], ...]
    """Node id, host and port of all relays."""
    limit: Callable[[int], None]
    """Reads so many bytes per second of the connection, on the rule's side."""


@dataclass(frozen=True)
class ActionKind:
    """An entry of the table."""

    sentence: str
    """The predicate of the relays, a format with `what`, `where` and the rule: `drop {what}`."""
    did: str
    """The participle that follows the number of requests: `dropped`."""
    treat: Callable[[MetFrame], FrameTreatment | str]
    """Returns the treatment of the frame; or why the rule does not act on it, which then does not
    count."""
    sides: tuple[Direction, ...] = BOTH_SIDES
    needs: tuple[str, ...] = ()
    """The parameters of `RequestRule` that it needs, and that others must not have."""
    takes: tuple[str, ...] = ()
    """Those that it can have."""
    counts_when_answered: bool = False
    """`True`: it acts later, and counts when the node has answered."""


def _repeat(met: MetFrame) -> FrameTreatment:
    met.repeat(met.rule.delay_ms / 1000)
    return FrameTreatment(met.frame)


def _slow(met: MetFrame) -> FrameTreatment:
    met.limit(met.rule.bytes_per_s)
    return FrameTreatment(met.frame)


def _error(met: MetFrame) -> FrameTreatment | str:
    from ackbench.infra.kafka.messages import ERRORS, with_error

    rule = met.rule
    try:
        changed = with_error(met.frame, met.head, ERRORS[rule.error], rule.selection())
    except HarnessError:
        return f"{rule.api} v{met.head.version} cannot be read"
    return (
        FrameTreatment(changed)
        if changed is not None
        else "it has no error of this topic and partition"
    )


def _rewrite(met: MetFrame) -> FrameTreatment | str:
    from ackbench.infra.kafka.field_changes import FieldMissing, with_changes

    version = f"{met.rule.api} v{met.head.version}"
    try:
        changed = with_changes(met.frame, met.head, met.rule.rewrite, met.rule.selection())
    except FieldMissing as error:
        return f"{version}: {error}"
    except HarnessError:
        return f"{version} cannot be read or changed"
    return FrameTreatment(changed) if changed != met.frame else f"{version} would stay as it is"


def _respond(met: MetFrame) -> FrameTreatment | str:
    from ackbench.infra.kafka.answers import Unanswerable, answer_with_error
    from ackbench.infra.kafka.messages import ERRORS

    try:
        answer = answer_with_error(
            met.frame, met.head, ERRORS[met.rule.error], met.brokers, met.rule.selection()
        )
    except Unanswerable as error:
        return str(error)
    except HarnessError:
        return f"{met.rule.api} v{met.head.version} cannot be read"
    return FrameTreatment(answer, "answer")


ACTIONS: Final[Mapping[RuleAction, ActionKind]] = MappingProxyType(
    {
        "hold": ActionKind("hold {what}", "held", lambda met: FrameTreatment(met.frame, "hold")),
        "delay": ActionKind(
            "delay {what} by {rule.delay_ms:g} ms",
            "delayed",
            lambda met: FrameTreatment(met.frame, "hold", for_s=met.rule.delay_ms / 1000),
            needs=("delay_ms",),
        ),
        "drop": ActionKind(
            "drop {what} and what follows on the connection",
            "dropped",
            lambda met: FrameTreatment(met.frame, "drop"),
        ),
        "reset": ActionKind(
            "reset connections with {what}", "reset", lambda met: FrameTreatment(met.frame, "reset")
        ),
        "error": ActionKind(
            "put {rule.error}{where} into {what}",
            "changed",
            _error,
            sides=("responses",),
            needs=("error",),
            takes=("topic", "partition"),
        ),
        "repeat": ActionKind(
            "repeat {what} after {rule.delay_ms:g} ms",
            "repeated",
            _repeat,
            sides=("requests",),
            takes=("delay_ms",),
            counts_when_answered=True,
        ),
        "slow": ActionKind(
            "read {rule.bytes_per_s:,} bytes/s of connections with {what}",
            "on slow connections",
            _slow,
            needs=("bytes_per_s",),
        ),
        "rewrite": ActionKind(
            "rewrite {rule.rewrite}{where} in {what}",
            "rewritten",
            _rewrite,
            sides=("responses",),
            needs=("rewrite",),
            takes=("topic", "partition"),
        ),
        "respond": ActionKind(
            "answer {what}{where} with {rule.error} themselves",
            "answered by relays",
            _respond,
            sides=("requests",),
            needs=("error",),
            takes=("topic", "partition"),
        ),
    }
)
