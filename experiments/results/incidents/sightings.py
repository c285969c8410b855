"""What single lines of logs say: a broker was fenced, a log truncated, a request timed out.

The patterns are Kafka's own messages (3.x with ZooKeeper, KRaft from 3.3 on), those of its Java
clients, and librdkafka's. A line says nothing here unless a pattern matches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ackbench.experiments.results.incidents.lines import LogFile, LogLine


class Kind(StrEnum):
    """What a line says."""

    STARTING = "starting"
    STARTED = "started"
    SIGNALLED = "signalled"
    """A signal other than SIGKILL, which no program sees."""
    STOPPED = "shut down cleanly"
    FENCED = "fenced"
    """The controller has not heard of the broker for its session."""
    UNFENCED = "unfenced"
    NEW_CONTROLLER = "new active controller"
    NEW_LEADER = "new leader"
    NEW_EPOCH = "new leader epoch"
    """At a follower: another replica leads."""
    ISR = "in-sync replicas"
    UNCLEAN = "unclean election"
    TRUNCATED = "truncated"
    WATERMARK_FELL = "high watermark fell"
    RECOVERING = "recovers its log"
    """It was not shut down cleanly."""
    EMPTY_DISK = "no data directory"
    CREATED_LOG = "new log"
    DELETED_TOPIC = "topic deleted"
    NEW_PARTITION = "new partition"
    MOVING = "replicas move"
    DISK_FULL = "no space left"
    DISK_FAILED = "disk failed"
    CORRUPT = "corrupt records"
    OUT_OF_MEMORY = "out of memory"
    UNREACHABLE = "no connection"
    DISCONNECTED = "disconnected"
    MISSED_HEARTBEAT = "no heartbeat"
    VERSION = "version"
    # of clients
    REQUEST_TIMED_OUT = "request timed out"
    DELIVERY_TIMED_OUT = "delivery timed out"
    RETRIED = "retried"
    TOO_FEW_REPLICAS = "too few in-sync replicas"
    PRODUCER_FENCED = "producer fenced"
    FATAL = "fatal error"
    SLOW_MEMBER = "poll interval exceeded"
    MEMBER_FAILED = "member removed"
    REBALANCE = "rebalance"
    COORDINATOR_LOST = "coordinator unavailable"
    REFUSED = "authentication failed"


@dataclass(frozen=True)
class Sighting:
    """One thing that one line says."""

    at_s: float
    kind: Kind
    source: str
    """`server-1/server.log:1234`."""
    text: str
    by: int | None = None
    """The node whose log it is; `None`: a client's."""
    node: int | None = None
    """The node that it is about."""
    partition: str = ""
    """`orders-0`."""
    isr: tuple[int, ...] | None = None
    detail: str = ""

    @property
    def topic(self) -> str:
        """The topic that it is about; empty: none."""
        deleted = self.detail if self.kind is Kind.DELETED_TOPIC else ""
        return self.partition.rpartition("-")[0] or deleted


_N: Final = r"\d{1,9}"
_TOPIC: Final = rf"(?P<partition>[A-Za-z0-9._-]{{1,249}}-{_N})"
_PATTERNS: Final = tuple(
    (kind, marker, re.compile(pattern))
    for kind, marker, pattern in (
        (Kind.VERSION, "Kafka version", r"Kafka version: (?P<detail>\d+\.\d+[\w.-]*)"),
        (Kind.STARTING, "Log4jController", r"Registered .*Log4jController.* MBean"),
        (Kind.STARTED, "erver started", rf"\[KafkaRaftServer nodeId=(?P<node>{_N})\]"),
        (Kind.STARTED, "] started", rf"\[KafkaServer id=(?P<node>{_N})\] started"),
        (Kind.SIGNALLED, "Terminating process", r"due to signal (?P<detail>SIG\w+)"),
        (Kind.STOPPED, "shut down completed", rf"erver id=(?P<node>{_N})\] shut down completed"),
        (Kind.STOPPED, "closed event queue", rf"\[QuorumController id=(?P<node>{_N})\] closed"),
        (
            Kind.FENCED,
            "Fencing broker",
            rf"Fencing broker (?P<node>{_N})(?: at epoch \d+)? because its session",
        ),
        (Kind.FENCED, "Broker failure callback", rf"callback for (?P<node>{_N})"),
        (
            Kind.UNFENCED,
            "to unfence has been granted",
            rf"request from broker (?P<node>{_N}) to unfence",
        ),
        (Kind.UNFENCED, "New broker startup", rf"callback for (?P<node>{_N})"),
        (
            Kind.NEW_CONTROLLER,
            "Becoming the active controller",
            rf"Controller(?: id=|: )(?P<node>{_N})",
        ),
        (
            Kind.NEW_CONTROLLER,
            "Performing controller activation",
            rf"\[QuorumController id=(?P<node>{_N})\]",
        ),
        (
            Kind.NEW_CONTROLLER,
            "successfully elected as the controller",
            rf"(?P<node>{_N}) successfully elected",
        ),
        (
            Kind.NEW_LEADER,
            "starts at leader epoch",
            (
                rf"\[Broker id=(?P<node>{_N})\] Leader {_TOPIC} .*?ISR \[(?P<isr>[\d,]*)\]"
                r".*?[Pp]revious leader (?:Some\()?(?P<detail>-?\d+|None)?"
            ),
        ),
        (
            Kind.NEW_EPOCH,
            "starts at leader epoch",
            rf"\[Broker id=\d+\] Follower {_TOPIC} starts at leader epoch (?P<detail>\d+) from",
        ),
        (
            Kind.WATERMARK_FELL,
            "Non-monotonic update of high watermark",
            rf"partition={_TOPIC},.* from \(offset=(?P<detail>\d+ .* to \(offset=\d+)",
        ),
        (
            Kind.ISR,
            "Skipped the become-leader state change",
            rf"state change for {_TOPIC} with .*ISR \[(?P<isr>[\d,]*)\]",
        ),
        (Kind.ISR, "ISR updated to", rf"\[Partition {_TOPIC} .*ISR updated to (?P<isr>[\d,]*)"),
        (
            Kind.ISR,
            "Shrinking ISR from",
            rf"\[Partition {_TOPIC} .*Shrinking ISR from [\d,]+ to (?P<isr>[\d,]*)",
        ),
        (
            Kind.UNCLEAN,
            "UNCLEAN",
            (
                rf"UNCLEAN partition change for {_TOPIC} "
                rf".*leader: (?P<detail>-?\d+) -> (?P<node>{_N})"
                # Kafka 4.3 calls so as well what the eligible leader replicas allow.
                r"(?!.*\belr: \[[\d, ]*\b(?P=node)\b[\d, ]*\] ->)"
            ),
        ),
        (Kind.UNCLEAN, "ncleanly elected", r"[Uu]ncleanly elected"),
        (
            Kind.TRUNCATED,
            "Truncat",
            rf"partition={_TOPIC}.*Truncat(?:ing to|e and start at) offset (?P<detail>\d+)",
        ),
        (Kind.RECOVERING, "Recovering unflushed segment", rf"partition={_TOPIC}"),
        (Kind.RECOVERING, "no clean shutdown file was found", r"Attempting recovery"),
        (Kind.EMPTY_DISK, "No `meta.properties`", r"No `meta\.properties`"),
        (Kind.EMPTY_DISK, "Formatting", r"Formatting (?:metadata|data) directory"),
        (Kind.CREATED_LOG, "Created log for partition", rf"for partition {_TOPIC} "),
        (
            Kind.DELETED_TOPIC,
            "RemoveTopic",
            r"Replayed RemoveTopicRecord for topic (?P<detail>\S+)",
        ),
        (
            Kind.NEW_PARTITION,
            "Replayed PartitionRecord for new partition",
            rf"for new partition {_TOPIC} ",
        ),
        (
            Kind.MOVING,
            "partition assignment change",
            r"assignment change .*\b(?:replicas|addingReplicas|removingReplicas)=\[\d",
        ),
        (Kind.DISK_FULL, "No space left on device", r"No space left on device"),
        (
            Kind.DISK_FAILED,
            "log dir",
            r"Stopping serving logs in dir|all log dirs in .* have failed",
        ),
        (Kind.DISK_FAILED, "Error while", r"Error while (?:writing|appending|flushing).*\bdir\b"),
        (Kind.CORRUPT, "orrupt", r"CorruptRecordException|Record is corrupt|Corruption found"),
        (Kind.OUT_OF_MEMORY, "OutOfMemoryError", r"OutOfMemoryError"),
        (
            Kind.MISSED_HEARTBEAT,
            "heartbeat",
            r"Unable to send a heartbeat because the RPC got timed",
        ),
        # clients, also those in a broker
        (Kind.UNREACHABLE, "could not be established", rf"Connection to node (?P<node>-?{_N}) "),
        (Kind.UNREACHABLE, "Connect to ", r"Connect to .* failed: (?P<detail>[^(]*)"),
        (
            Kind.REQUEST_TIMED_OUT,
            "request timeout",
            rf"Disconnecting from node (?P<node>-?{_N}) due to request timeout",
        ),
        (Kind.REQUEST_TIMED_OUT, "REQTMOUT", r"Timed out"),
        (Kind.DISCONNECTED, "disconnected.", rf"Node (?P<node>-?{_N}) disconnected\."),
        (Kind.DISCONNECTED, "Disconnected", r"FAIL\|.*Disconnected"),
        (
            Kind.DELIVERY_TIMED_OUT,
            "since batch creation",
            rf"Expiring \d+ record\(s\) for {_TOPIC}",
        ),
        (Kind.DELIVERY_TIMED_OUT, "Message timed out", r"Message timed out"),
        (
            Kind.RETRIED,
            "error produce response",
            rf"on topic-partition {_TOPIC}.*Error: (?P<detail>\w+)",
        ),
        (
            Kind.TOO_FEW_REPLICAS,
            "below required minimum",
            rf"for partition {_TOPIC} is \[\d+\], below required minimum \[(?P<detail>\d+)\]",
        ),
        (
            Kind.TOO_FEW_REPLICAS,
            "insufficient to satisfy the min.isr",
            rf"requirement of (?P<detail>\d+) for partition {_TOPIC}",
        ),
        (
            Kind.PRODUCER_FENCED,
            "enced",
            r"ProducerFencedException|InvalidProducerEpochException|[Pp]roducer .*fenced by",
        ),
        (Kind.FATAL, "atal", r"\|FATAL\||Fatal error|OutOfOrderSequenceException"),
        (
            Kind.SLOW_MEMBER,
            "poll",
            r"consumer poll timeout has expired|Application maximum poll interval",
        ),
        (Kind.MEMBER_FAILED, "has failed, removing it", r"Member (?P<detail>\S+) in group"),
        (Kind.MEMBER_FAILED, "session timed out", r"[Mm]ember (?P<detail>\S+).*session timed out"),
        (Kind.REBALANCE, "Preparing to rebalance", r"rebalance group (?P<detail>\S+)"),
        (Kind.REBALANCE, "group is rebalancing", r"group is rebalancing"),
        (Kind.COORDINATOR_LOST, "oordinator", r"[Gg]roup coordinator .* is unavailable or invalid"),
        (Kind.REFUSED, "uthentication", r"[Aa]uthentication failed|SaslAuthenticationException"),
    )
)
"""Kind, what every such line contains, and its pattern. The first that matches counts."""
_NODE: Final = re.compile(
    r"\[(?:(?:KafkaServer id|BrokerServer id|ControllerServer id|KafkaRaftServer nodeId|"
    r"QuorumController id|Broker id|SharedServer id|RaftManager id|MetadataLoader id)=|Controller )"
    rf"(?P<id>{_N})\]"
)
_OWN: Final = {Kind.STARTING, Kind.STARTED, Kind.STOPPED, Kind.SIGNALLED, Kind.RECOVERING}
"""Of the node whose log it is."""


def sightings_of(line: LogLine, source: str, by: int | None) -> Sighting | None:
    """Return what a line says; `None`: nothing that matters here.

    Args:
        line: the line.
        source: how it is named.
        by: the node whose log it is.
    """
    for kind, marker, pattern in _PATTERNS:
        if marker not in line.text or not (found := pattern.search(line.text)):
            continue
        fields = found.groupdict()
        isr = fields.get("isr")
        node = int(fields["node"]) if fields.get("node") is not None else None
        return Sighting(
            at_s=line.at_s,
            kind=kind,
            source=source,
            text=line.text,
            by=by,
            node=by if node is None and kind in _OWN else node,
            partition=fields.get("partition") or "",
            isr=tuple(sorted(map(int, filter(None, isr.split(","))))) if isr is not None else None,
            detail=(fields.get("detail") or "").strip(),
        )
    return None


@dataclass(frozen=True)
class ReadLog:
    """All that one log file says."""

    file: LogFile
    node: int | None
    """Whose log it is; `None`: a client's, or unknown."""
    sightings: tuple[Sighting, ...]
    moments_s: tuple[float, ...]
    """Of its lines: the last one before the time in question, then one for each half second."""
    roles: frozenset[str] = frozenset()
    """`broker`, `controller`: what the node says of itself."""

    @property
    def first_s(self) -> float | None:
        """Of its first line."""
        return self.moments_s[0] if self.moments_s else None

    @property
    def last_s(self) -> float | None:
        """Of its last line."""
        return self.moments_s[-1] if self.moments_s else None


def node_named_in(text: str) -> int | None:
    """Return the node that a line of its own log names; `None`: it names none."""
    found = _NODE.search(text)
    return int(found["id"]) if found else None


def role_named_in(text: str) -> str | None:
    """Return what a line says its node is."""
    if "[BrokerServer id=" in text or "[KafkaServer id=" in text:
        return "broker"
    return "controller" if "[ControllerServer id=" in text else None


def of_node(sightings: Iterable[Sighting], node: int) -> Iterator[Sighting]:
    """Yield what a file says, also before it named its node."""
    for one in sightings:
        is_own = one.node is None and one.kind in _OWN
        yield replace(one, by=node, node=node if is_own else one.node)
