"""The contract itself: of each promise, the first rule whose condition holds decides. Pure.

Promised is what the sources promise under these circumstances, whatever else may go wrong by itself; all else is not promised, with the
mechanism that can break it. `docs/contract.md` holds these rules as tables, and the reasons for the harder ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from experiments.contract.circumstances import Circumstances
from experiments.contract.promises import DOCUMENTATION, KIP, Promise, Rule

_ACKS: Final = f"{DOCUMENTATION}producerconfigs_acks"
_MAX_IN_FLIGHT: Final = f"{DOCUMENTATION}producerconfigs_max.in.flight.requests.per.connection"
_IDEMPOTENCE: Final = f"{DOCUMENTATION}producerconfigs_enable.idempotence"
_CLEANUP: Final = f"{DOCUMENTATION}topicconfigs_cleanup.policy"
_RETENTION: Final = f"{DOCUMENTATION}topicconfigs_retention.ms"
_FLUSH: Final = f"{DOCUMENTATION}topicconfigs_flush.messages"
_SESSION: Final = f"{DOCUMENTATION}brokerconfigs_broker.session.timeout.ms"
_MIN_ISR: Final = f"{DOCUMENTATION}topicconfigs_min.insync.replicas"
_REPLICATION: Final = f"{DOCUMENTATION}replication"
_ALL_DIE: Final = f"{DOCUMENTATION}design_uncleanleader"
_SEMANTICS: Final = f"{DOCUMENTATION}semantics"
_PAGE_CACHE: Final = f"{DOCUMENTATION}appvsosflush"
_KIP_98: Final = f"{KIP}98+-+Exactly+Once+Delivery+and+Transactional+Messaging"
_KIP_101: Final = f"{KIP}101+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation"
_KIP_106: Final = f"{KIP}106+-+Change+Default+unclean.leader.election.enabled+from+True+to+False"
_KIP_595: Final = f"{KIP}595%3A+A+Raft+Protocol+for+the+Metadata+Quorum"
_KIP_631: Final = f"{KIP}631%3A+The+Quorum-based+Kafka+Controller"

_HOUR_MS: Final = 3_600_000


def _promised(condition: str, when: Callable[[Circumstances], bool], because: str, source: str, figures: str = "") -> Rule:
    return Rule(condition, when, True, because, source, figures)


def _not_promised(condition: str, when: Callable[[Circumstances], bool], because: str, source: str, figures: str = "") -> Rule:
    return Rule(condition, when, False, because, source, figures)


_LOSS: Final = (
    _not_promised(
        "acks=0",
        lambda c: c.acks == "0",
        "the client reports success once the record is in its socket; no broker has said anything",
        _ACKS,
    ),
    _not_promised(
        "the topic is compacted",
        lambda c: c.compacts,
        "of records with the same key, only the last is kept",
        _CLEANUP,
    ),
    _not_promised(
        "records are kept for less than an hour, or up to a number of bytes",
        lambda c: 0 <= c.retention_ms < _HOUR_MS or c.retention_bytes >= 0,
        "old segments are deleted, acknowledged or not",
        _RETENTION,
    ),
    _promised(
        "no fault",
        lambda c: c.fault.kind == "none",
        "the leader wrote the record before it acknowledged it, and no replica fails",
        _ACKS,
    ),
    _not_promised(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may take every replica at once, or what is written; no guarantee reaches that far",
        _ALL_DIE,
    ),
    _promised(
        "no partition's leader is hit",
        lambda c: not c.fault.strikes_leader,
        "the leader has every record that it acknowledged, and stays alive",
        _REPLICATION,
    ),
    _not_promised(
        "acks=1, more than one replica",
        lambda c: c.acks == "1" and c.replication_factor > 1,
        "the leader acknowledges before the followers have the record; where another leads, the old leader cuts its log to the new leader's epoch, "
        "and what only it had is gone",
        _KIP_101,
    ),
    _not_promised(
        "unclean.leader.election.enable=true",
        lambda c: c.unclean_election,
        "where no in-sync replica is left, one that lacks acknowledged records may lead, and the others cut theirs to match",
        _KIP_106,
    ),
    _promised(
        "acks=all, fewer replicas dead at once than min.insync.replicas; or no replica dead",
        lambda c: c.gone < c.needed,
        "an acknowledged record is on at least as many in-sync replicas as it needs, one of them stays alive, and only an in-sync replica may lead",
        _REPLICATION,
        "at most {c.gone} dead at once, {c.needed} needed",
    ),
    _not_promised(
        "as many dead, by power loss, flush.messages=1",
        lambda c: c.fault.power_loss and c.flush_messages <= 1,
        "the in-sync replicas may all die, and there the guarantee ends; each record was synced to disk first, so none is expected to go",
        _FLUSH,
    ),
    _not_promised(
        "as many dead, by power loss",
        lambda c: c.fault.power_loss,
        "the in-sync replicas may all die, and each loses what its operating system had not yet written to disk",
        _ALL_DIE,
        "up to {c.gone} dead at once, {c.needed} needed",
    ),
    _not_promised(
        "as many dead, with their disks and operating systems intact",
        lambda _c: True,
        "the in-sync replicas may all be dead at once, and there the guarantee ends; the page cache outlives the process, "
        "so what was written is expected back, as long as no other replica leads meanwhile",
        _ALL_DIE,
        "up to {c.gone} dead at once, {c.needed} needed",
    ),
)

_DUPLICATES: Final = (
    _not_promised(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may end the producer, and a new session may send again what the old one had sent",
        _KIP_98,
    ),
    _promised(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader knows producer, epoch and sequence number of each batch, and stores a batch that comes again within the session only once",
        _KIP_98,
    ),
    _promised(
        "acks=0",
        lambda c: c.acks == "0",
        "no answer is awaited, so nothing that was sent is sent again",
        _ACKS,
    ),
    _promised(
        "retries=0",
        lambda c: c.retries == 0,
        "without retries delivery is at most once",
        _SEMANTICS,
    ),
    _not_promised(
        "no fault",
        lambda c: c.fault.kind == "none",
        "delivery is at least once: an answer that takes longer than socket.timeout.ms makes the client send a stored batch again",
        _SEMANTICS,
    ),
    _not_promised(
        "anything else",
        lambda _c: True,
        "delivery is at least once: a batch may be stored and its answer lost or late, and the client sends it again",
        _SEMANTICS,
    ),
)

_ORDER: Final = (
    _not_promised(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may end the producer, and a new session knows nothing of the old one's order",
        _KIP_98,
    ),
    _promised(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader takes a producer's batches in the order of their sequence numbers only",
        _IDEMPOTENCE,
    ),
    _promised(
        "acks=0, no fault",
        lambda c: c.acks == "0" and c.fault.kind == "none",
        "nothing is sent again, and a broker takes the requests of one connection in their order",
        _MAX_IN_FLIGHT,
    ),
    _not_promised(
        "acks=0, any fault",
        lambda c: c.acks == "0",
        "nobody waits for what is on its way: where the connection breaks, requests on a new one may overtake those in the old one's buffers",
        _ACKS,
    ),
    _not_promised(
        "one request in flight or no retries, and the client gives up requests to a node that stands still",
        lambda c: (c.max_in_flight == 1 or c.retries == 0) and c.late_arrivals,
        "a request that was given up waits in the buffers of that node, and when it goes on may be appended behind records that were sent later",
        _MAX_IN_FLIGHT,
    ),
    _promised(
        "max.in.flight.requests.per.connection=1",
        lambda c: c.max_in_flight == 1,
        "no batch is sent before the one ahead of it is acknowledged; a batch may be stored twice, but its first copy lies in its place",
        _MAX_IN_FLIGHT,
    ),
    _promised(
        "retries=0",
        lambda c: c.retries == 0,
        "nothing is sent again, so nothing can come behind what was sent later",
        _MAX_IN_FLIGHT,
    ),
    _not_promised(
        "anything else",
        lambda _c: True,
        "several requests are in flight: where one fails and is sent again, those behind it may be stored before it",
        _MAX_IN_FLIGHT,
    ),
)

_AVAILABILITY: Final = (
    _not_promised(
        "no fault",
        lambda c: c.fault.kind == "none",
        "nothing fails, so there is no outage to end before a heal",
        _REPLICATION,
    ),
    _not_promised(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may cut the nodes off from each other; Kafka stays available when nodes fail, and not when the network parts",
        _REPLICATION,
    ),
    _not_promised(
        "acks=0",
        lambda c: c.acks == "0",
        "nobody is told whether a broker takes the records",
        _ACKS,
    ),
    _promised(
        "acks=1, no partition's leader is hit",
        lambda c: c.acks == "1" and not c.fault.strikes_leader,
        "the leader goes on, and waits for no follower",
        _ACKS,
    ),
    _not_promised(
        "the fault leaves no majority of controllers",
        lambda c: c.nodes - c.nodes_gone <= c.nodes // 2,
        "without a majority of the controllers nobody can take a node for dead or elect a leader",
        _KIP_595,
        "{c.nodes_gone} of {c.nodes} dead at once",
    ),
    _not_promised(
        "fewer replicas left than a record needs",
        lambda c: c.replication_factor - c.gone < c.needed,
        "the replicas that are left are fewer than a record needs to be acknowledged, until the heal",
        _MIN_ISR,
        "{c.gone} of {c.replication_factor} replicas dead, {c.needed} needed",
    ),
    _not_promised(
        "a node stands still for less than its session",
        lambda c: c.gone == 0,
        "a node that misses heartbeats for less than broker.session.timeout.ms stays the leader: its partitions wait until it goes on",
        _SESSION,
        "{c.fault.stalls_ms:g} ms against {c.session_timeout_ms:g} ms",
    ),
    _not_promised(
        "the heal may come before the failover",
        lambda c: c.fault.heals_after_ms <= c.failover_ms,
        "the fault may be healed before the dead node is detected, its successor elected and the client told",
        _KIP_631,
        "healed after {c.fault.heals_after_ms:g} ms; failover takes up to {c.failover_ms:g} ms, where the node was the active controller too",
    ),
    _promised(
        "anything else",
        lambda _c: True,
        "Kafka stays available when nodes fail, after a short failover: the fault lasts longer than that, and enough replicas are left",
        _REPLICATION,
        "failover takes up to {c.failover_ms:g} ms, the heal comes after {c.fault.heals_after_ms:g} ms",
    ),
)

RULES: Final[Mapping[Promise, tuple[Rule, ...]]] = {
    Promise.NO_ACKED_LOSS: _LOSS,
    Promise.NO_DUPLICATES: _DUPLICATES,
    Promise.ORDER: _ORDER,
    Promise.AVAILABILITY: _AVAILABILITY,
}
