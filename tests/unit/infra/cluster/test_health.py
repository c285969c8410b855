"""What makes a cluster whole, and what must not be taken for it."""

from dataclasses import replace

import pytest

from infra.cluster.health import zookeeper_controller, first_unfenced_view, newest_controller, why_not_healthy
from infra.cluster.supervisor_protocol import NodeReport
from infra.kafka.spec import ControllerView, NodeState, NodeStatus, PartitionState
from infra.kafka.wire import BrokerView

QUORUM = ControllerView(leader=1, epoch=5)
FULL = PartitionState("t", 0, 1, (1, 2, 3), (3, 2, 1))
VIEW = BrokerView(frozenset({1, 2, 3}), (FULL,))
VIEWS: dict[int, BrokerView | None] = {1: VIEW, 2: VIEW, 3: VIEW}


def _reports(state: NodeState = "running", quiet_s: float = 10) -> list[NodeReport]:
    return [
        NodeReport(NodeStatus(number, state if number == 2 else "running", 1, 1, 1, 2, 3), quiet_s)
        for number in (1, 2, 3)
    ]


def test_a_cluster_is_whole_when_every_node_says_so() -> None:
    """The order of an ISR does not matter."""
    assert why_not_healthy(_reports(), QUORUM, VIEWS, least_unchanged_s=0.5) is None


def test_a_cluster_without_topics_can_be_whole() -> None:
    """There is nothing to be out of sync."""
    empty: dict[int, BrokerView | None] = dict.fromkeys(
        (1, 2, 3), BrokerView(frozenset({1, 2, 3}), ())
    )
    assert why_not_healthy(_reports(), QUORUM, empty, least_unchanged_s=0.5) is None


@pytest.mark.parametrize("state", ["paused", "stopped"])
def test_a_node_that_does_not_run_is_named(state: NodeState) -> None:
    """Whatever the others still believe of it."""
    assert why_not_healthy(_reports(state), QUORUM, VIEWS, least_unchanged_s=0.5) == f"node 2 is {state}"


def test_a_node_that_was_just_resumed_is_waited_for() -> None:
    """Its session may end before its next heartbeat comes."""
    assert (
        why_not_healthy(_reports(quiet_s=0.1), QUORUM, VIEWS, least_unchanged_s=0.5)
        == "node 1 has been running for only 0.1 s"
    )


def test_without_an_active_controller_nothing_is_whole() -> None:
    """What brokers say then is what was."""
    assert (
        why_not_healthy(_reports(), None, VIEWS, least_unchanged_s=0.5) == "no node is the active controller"
    )


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (None, "node 3 does not answer"),
        (replace(VIEW, brokers=frozenset({1, 2})), "node 3 reports the brokers [1, 2] of [1, 2, 3]"),
        (
            replace(VIEW, partitions=(replace(FULL, isr=(1, 3)),)),
            "node 3 reports t-0 with leader 1 and ISR [1, 3] of [1, 2, 3]",
        ),
        (
            replace(VIEW, partitions=(replace(FULL, leader=None),)),
            "node 3 reports t-0 with leader None and ISR [3, 2, 1] of [1, 2, 3]",
        ),
        (
            replace(VIEW, partitions=(replace(FULL, leader=2),)),
            "the nodes report different partitions or leaders",
        ),
        (replace(VIEW, partitions=()), "the nodes report different partitions or leaders"),
    ],
)
def test_one_node_that_sees_it_otherwise_is_enough(view: BrokerView | None, why: str) -> None:
    """A view that is behind differs in one of these."""
    assert why_not_healthy(_reports(), QUORUM, {**VIEWS, 3: view}, least_unchanged_s=0.5) == why


def test_a_broker_that_another_one_calls_fenced_is_not_believed() -> None:
    """It is cut off, and goes on answering with what was; it calls nobody fenced."""
    after = BrokerView(frozenset({2, 3}), (replace(FULL, leader=2),))
    assert first_unfenced_view({1: VIEW, 2: after, 3: after}) == after


def test_a_broker_that_does_not_know_itself_yet_has_no_say() -> None:
    """Just started, it has no metadata, and would call all others fenced."""
    assert first_unfenced_view({1: BrokerView(frozenset(), ()), 2: VIEW, 3: VIEW}) == VIEW


def test_where_nobody_else_answers_the_one_that_does_is_believed() -> None:
    """And nobody, where none does."""
    assert first_unfenced_view({1: VIEW}) == VIEW
    assert first_unfenced_view({}) is None


def _broker_says(controller: int | None) -> BrokerView:
    return replace(VIEW, controller=controller)


def test_under_zookeeper_a_broker_that_takes_itself_for_the_controller_is_it() -> None:
    """What the others say may be from before; its epoch nobody tells."""
    assert zookeeper_controller({1: _broker_says(3), 2: _broker_says(2), 3: None}) == ControllerView(2, None)


def test_of_two_that_take_themselves_for_the_controller_most_know_the_right_one() -> None:
    """One that was paused, or cut off, still believes it."""
    assert zookeeper_controller({1: _broker_says(1), 2: _broker_says(2), 3: _broker_says(2)}) == ControllerView(
        2, None
    )


def test_where_nobody_takes_itself_for_the_controller_there_is_none() -> None:
    """They name one that is gone."""
    assert zookeeper_controller({1: _broker_says(3), 2: _broker_says(3), 3: None}) is None


def test_of_several_active_controllers_the_newest_is_right() -> None:
    """One that was replaced without knowing says so with an older epoch."""
    assert newest_controller([ControllerView(1, 4), None, QUORUM]) == QUORUM
