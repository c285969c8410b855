"""When a cluster is healthy, and which of several contradicting reports is right."""

from dataclasses import replace

import pytest
from support.golden_files import Says

from ackbench.infra.cluster.health import (
    first_unfenced_view,
    newest_controller,
    why_not_healthy,
    zookeeper_controller,
)
from ackbench.infra.cluster.supervisor_protocol import NodeReport
from ackbench.infra.kafka.spec import ControllerView, NodeState, NodeStatus, PartitionState
from ackbench.infra.kafka.wire import BrokerView

QUORUM = ControllerView(leader=1, epoch=5)
FULL = PartitionState("t", 0, 1, (1, 2, 3), (3, 2, 1))
VIEW = BrokerView(frozenset({1, 2, 3}), (FULL,))
VIEWS: dict[int, BrokerView | None] = {1: VIEW, 2: VIEW, 3: VIEW}


def _reports(state: NodeState = "running", unchanged_s: float = 10) -> list[NodeReport]:
    return [
        NodeReport(
            NodeStatus(number, state if number == 2 else "running", 1, 1, 1, 2, 3), unchanged_s
        )
        for number in (1, 2, 3)
    ]


def _reason(
    reports: list[NodeReport], quorum: ControllerView | None, views: dict[int, BrokerView | None]
) -> str | None:
    return why_not_healthy(reports, quorum, views, least_unchanged_s=0.5)


def test_a_cluster_is_healthy_when_every_node_reports_it() -> None:
    """The order of an ISR does not matter."""
    assert _reason(_reports(), QUORUM, VIEWS) is None


def test_a_cluster_without_topics_can_be_healthy() -> None:
    """No partition can lack a replica in its ISR."""
    empty: dict[int, BrokerView | None] = dict.fromkeys(
        (1, 2, 3), BrokerView(frozenset({1, 2, 3}), ())
    )
    assert _reason(_reports(), QUORUM, empty) is None


@pytest.mark.parametrize("state", ["paused", "stopped"])
def test_a_node_that_does_not_run_is_named(state: NodeState) -> None:
    """Even if the other nodes still report it as registered."""
    assert _reason(_reports(state), QUORUM, VIEWS) == f"node 2 is {state}"


def test_a_node_that_was_just_resumed_is_not_healthy_yet(says: Says) -> None:
    """Its session may expire before its next heartbeat arrives."""
    says(_reason(_reports(unchanged_s=0.1), QUORUM, VIEWS))


def test_without_an_active_controller_no_cluster_is_healthy(says: Says) -> None:
    """The brokers report outdated metadata then."""
    says(_reason(_reports(), None, VIEWS))


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (None, "node 3 does not answer"),
        (
            replace(VIEW, brokers=frozenset({1, 2})),
            "node 3 reports the brokers [1, 2] of [1, 2, 3]",
        ),
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
def test_one_node_with_a_different_view_makes_a_cluster_unhealthy(
    view: BrokerView | None, why: str
) -> None:
    """An outdated view differs in one of these."""
    assert _reason(_reports(), QUORUM, {**VIEWS, 3: view}) == why


def test_a_broker_that_another_broker_reports_as_fenced_is_not_believed() -> None:
    """It is cut off and keeps answering from old metadata, in which no broker is fenced."""
    after = BrokerView(frozenset({2, 3}), (replace(FULL, leader=2),))
    assert first_unfenced_view({1: VIEW, 2: after, 3: after}) == after


def test_a_broker_that_is_not_in_its_own_view_is_not_counted() -> None:
    """It has just started, has no metadata yet, and would report all other brokers as fenced."""
    assert first_unfenced_view({1: BrokerView(frozenset(), ()), 2: VIEW, 3: VIEW}) == VIEW


def test_the_only_broker_that_answers_is_believed() -> None:
    """Without any answer there is no view."""
    assert first_unfenced_view({1: VIEW}) == VIEW
    assert first_unfenced_view({}) is None


def _view_naming(controller: int | None) -> BrokerView:
    return replace(VIEW, controller=controller)


def test_under_zookeeper_the_controller_is_the_broker_that_names_itself() -> None:
    """The other brokers' views may be outdated; the controller's epoch is not reported."""
    views = {1: _view_naming(3), 2: _view_naming(2), 3: None}
    assert zookeeper_controller(views) == ControllerView(2, None)


def test_of_two_brokers_that_name_themselves_the_one_with_more_votes_is_the_controller() -> None:
    """A broker that was paused or cut off still names itself."""
    views = {1: _view_naming(1), 2: _view_naming(2), 3: _view_naming(2)}
    assert zookeeper_controller(views) == ControllerView(2, None)


def test_without_a_broker_that_names_itself_there_is_no_controller() -> None:
    """They name one that is down."""
    views = {1: _view_naming(3), 2: _view_naming(3), 3: None}
    assert zookeeper_controller(views) is None


def test_of_several_active_controllers_the_one_with_the_highest_epoch_is_right() -> None:
    """A controller that was replaced without noticing reports an older epoch."""
    assert newest_controller([ControllerView(1, 4), None, QUORUM]) == QUORUM
