"""The live page of a cluster by hand: its nodes, its partitions, and what has changed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.pages.live.files import LOCK, PAGE, live_folder
from ackbench.experiments.pages.live.page import PageState, Sections, render, write_data, write_page
from ackbench.infra.kafka.spec import NodeStatus, PartitionState
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import Home

_FOLDER: Final = "cluster"
_MOST_CHANGES: Final = 40
"""Changes in the page; the newest."""
MOST_PARTITIONS: Final = 60
"""Partitions in the page."""


@dataclass(frozen=True)
class ClusterView:
    """A cluster at one moment."""

    nodes: tuple[tuple[int, str], ...]
    """Each with its state."""
    partitions: tuple[PartitionState, ...] | None
    """`None`: no broker answers."""

    @classmethod
    def of(
        cls, nodes: Sequence[NodeStatus], partitions: Sequence[PartitionState] | None
    ) -> ClusterView:
        """Return the view of what a cluster reports."""
        by_name = (
            None
            if partitions is None
            else tuple(sorted(partitions, key=lambda one: (one.topic, one.partition)))
        )
        return cls(tuple((one.node_id, one.state) for one in nodes), by_name)


def changes(before: ClusterView, after: ClusterView) -> Iterator[str]:
    """Yield what changed, in a sentence each: `orders-0: leader 2, was 1`."""
    states = dict(before.nodes)
    for node, state in after.nodes:
        if states.get(node, state) != state:
            yield f"node {node} is {state}, was {states[node]}"
    if after.partitions is None:
        if before.partitions is not None:
            yield "no broker answers for topics"
        return
    known = {(one.topic, one.partition): one for one in before.partitions or ()}
    for one in after.partitions:
        earlier = known.get((one.topic, one.partition))
        if before.partitions is not None and earlier is None and one.partition == 0:
            yield f"topic {one.topic} was created"
        if earlier and earlier.leader != one.leader:
            yield f"{_name(one)}: leader {_leader(one)}, was {_leader(earlier)}"
        if earlier and sorted(earlier.isr) != sorted(one.isr):
            yield f"{_name(one)}: in-sync replicas {_isr(one)}, were {_isr(earlier)}"


def _name(partition: PartitionState) -> str:
    return f"{partition.topic}-{partition.partition}"


def _leader(partition: PartitionState) -> str:
    return "none" if partition.leader is None else str(partition.leader)


def _isr(partition: PartitionState) -> str:
    return format_list([str(node) for node in sorted(partition.isr)]) or "none"


class HandPage:
    """Writes the page of one view after the other.

    Args:
        folder: of the page.
        bootstrap_servers: of the cluster.
    """

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.path = folder / PAGE
        self._servers = bootstrap_servers
        self._view: ClusterView | None = None
        self._changes: deque[tuple[str, str]] = deque(maxlen=_MOST_CHANGES)

    def show(self, view: ClusterView, *, over: bool = False) -> None:
        """Write the page of a cluster as it is now.

        Raises:
            OSError: the disk is full, or the folder is not writable.
        """
        at_ns = time.time_ns()
        news = list(changes(self._view, view)) if self._view else []
        clock = f"{datetime.fromtimestamp(at_ns / 1e9).astimezone():%H:%M:%S}"
        self._changes.extendleft((clock, text) for text in news)
        now = render(
            "live_cluster.html",
            servers=self._servers,
            view=view,
            partitions=(view.partitions or ())[:MOST_PARTITIONS],
            changes=tuple(self._changes),
            over=over,
        )
        said = "The cluster has ended." if over else "; ".join(news) or "A cluster by hand runs."
        state = PageState(Sections(now=now, trial="", ended=""), said, at_ns, over)
        if self._view is None or over:
            write_page(self.path.parent, state)
        else:
            write_data(self.path.parent, state)
        self._view = view


@contextmanager
def hand_page(home: Home, bootstrap_servers: str) -> Iterator[HandPage | None]:
    """Yield the home's page of a cluster by hand; `None`: another cluster of the home has it."""
    folder = live_folder(home) / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    lock = try_lock(folder / LOCK)
    if lock is None:
        yield None
        return
    with lock:
        yield HandPage(folder, bootstrap_servers)
