"""Kept connections against a listener of the test's own: what is late, cut or never comes."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from infra.cluster.metadata_poller import NodeConnection, first_reply

SOON_S = 5.0
"""A bound that no test waits for."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Takes connections, and answers when the test says so."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SOON_S)
        yield listening


@pytest.fixture
def link(listener: socket.socket) -> Iterator[NodeConnection]:
    """To the listener."""
    made = NodeConnection(1, *listener.getsockname())
    yield made
    made.close()


def frame(content: bytes) -> bytes:
    """An answer as Kafka sends it."""
    return struct.pack(">i", len(content)) + content


def answer(link: NodeConnection) -> bytes | None:
    """What it answers, waited for."""
    found = first_reply([link], time.monotonic() + SOON_S)
    return found.frame if found else None


def answer_now(link: NodeConnection) -> bytes | None:
    """What has come by now."""
    found = first_reply([link], time.monotonic())
    return found.frame if found else None


def test_a_connection_is_kept(link: NodeConnection, listener: socket.socket) -> None:
    """Two requests, one connection, an answer each."""
    link.send(b"first")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        assert answer(link) == b"one"
        link.send(b"second")
        served.sendall(frame(b"two"))
        assert answer(link) == b"two"


def test_an_answer_that_comes_in_parts_is_put_together(
    link: NodeConnection, listener: socket.socket
) -> None:
    """TCP knows no messages."""
    link.send(b"?")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"whole")[:6])
        assert answer_now(link) is None
        served.sendall(frame(b"whole")[6:])
        assert answer(link) == b"whole"


def test_who_owes_an_answer_is_not_asked_again(
    link: NodeConnection, listener: socket.socket
) -> None:
    """A paused broker would get hundreds of requests, and answer all of them when it goes on."""
    link.send(b"first")
    served, _ = listener.accept()
    with served:
        link.send(b"second")
        assert served.recv(100) == b"first"
        served.sendall(frame(b"one"))
        assert answer(link) == b"one"
        link.send(b"third")
        assert served.recv(100) == b"third"


def test_an_answer_tells_when_it_was_asked_for(
    link: NodeConnection, listener: socket.socket
) -> None:
    """What it says was so then or later, however late it comes."""
    before_s = time.monotonic()
    link.send(b"?")
    after_s = time.monotonic()
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        found = first_reply([link], time.monotonic() + SOON_S)
        assert found is not None
        assert before_s <= found.requested_s <= after_s


def test_a_stale_answer_is_thrown_away(
    link: NodeConnection, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what was before the pause; the next request gets its own answer."""
    link.send(b"?")
    served, _ = listener.accept()
    with served:
        monkeypatch.setattr("infra.cluster.metadata_poller.STALE_AFTER_S", 0)
        served.sendall(frame(b"old"))
        assert answer(link) is None
        monkeypatch.undo()
        link.send(b"again")
        served.sendall(frame(b"new"))
        assert answer(link) == b"new"


def test_a_connection_that_ended_is_made_anew(
    link: NodeConnection, listener: socket.socket
) -> None:
    """The broker was killed and is back: what it owed will never come."""
    link.send(b"?")
    listener.accept()[0].close()
    assert answer(link) is None
    link.send(b"again")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        assert answer(link) == b"one"


def test_where_nobody_listens_nothing_is_awaited(
    link: NodeConnection, listener: socket.socket
) -> None:
    """At once, and without an error."""
    listener.close()
    link.send(b"?")
    assert not link.is_pending
    assert answer(link) is None


def test_the_first_to_answer_is_heard(link: NodeConnection, listener: socket.socket) -> None:
    """One stands still, the other does not: nobody waits for the first."""
    other = NodeConnection(2, *listener.getsockname())
    for each in (link, other):
        each.send(b"?")
    (silent, _), (served, _) = listener.accept(), listener.accept()
    with silent, served:
        served.sendall(frame(b"here"))
        found = first_reply([link, other], time.monotonic() + SOON_S)
        assert found is not None
        assert (found.frame, link.is_pending, other.is_pending) == (b"here", True, False)
    other.close()
