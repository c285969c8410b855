"""What can be promised, and how a promise is written down. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from experiments.ledger.record import Frozen
from experiments.verdicts.contract.circumstances import Circumstances


class Guarantee(StrEnum):
    """What a user may count on."""

    NO_ACKED_LOSS = "no-acked-loss"
    """An acknowledged record is in the log once the cluster is whole again."""
    NO_DUPLICATES = "no-duplicates"
    """A record is in the log once."""
    ORDER = "order"
    """A producer's records lie in a partition in the order in which they were sent."""
    ATOMICITY = "atomicity"
    """A `read_committed` consumer is shown all of a transaction or nothing, and nothing of one that was not committed."""
    AVAILABILITY = "availability"
    """The partition takes records again before the fault is healed."""
    NONE_MISSED = "none-missed"
    """A record that the consumer group has committed past was processed by one of its members."""
    NONE_REPEATED = "none-repeated"
    """A record is processed by the consumer group once."""


CONDITIONAL_GUARANTEES: Final = frozenset(
    {Guarantee.ATOMICITY, Guarantee.NONE_MISSED, Guarantee.NONE_REPEATED}
)
"""What is asked of some cells alone: of those with transactions, and of those with a consumer group."""


class ContractClause(Frozen):
    """One promise, made or not made to a cell."""

    guarantee: Guarantee
    guaranteed: bool
    reason: str
    """Promised: by what. Not promised: what breaks it by design, the mechanism in words."""
    source: str
    """The address of the KIP or of the documentation's page."""


@dataclass(frozen=True)
class Rule:
    """A line of the contract."""

    condition: str
    """`when` in words."""
    when: Callable[[Circumstances], bool]
    guaranteed: bool
    reason: str
    source: str
    figures: str = ""
    """What is added to `because` for a cell, with the cell's circumstances as `c`."""

    def commitment(self, guarantee: Guarantee, circumstances: Circumstances) -> ContractClause:
        """Return what the rule says to a cell."""
        figures = f" ({self.figures.format(c=circumstances)})" if self.figures else ""
        return ContractClause(
            guarantee=guarantee,
            guaranteed=self.guaranteed,
            reason=self.reason + figures,
            source=self.source,
        )


def guaranteed(
    condition: str,
    when: Callable[[Circumstances], bool],
    reason: str,
    source: str,
    figures: str = "",
) -> Rule:
    """Return a line that promises."""
    return Rule(condition, when, True, reason, source, figures)


def not_guaranteed(
    condition: str,
    when: Callable[[Circumstances], bool],
    reason: str,
    source: str,
    figures: str = "",
) -> Rule:
    """Return a line that does not, with the mechanism."""
    return Rule(condition, when, False, reason, source, figures)


# ---------- Where Kafka says what it promises: pages of its documentation, and improvement proposals.


DOCUMENTATION: Final = "https://kafka.apache.org/documentation/#"
"""Followed by an anchor of Kafka's own documentation."""
KIP: Final = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-"
"""Followed by the number and the title of a Kafka Improvement Proposal."""

ACKS: Final = f"{DOCUMENTATION}producerconfigs_acks"
MAX_IN_FLIGHT: Final = f"{DOCUMENTATION}producerconfigs_max.in.flight.requests.per.connection"
IDEMPOTENCE: Final = f"{DOCUMENTATION}producerconfigs_enable.idempotence"
CLEANUP: Final = f"{DOCUMENTATION}topicconfigs_cleanup.policy"
RETENTION: Final = f"{DOCUMENTATION}topicconfigs_retention.ms"
FLUSH: Final = f"{DOCUMENTATION}topicconfigs_flush.messages"
SESSION: Final = f"{DOCUMENTATION}brokerconfigs_broker.session.timeout.ms"
MIN_ISR: Final = f"{DOCUMENTATION}topicconfigs_min.insync.replicas"
LOG: Final = f"{DOCUMENTATION}log"
REPLICATION: Final = f"{DOCUMENTATION}replication"
ALL_DIE: Final = f"{DOCUMENTATION}design_uncleanleader"
SEMANTICS: Final = f"{DOCUMENTATION}semantics"
DELETING: Final = f"{KIP}516%3A+Topic+Identifiers"
KIP_98: Final = f"{KIP}98+-+Exactly+Once+Delivery+and+Transactional+Messaging"
KIP_890: Final = f"{KIP}890%3A+Transactions+Server-Side+Defense"
ISOLATION: Final = f"{DOCUMENTATION}consumerconfigs_isolation.level"
KIP_101: Final = f"{KIP}101+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation"
KIP_106: Final = f"{KIP}106+-+Change+Default+unclean.leader.election.enabled+from+True+to+False"
KIP_447: Final = f"{KIP}447%3A+Producer+scalability+for+exactly+once+semantics"
KIP_497: Final = f"{KIP}497%3A+Add+inter-broker+API+to+alter+ISR"
KIP_595: Final = f"{KIP}595%3A+A+Raft+Protocol+for+the+Metadata+Quorum"
KIP_631: Final = f"{KIP}631%3A+The+Quorum-based+Kafka+Controller"
ENSEMBLE: Final = (
    "https://zookeeper.apache.org/doc/r3.8.4/zookeeperAdmin.html#sc_zkMulitServerSetup"
)
"""How many of ZooKeeper's servers it takes; the anchor is misspelt there."""
