"""Where Kafka says what it promises: pages of its documentation, and improvement proposals."""

from __future__ import annotations

from typing import Final

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
KIP_500: Final = f"{KIP}500%3A+Replace+ZooKeeper+with+a+Self-Managed+Metadata+Quorum"
KIP_595: Final = f"{KIP}595%3A+A+Raft+Protocol+for+the+Metadata+Quorum"
KIP_631: Final = f"{KIP}631%3A+The+Quorum-based+Kafka+Controller"
