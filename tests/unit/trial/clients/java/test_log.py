"""What Java's client says of its membership, in lines of Kafka 4.3.1's log."""

from __future__ import annotations

import pytest

from ackbench.experiments.trial.clients.java.log import was_removed

INTERNALS = "org.apache.kafka.clients.consumer.internals"
AT_MS = 1_795_833_312_996
"""2026-11-28T02:35:12.996Z"""
LOST = (
    "[2026-11-28T02:35:12,996Z] INFO [Consumer clientId=c, groupId=g] Giving away all assigned "
    "partitions as lost since generation/memberID has been reset,indicating that consumer is in "
    f"old state or no longer part of the group ({INTERNALS}.ConsumerCoordinator)"
)
UNKNOWN = (
    "[2026-11-28T02:35:12,996Z] ERROR [Consumer clientId=c, groupId=g] "
    "ConsumerGroupHeartbeatRequest failed because of UNKNOWN_MEMBER_ID: ClientResponse("
    f"receivedTimeMs=1795833312804) ({INTERNALS}.ConsumerHeartbeatRequestManager)"
)
LEAVES = (
    "[2026-11-28T02:35:12,996Z] INFO [Consumer clientId=c, groupId=g] Revoke previously assigned "
    f"partitions [t-0] ({INTERNALS}.ConsumerRebalanceListenerInvoker)"
)


@pytest.mark.parametrize("line", [LOST, UNKNOWN], ids=["classic", "kip-848"])
def test_a_member_that_was_removed_says_so(line: str) -> None:
    """With the classic protocol before it joins again, with KIP-848 of a heartbeat."""
    assert was_removed(f"{LEAVES}\n{line}\n", AT_MS)
    assert was_removed(line, AT_MS - 1000)
    assert not was_removed(line, AT_MS + 1000)  # it has got partitions since


@pytest.mark.parametrize("text", ["", LEAVES, LOST.removeprefix("["), "\tat java.lang.Thread"])
def test_other_lines_say_nothing_of_a_removal(text: str) -> None:
    """Partitions that it gives up as it should are not lost."""
    assert not was_removed(text, 0)
