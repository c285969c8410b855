"""Disturbances of a trial: processes that exited although neither it nor its fault asked.

Such a trial is evidence neither for nor against Kafka, whatever its ledger shows. The supervisor
keeps the exits of nodes and relays, a client's exit is known to its parent, and the metadata poller
notes its own end and, of an external cluster, each broker that left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ackbench.experiments.trial.events.clock import epoch_ns
from ackbench.experiments.trial.events.journal import (
    BROKER_LEFT,
    CLIENT_EXITED,
    EXITED,
    FAULT_EXITED,
    Event,
    Journal,
)
from ackbench.experiments.trial.faults.core.exits import ExpectedExits
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.exits import ProcessExit, is_kill


@dataclass
class Disturbances:
    """The exits of one trial, as the journal has them."""

    cluster: Cluster
    journal: Journal
    expected: ExpectedExits = field(default_factory=ExpectedExits)
    """The exits that the trial's faults allow."""
    since_s: float = field(default_factory=time.monotonic)
    """Earlier exits are those of earlier trials, seconds of CLOCK_MONOTONIC."""
    _noted: set[tuple[str, int]] = field(default_factory=set)

    def note(self) -> None:
        """Write the exits of nodes and relays to the journal that are not in it yet.

        Raises:
            SupervisorError: the supervisor cannot be reached.
        """
        for one in self.cluster.unexpected_exits():
            if one.at_s >= self.since_s and (one.process, one.number) not in self._noted:
                self._noted.add((one.process, one.number))
                kind = FAULT_EXITED if self._is_expected(one) else EXITED
                self.journal.note(kind, str(one), node=one.node_id, at_ns=epoch_ns(one.at_s))

    def restart_nodes(self) -> None:
        """Start the nodes that have exited by themselves, so that the ledger can be completed.

        Raises:
            SupervisorError: a node does not start, or the supervisor cannot be reached.
        """
        self.note()
        exited = {event.node for event in self.journal.events(EXITED)}
        for node in self.cluster.status() if exited else ():
            if node.node_id in exited and node.state == "stopped":
                self.cluster.start(node.node_id)
                self.journal.note("fault_restart", "it had exited by itself", node=node.node_id)

    @contextmanager
    def of_clients(self, unexpected_exits: Callable[[], Sequence[str]]) -> Iterator[None]:
        """Note which clients have exited if the context ends with an error.

        The clients themselves end with an outer context.
        """
        try:
            yield
        except Exception:
            for sentence in unexpected_exits():
                self.journal.note(CLIENT_EXITED, sentence)
            raise

    def sentences(self) -> tuple[str, ...]:
        """Return the disturbances so far, by time.

        `node 3 exited by SIGKILL 4.1 s into the load, which the fault did not ask for`.
        """
        asker = "fault" if self.journal.events("fault_begin") else "trial"
        return tuple(
            f"{event.detail}{self._when(event)}, which the {asker} did not ask for"
            for event in self._events()
        )

    def reasons_of(self, error: Exception) -> tuple[str, ...]:
        """Return the disturbances of a trial that failed, without those that its error names.

        That the supervisor cannot be reached is one: all nodes end with it.
        """
        text = str(error)
        try:
            self.note()
        except HarnessError as unreachable:
            return () if str(unreachable) in text else (str(unreachable),)
        named = {event.detail for event in self._events() if _cause(event) in text}
        return tuple(
            sentence
            for event, sentence in zip(self._events(), self.sentences(), strict=True)
            if event.detail not in named
        )

    def _events(self) -> tuple[Event, ...]:
        return tuple(
            event
            for event in self.journal.events(EXITED, CLIENT_EXITED, BROKER_LEFT)
            if event.kind != BROKER_LEFT or not self._may_leave(event)
        )

    def _when(self, event: Event) -> str:
        """Return when it happened; empty for a client, whose exit is noted later."""
        begins = self.journal.events("load_begin")
        if event.kind == CLIENT_EXITED:
            return ""
        if not begins or event.at_ns < begins[0].at_ns:
            return " before the load"
        return f" {(event.at_ns - begins[0].at_ns) / 1e9:.1f} s into the load"

    def _is_expected(self, one: ProcessExit) -> bool:
        """Return whether a fault's effect has ended the node; it does not kill it by a signal."""
        return (
            one.node_id is not None
            and (one.status is None or not is_kill(one.status))
            and self.expected.covers(one.node_id, epoch_ns(one.at_s))
        )

    def _may_leave(self, event: Event) -> bool:
        return event.node is not None and self.expected.covers(event.node, event.at_ns)


def _cause(event: Event) -> str:
    """Return what an error says that names the exit itself: `node 3 exited`."""
    return f"{event.detail.partition(' exited')[0]} exited"
