"""The live page of a cluster by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import WIDTHS, Browser, browser
from support.golden_files import Says

from ackbench.experiments.pages.live.by_hand import ClusterView, HandPage, changes, hand_page
from ackbench.experiments.pages.live.files import DATA
from ackbench.infra.kafka.spec import PartitionState
from ackbench.infra.machine.home import Home

RUNNING = ((1, "running"), (2, "running"), (3, "running"))


def orders(leader: int | None, *isr: int, partition: int = 0) -> PartitionState:
    """Return a partition of three replicas."""
    return PartitionState("orders", partition, leader, (1, 2, 3), isr)


BEFORE = ClusterView(RUNNING, (orders(1, 1, 2, 3),))
KILLED = ClusterView(((1, "stopped"), *RUNNING[1:]), (orders(2, 2, 3),))


def test_each_change_is_a_sentence(says: Says) -> None:
    """Of nodes, leaders and in-sync replicas, with what was before."""
    says(list(changes(BEFORE, KILLED)))
    assert list(changes(KILLED, KILLED)) == []


def test_a_partition_may_have_no_leader_and_a_topic_may_be_new(says: Says) -> None:
    """The order of the in-sync replicas is no change."""
    alone = ClusterView(RUNNING, (orders(None),))

    says(list(changes(BEFORE, alone)))
    says(list(changes(ClusterView(RUNNING, ()), BEFORE)))
    assert list(changes(BEFORE, ClusterView(RUNNING, (orders(1, 3, 2, 1),)))) == []


def test_without_an_answer_nothing_is_said_of_partitions(says: Says) -> None:
    """Their state is then not known; nor is a topic new that was there before."""
    silent = ClusterView(((1, "paused"), *RUNNING[1:]), None)

    says(list(changes(BEFORE, silent)))
    says(list(changes(silent, BEFORE)))


def test_one_cluster_of_a_home_has_the_page(tmp_path: Path) -> None:
    """Two would write over each other."""
    home = Home(tmp_path)
    with hand_page(home, "localhost:1") as first, hand_page(home, "localhost:2") as second:
        assert first is not None
        assert second is None


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    """Return a browser."""
    with browser() as opened:
        yield opened


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_shows_the_newest_change_first_and_has_no_barriers(
    shown: Browser, tmp_path: Path, width: int
) -> None:
    """An open page loads what is written later; at the end it says so."""
    page = HandPage(tmp_path, "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094")
    page.show(BEFORE)
    page.show(KILLED)
    shown.open(page.path, width)

    assert "orders-0: in-sync replicas 2 and 3" in shown.text("#now li")
    assert "stopped" in shown.text("#now dl")
    assert shown.violations() == []
    assert shown.size()[0] <= shown.visible_width()

    page.show(ClusterView((), ()), over=True)
    assert "The cluster has ended." in (tmp_path / DATA).read_text()
