"""The permission that is missing, from the messages of clients that a cluster refused."""

import pytest

from ackbench.experiments.trial.clients.settings.permissions import missing_permission

TOPIC = "TOPIC_AUTHORIZATION_FAILED (Broker: Topic authorization failed)"
JAVA = "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        (f"cannot create topic ackbench-x-warm-up: {TOPIC}", "Create on topics `ackbench-*`"),
        (f"cannot delete topic ackbench-x: {TOPIC}", "Delete on topics `ackbench-*`"),
        (
            f"producer 0 exited early; a warm-up record was not delivered: {TOPIC}",
            "Write on topics",
        ),
        (f"producer 0 was refused: {JAVA}", "Write on topics `ackbench-*`"),
        (f"consumer 0 exited early; last error {TOPIC}", "Read on topics `ackbench-*`"),
        (f"consumer 0 exited early; its log ends with: {JAVA}", "Read on topics `ackbench-*`"),
        ("copier 1 exited early: GROUP_AUTHORIZATION_FAILED", "Read on groups `ackbench*`"),
        ("cannot delete g: GROUP_AUTHORIZATION_FAILED", "Delete on groups `ackbench*`"),
        (
            "no producer id within 30 s: TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "Write on transactional ids `ackbench*`",
        ),
    ],
)
def test_a_refusal_is_completed_with_operation_and_resource(text: str, needed: str) -> None:
    """Kafka names the resource only."""
    sentence = missing_permission(text)
    assert sentence is not None
    assert sentence.startswith(f"the principal needs {needed}")
    assert sentence.endswith("(docs/external-clusters.md#permissions)")


def test_another_error_names_no_permission() -> None:
    """It is shown as it is."""
    assert missing_permission("producer 0 exited early: _TIMED_OUT") is None
