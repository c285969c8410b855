"""A broker's own metrics, as Kafka's JmxTool prints them."""

import pytest

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.metrics import parse_counts

PRINTED = """Trying to connect to JMX url: service:jmx:rmi://127.0.0.1/stub/rO0ABXNyAC5q
time=1795291544029
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=trial-000-abcdef:Count=1204
kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=trial-000-abcdef:Count=12
kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec,topic=trial-000-abcdef:Count=99
"""


def test_counts_are_read_and_a_missing_metric_is_zero() -> None:
    """A broker creates a metric when it first needs it."""
    assert parse_counts(PRINTED) == {
        "BytesInPerSec": 1204,
        "BytesOutPerSec": 0,
        "MessagesInPerSec": 12,
    }
    assert set(
        parse_counts(
            "No matched attributes for the queried objects "
            "[kafka.server:type=BrokerTopicMetrics,topic=x,*]."
        ).values()
    ) == {0}


def test_output_without_counts_is_an_error_and_not_zero() -> None:
    """The error quotes the output."""
    with pytest.raises(HarnessError, match="JmxTool printed no counts: Trying to connect"):
        parse_counts("Trying to connect to JMX url: x")
