"""Events of the broker logs of other versions: Kafka 3.9.2 with ZooKeeper and without, 4.0.2."""

import pytest

from ackbench.infra.kafka.logs import BrokerLogEvent, read_broker_log

TOPIC = "t"
ZOOKEEPER_EXPIRED = (
    "[2026-11-21T15:39:40,502Z] INFO [Controller id=1] Broker failure callback for 3 "
    "(kafka.controller.KafkaController)"
)
ZOOKEEPER_REGISTERED = (
    "[2026-11-21T15:39:46,422Z] INFO [Controller id=1] New broker startup callback for 3 "
    "(kafka.controller.KafkaController)"
)
ZOOKEEPER_LEADS = (
    "[2026-11-21T15:39:00,613Z] INFO [Broker id=1] Leader t-1 with topic id "
    "Some(YgFqfO_TTBu3qM5yc5ah6Q) starts at leader epoch 1 from offset 515 with "
    "partition epoch 1, high watermark 515, ISR [1,3], adding replicas [] and removing replicas "
    "[] . Previous leader Some(1) and previous leader epoch was 0. "
    "(state.change.logger)"
)
ZOOKEEPER_ISR = (
    "[2026-11-21T15:39:08,322Z] INFO [Partition t-1 broker=1] ISR updated to 1,3,2  and version "
    "updated to 2 (kafka.cluster.Partition)"
)
FENCED_4_0 = (
    "[2026-11-21T15:40:43,188Z] INFO [QuorumController id=4] Fencing broker 1 at epoch 10 because "
    "its session has timed out. "
    "(org.apache.kafka.controller.ReplicationControlManager)"
)
TRUNCATED_3_9 = (
    "[2026-11-21T16:00:49,708Z] INFO [UnifiedLog partition=t-0, dir=/c/nodes/2/data] Truncating "
    "to offset 1012 (kafka.log.UnifiedLog)"
)


def facts(line: str) -> tuple[str, int | None, int | None, int | None, int | None]:
    """Return the only event of a line, without its time and text."""
    (event,) = read_broker_log(line + "\n", 1, TOPIC)
    return event.kind, event.node, event.partition, event.leader_epoch, event.offset


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (ZOOKEEPER_EXPIRED, ("fenced", 3, None, None, None)),
        (ZOOKEEPER_REGISTERED, ("unfenced", 3, None, None, None)),
        (ZOOKEEPER_LEADS, ("became_leader", 1, 1, 1, 515)),
        (ZOOKEEPER_ISR, ("isr_changed", 1, 1, None, None)),
        (FENCED_4_0, ("fenced", 1, None, None, None)),
        (TRUNCATED_3_9, ("truncated", 1, 0, None, 1012)),
    ],
)
def test_each_line_becomes_an_event_with_its_own_values(
    line: str, expected: tuple[str, int, int | None, int | None, int | None]
) -> None:
    """As in the latest version."""
    assert facts(line) == expected


def test_a_line_about_several_brokers_is_one_event_per_broker() -> None:
    """Under ZooKeeper their sessions can expire at the same tick."""
    events: tuple[BrokerLogEvent, ...] = read_broker_log(
        ZOOKEEPER_EXPIRED.replace("for 3", "for 2,3"), 1, TOPIC
    )
    assert [(event.kind, event.node) for event in events] == [("fenced", 2), ("fenced", 3)]
