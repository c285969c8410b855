"""Whom the lookout believes: brokers and controllers are small servers here that say what they are told to."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from infra.cluster.metadata_poller import LocalMetadataPoller
from infra.kafka import wire
from infra.kafka.spec import ControllerView, MemberRole, NodeStatus, PartitionState
from infra.kafka.wire import BrokerView

TOPIC = "looked-at"


class Speaker(socketserver.ThreadingTCPServer):
    """A listener whose every answer is its own name."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, name: str) -> None:
        self.name = name.encode()
        super().__init__(("127.0.0.1", 0), _Answering)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Answering(socketserver.StreamRequestHandler):
    server: Speaker

    def handle(self) -> None:
        while head := self.rfile.read(4):
            self.rfile.read(struct.unpack(">i", head)[0])
            self.wfile.write(struct.pack(">i", len(self.server.name)) + self.server.name)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each listener means when it answers, by its name: changed by the test as the cluster changes."""
    meant: dict[str, Any] = {}
    monkeypatch.setattr(wire, "read_metadata", lambda frame: meant[frame.decode()])
    monkeypatch.setattr(wire, "read_quorum", lambda frame: meant[frame.decode()])
    return meant


@contextmanager
def looking_at(roles: dict[int, MemberRole]) -> Iterator[LocalMetadataPoller]:
    """A lookout at a cluster of such members; node 1's listeners are called `broker 1` and `controller 1`."""
    with ExitStack() as stack:

        def listen(name: str) -> int:
            speaker = stack.enter_context(Speaker(name))
            threading.Thread(
                target=speaker.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
            ).start()
            stack.callback(speaker.shutdown)
            return speaker.port

        nodes = [
            NodeStatus(
                n,
                "running",
                None,
                None,
                1,
                listen(f"broker {n}"),
                listen(f"controller {n}"),
                role=role,
            )
            for n, role in roles.items()
        ]
        yield stack.enter_context(closing(LocalMetadataPoller(nodes, TOPIC)))


def view(leader: int, *brokers: int) -> BrokerView:
    """Who leads, and who is not fenced."""
    return BrokerView(frozenset(brokers), (PartitionState(TOPIC, 0, leader, (1, 2, 3), brokers),))


def eventually_sees(metadata_poll: LocalMetadataPoller, seen: Callable[[], bool]) -> bool:
    """Whether something is seen in the next few looks."""
    return any(seen() for _ in range(20) if (metadata_poll.controller(), True))


def leader(metadata_poll: LocalMetadataPoller) -> int | None:
    """Who leads, as it sees it."""
    sighting = metadata_poll.partitions()
    return sighting.partitions[0].leader if sighting else None


def test_it_follows_the_active_controller_away_from_one_that_was_cut_off(
    says: dict[str, Any],
) -> None:
    """The old one goes on answering with what was, and takes itself for active in an epoch that is over."""
    for node in (1, 2, 3):
        says |= {f"broker {node}": view(1, 1, 2, 3), f"controller {node}": None}
    says["controller 1"] = ControllerView(1, 5)
    with looking_at({1: "combined", 2: "combined", 3: "combined"}) as metadata_poll:
        assert eventually_sees(metadata_poll, lambda: leader(metadata_poll) == 1)
        says |= {
            "controller 2": ControllerView(2, 6),
            "broker 2": view(3, 2, 3),
            "broker 3": view(3, 2, 3),
        }
        assert eventually_sees(metadata_poll, lambda: leader(metadata_poll) == 3)
        says["controller 2"] = None  # as when it is slow: the old one alone is heard
        assert metadata_poll.controller() is None
        assert leader(metadata_poll) == 3


def test_a_broker_that_others_call_fenced_is_not_believed_where_controllers_are_nodes_of_their_own(
    says: dict[str, Any],
) -> None:
    """It is cut off, and answers as before; no broker knows soonest there."""
    for node in (1, 2, 3):
        says[f"broker {node}"] = view(1, 1, 2, 3)
    says["controller 4"] = ControllerView(4, 5)
    with looking_at({1: "broker", 2: "broker", 3: "broker", 4: "controller"}) as metadata_poll:
        assert eventually_sees(metadata_poll, lambda: leader(metadata_poll) == 1)
        says |= {"broker 2": view(2, 2, 3), "broker 3": view(2, 2, 3)}
        assert eventually_sees(metadata_poll, lambda: leader(metadata_poll) == 2)
