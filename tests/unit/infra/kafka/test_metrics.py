"""What a broker has counted itself, as Kafka's own JmxTool prints it."""

import pytest

from infra.errors import HarnessError
from infra.kafka.metrics import parse_counts

PRINTED = """Trying to connect to JMX url: service:jmx:rmi://127.0.0.1/stub/rO0ABXNyAC5q
time=1795291544029
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=trial-000-abcdef:Count=1204
kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=trial-000-abcdef:Count=12
kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec,topic=trial-000-abcdef:Count=99
"""


def test_what_was_counted_is_read_and_what_never_had_to_be_counted_is_none() -> None:
    """A broker makes a counter when it first needs it."""
    assert parse_counts(PRINTED) == {
        "BytesInPerSec": 1204,
        "BytesOutPerSec": 0,
        "MessagesInPerSec": 12,
    }
    assert set(
        parse_counts(
            "No matched attributes for the queried objects [kafka.server:type=BrokerTopicMetrics,topic=x,*]."
        ).values()
    ) == {0}


def test_a_tool_that_tells_nothing_is_no_zero() -> None:
    """Its last words are told."""
    with pytest.raises(HarnessError, match="JmxTool told no counts: Trying to connect"):
        parse_counts("Trying to connect to JMX url: x")
