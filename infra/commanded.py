"""What is done to a cluster's nodes and their network: each is a request to its supervisor, which alone has its hands on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra.cluster_spec import NodeStatus
from infra.errors import SupervisorError
from infra.impairment import Caught, Impairment
from infra.protocol import NodeReport, Request, Verb, ask


class Commanded:
    """The part of `infra.cluster.Cluster` that changes something. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Know the cluster's folder, where its supervisor's socket lies."""
        self._folder = folder

    def status(self) -> tuple[NodeStatus, ...]:
        """Each node's state as the supervisor knows it.

        Raises:
            SupervisorError: it cannot be reached.
        """
        return tuple(report.status for report in self.reports())

    def reports(self) -> tuple[NodeReport, ...]:
        """Each node's state, and how it came to be so.

        Raises:
            SupervisorError: it cannot be reached.
        """
        return ask(self._folder, Request("status")).nodes

    def kill(self, node_id: int) -> NodeStatus:
        """SIGKILL; returns, once the process is gone, what it was.

        Raises:
            SupervisorError: it does not run.
        """
        return self._told("kill", node_id)

    def pause(self, node_id: int) -> None:
        """SIGSTOP; returns once every thread of it stands.

        Raises:
            SupervisorError: it does not run.
        """
        self._told("pause", node_id)

    def resume(self, node_id: int) -> None:
        """SIGCONT; a node that is not paused is left as it is."""
        self._told("resume", node_id)

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """SIGTERM and wait for a clean end; a node that is stopped is left as it is.

        Raises:
            WaitTimeout: it goes on.
        """
        self._told("stop", node_id, timeout_s)

    def start(self, node_id: int) -> NodeStatus:
        """Start a stopped node; returns when the process runs (it need not be registered yet). One that runs is left as it is."""
        return self._told("start", node_id)

    def restart(self, node_id: int) -> NodeStatus:
        """Stop cleanly, then start."""
        self.stop(node_id)
        return self.start(node_id)

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Begin to treat the nodes' traffic so.

        Raises:
            SupervisorError: the cluster's network cannot, or the name is taken.
        """
        ask(self._folder, Request("impair", name=name, impairments=tuple(impairments)))

    def caught(self, name: str) -> tuple[Caught, ...]:
        """What the impairments of that name have met with so far.

        Raises:
            SupervisorError: there are none of that name.
        """
        return ask(self._folder, Request("caught", name=name)).caught

    def impaired(self) -> tuple[str, ...]:
        """The names of what is done to the network now.

        Raises:
            SupervisorError: it cannot be reached.
        """
        return ask(self._folder, Request("status")).impaired

    def mend(self, name: str) -> tuple[Caught, ...]:
        """Let the traffic through again; return what was met with in all. A second time finds nothing to do.

        Raises:
            SupervisorError: the kernel refused.
        """
        return ask(self._folder, Request("mend", name=name)).caught

    def _told(self, verb: Verb, node_id: int, timeout_s: float = 30.0) -> NodeStatus:
        told = ask(self._folder, Request(verb, node_id, timeout_s)).node
        if told is None:
            raise SupervisorError(f"the supervisor did not say what became of node {node_id}")
        return told
