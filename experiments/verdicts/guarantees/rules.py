"""The rules of a guarantee: of those that match a cell the first decides. And their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances


@dataclass(frozen=True)
class Rule:
    """One line of the contract; a clause is the rule applied to one cell."""

    guaranteed: bool | None
    """`None`: the contract does not know enough of the cell."""
    condition: str
    """`when` as text."""
    when: Callable[[Circumstances], bool]
    reason: str
    """The mechanism that keeps the guarantee or breaks it, or the fact that is unknown."""
    source: str
    """A URL."""
    figures: str = ""
    """A format string that a clause appends to `reason`; `c` is the cell's circumstances."""

    def reason_for(self, circumstances: Circumstances) -> str:
        """Return the reason with the figures of one cell."""
        figures = f" ({self.figures.format(c=circumstances)})" if self.figures else ""
        return self.reason + figures


def first_rule(rules: Iterable[Rule], circumstances: Circumstances) -> Rule:
    """Return the first rule whose condition holds; the last rule of every guarantee always does."""
    return next(rule for rule in rules if rule.when(circumstances))


guaranteed: Final = partial(Rule, True)
not_guaranteed: Final = partial(Rule, False)
unknown: Final = partial(Rule, None)
"""The condition of an unknown rule is that a fact is unknown, as Kafka's version may be of an
external cluster."""


# Sources: anchors of the official documentation, and Kafka Improvement Proposals.

DOCUMENTATION: Final = "https://kafka.apache.org/documentation/#"
"""Followed by an anchor of Kafka's documentation."""
KIP: Final = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-"
"""Followed by the number and the title of a Kafka Improvement Proposal."""

ACKS: Final = f"{DOCUMENTATION}producerconfigs_acks"
MAX_IN_FLIGHT: Final = f"{DOCUMENTATION}producerconfigs_max.in.flight.requests.per.connection"
IDEMPOTENCE: Final = f"{DOCUMENTATION}producerconfigs_enable.idempotence"
COMPACTION: Final = f"{DOCUMENTATION}compaction"
CLEANUP: Final = f"{DOCUMENTATION}topicconfigs_cleanup.policy"
RETENTION: Final = f"{DOCUMENTATION}topicconfigs_retention.ms"
FLUSH: Final = f"{DOCUMENTATION}topicconfigs_flush.messages"
SESSION_TIMEOUT: Final = f"{DOCUMENTATION}brokerconfigs_broker.session.timeout.ms"
MIN_ISR: Final = f"{DOCUMENTATION}topicconfigs_min.insync.replicas"
ISOLATION: Final = f"{DOCUMENTATION}consumerconfigs_isolation.level"
LOG: Final = f"{DOCUMENTATION}log"
REPLICATION: Final = f"{DOCUMENTATION}replication"
UNCLEAN_ELECTION: Final = f"{DOCUMENTATION}design_uncleanleader"
"""The section "Unclean leader election: What if they all die?"."""
SEMANTICS: Final = f"{DOCUMENTATION}semantics"
KIP_98: Final = f"{KIP}98+-+Exactly+Once+Delivery+and+Transactional+Messaging"
KIP_101: Final = (
    f"{KIP}101+-+Alter+Replication+Protocol+to+use+Leader+Epoch"
    "+rather+than+High+Watermark+for+Truncation"
)
KIP_106: Final = f"{KIP}106+-+Change+Default+unclean.leader.election.enabled+from+True+to+False"
KIP_320: Final = f"{KIP}320%3A+Allow+fetchers+to+detect+and+handle+log+truncation"
KIP_447: Final = f"{KIP}447%3A+Producer+scalability+for+exactly+once+semantics"
KIP_497: Final = f"{KIP}497%3A+Add+inter-broker+API+to+alter+ISR"
JIRA: Final = "https://issues.apache.org/jira/browse/KAFKA-"
"""Followed by the number of an issue of Kafka."""
KAFKA_15583: Final = f"{JIRA}15583"
"""The high watermark advances only while the ISR has min.insync.replicas, from Kafka 3.7 on."""
KIP_516: Final = f"{KIP}516%3A+Topic+Identifiers"
KIP_595: Final = f"{KIP}595%3A+A+Raft+Protocol+for+the+Metadata+Quorum"
KIP_631: Final = f"{KIP}631%3A+The+Quorum-based+Kafka+Controller"
KIP_966: Final = f"{KIP}966%3A+Eligible+Leader+Replicas"
KIP_1327: Final = (
    f"{KIP}1327%3A+Prevent+Hot+Data+Loss+on+Partition+Expansion+for+Reset+Offset+Policy"
)
KIP_890: Final = f"{KIP}890%3A+Transactions+Server-Side+Defense"
PRODUCER_ID_EXPIRATION: Final = f"{DOCUMENTATION}brokerconfigs_producer.id.expiration.ms"
LIBRDKAFKA: Final = "https://github.com/confluentinc/librdkafka/blob/v2.15.0/src/"
"""Followed by a source file of librdkafka and a line of the function that decides."""
LIBRDKAFKA_GUARANTEES: Final = (
    "https://github.com/confluentinc/librdkafka/blob/v2.15.0/INTRODUCTION.md#guarantees"
)
"""What librdkafka documents of its idempotent producer, with "Message timeout considerations"."""
LIBRDKAFKA_AUTO_COMMIT: Final = (
    "https://github.com/confluentinc/librdkafka/blob/v2.15.0/CONFIGURATION.md"
)
"""`enable.auto.offset.store`: the offset of the last message that was handed to the application is
stored; `enable.auto.commit`: what is stored is committed each `auto.commit.interval.ms`."""
KAFKA_CONSUMER: Final = (
    "https://kafka.apache.org/43/javadoc/org/apache/kafka/clients/consumer/KafkaConsumer.html"
)
"""On positions: a consumer's "automatically advances every time the consumer receives messages in a
call to poll(Duration)"."""
JAVA_AUTO_COMMIT: Final = KAFKA_CONSUMER
"""On automatic commits: they are at least once if the application consumes "all data returned from
each call to poll(Duration) before any subsequent calls, or before closing the consumer"."""
LIBRDKAFKA_COMMIT: Final = f"{LIBRDKAFKA}rdkafka.h"
"""`rd_kafka_commit`: "If `async` is false this operation will block until the broker offset commit
is done, returning the resulting success or error code"; otherwise the application goes on.
`rd_kafka_conf_set_rebalance_cb`: before partitions are revoked the application commits, `sync`."""
LIBRDKAFKA_PRODUCE_ERROR: Final = f"{LIBRDKAFKA}rdkafka_request.c#L4447"
"""`rd_kafka_handle_Produce_error`: after NOT_LEADER_OR_FOLLOWER it moves the batch back to the
partition's queue by `rd_kafka_toppar_retry_msgq` with `incr_retry=0`."""
KAFKA_17754: Final = f"{JIRA}17754"
"""A delayed EndTxn may decide a later transaction: aborted reads, lost writes."""
ZOOKEEPER_GUIDE: Final = (
    "https://zookeeper.apache.org/doc/r3.8.4/zookeeperAdmin.html#sc_zkMulitServerSetup"
)
"""Why ZooKeeper needs a majority of its servers. The anchor is misspelt in the original."""
