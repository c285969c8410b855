"""read-availability: consumers receive what is acknowledged, before the heal.

Availability for writers and for readers are two promises. A leader returns a record once the entire
ISR has it, and only while the ISR has min.insync.replicas (the high watermark, KAFKA-15583), so it
may acknowledge records with acks=1 and hide them until other replicas are back. Consumers therefore
need what a write with acks=all needs.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY, has_no_outage
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.rules import (
    ACKS,
    ISOLATION,
    KAFKA_15583,
    KIP_320,
    REPLICATION,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import YesNo


def _may_be_unavailable(circumstances: Circumstances) -> bool:
    """Return whether a write with acks=all may not be possible before the heal."""
    return not AVAILABILITY.rule_for(circumstances.with_acks_all()).guaranteed


CONSUMER_FAILOVER_MS: Final = 12_000
"""How much longer than a producer a consumer may need to receive records from a new leader.

librdkafka looks for leaders of brokers that are down once a second and may skip one response, and
connects to a broker again after up to reconnect.backoff.max.ms (10 s). Then it validates its
offset (KIP-320). Measured: 2.3 s after it had learned of the leader, when producers had been served
for 2.7 s.
"""

_RULES: Final = (
    not_guaranteed(
        "no fault, or a single fault that affects only consumers or only stored bytes",
        has_no_outage,
        "no node fails, so there is no outage that could end before a heal",
        REPLICATION,
    ),
    not_guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "no acknowledgement tells which records a consumer should have received",
        ACKS,
    ),
    not_guaranteed(
        "copiers",
        lambda c: c.copy_workload,
        "the concurrent consumer reads the copiers' output, not what the producers write",
        REPLICATION,
    ),
    not_guaranteed(
        "transactions",
        lambda c: c.transactional,
        "read_committed consumers wait for the end of every open transaction, up to "
        "transaction.timeout.ms",
        ISOLATION,
    ),
    not_guaranteed(
        "availability would not be guaranteed with acks=all",
        _may_be_unavailable,
        "a leader returns records below the high watermark, which advances only while "
        "min.insync.replicas are in sync, and once all of these have the record: consumers need "
        "what a write with acks=all needs, whatever acks is",
        KAFKA_15583,
        "{c.max_dead_replicas} of {c.replication_factor} replicas dead; min.insync.replicas "
        "{c.min_insync_replicas}",
    ),
    not_guaranteed(
        "a node that may lead is paused or isolated",
        lambda c: (
            (c.fault.nodes_paused > 0 or c.fault.nodes_isolated > 0) and c.fault.may_affect_leader
        ),
        "the consumer's connection to it stays open, so the consumer learns of another leader only "
        "when its own request times out (socket.timeout.ms; Java: request.timeout.ms)",
        REPLICATION,
    ),
    not_guaranteed(
        "the heal may come before the consumer's failover",
        lambda c: (
            c.fault.may_affect_leader
            and c.fault.heals_after_ms <= c.failover_ms + CONSUMER_FAILOVER_MS
        ),
        "the fault may be healed before the consumer has learned of the new leader, connected to "
        "it, and validated its offset there",
        KIP_320,
        "healed after {c.fault.heals_after_ms:g} ms; a producer's failover takes up to "
        "{c.failover_ms:g} ms, a consumer's 12,000 ms longer",
    ),
    guaranteed(
        "anything else",
        lambda _c: True,
        "enough replicas are alive for the high watermark to advance after a short failover, and "
        "the fault lasts longer than that",
        KAFKA_15583,
        "failover takes up to {c.failover_ms:g} ms, the heal comes after "
        "{c.fault.heals_after_ms:g} ms",
    ),
)

READ_AVAILABILITY: Final = Guarantee(
    name="read-availability",
    text="a consumer receives what the partition acknowledges before the fault is healed",
    rules=_RULES,
    violated_by=YesNo("readable_before_heal"),
    words=Words(
        head="reads",
        legend="read",
        matrix_head="read outage",
        observed="acknowledged records could not be read until the heal",
        violated="consumers did not receive acknowledged records until the fault was healed",
        remedy="cells with replication.factor=1 under the same fault",
    ),
    answer=Answer(
        of=lambda trial: trial.recovered_before_heal is True,  # else there was nothing to read
        never="delivered what was acknowledged before the fault was healed",
        worst=lambda trial: (
            "delivered nothing of what was acknowledged until the fault was healed, for up to "
            f"{(trial.consumer_unavailable_ms or 0) / 1000:,.1f} s"
        ),
    ),
    amount="consumer_unavailable_ms",
)
