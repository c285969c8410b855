"""Kept connections against a listener of the test's own: what is late, cut or never comes."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from infra.link import Link
from infra.waiting import wait_until

SOON_S = 5.0
"""A bound that no test waits for."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Takes connections, and answers when the test says so."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SOON_S)
        yield listening


@pytest.fixture
def link(listener: socket.socket) -> Iterator[Link]:
    """To the listener."""
    made = Link(listener.getsockname()[1])
    yield made
    made.close()


def frame(content: bytes) -> bytes:
    """An answer as Kafka sends it."""
    return struct.pack(">i", len(content)) + content


def soon() -> float:
    """A moment of the monotonic clock that is not reached."""
    return time.monotonic() + SOON_S


def test_a_connection_is_kept(link: Link, listener: socket.socket) -> None:
    """Two requests, one connection, an answer each."""
    assert link.ask(b"first")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        assert link.answer(soon()) == b"one"
        assert link.ask(b"second")
        served.sendall(frame(b"two"))
        assert link.answer(soon()) == b"two"


def test_an_answer_that_comes_in_parts_is_put_together(link: Link, listener: socket.socket) -> None:
    """TCP knows no messages."""
    link.ask(b"?")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"whole")[:6])
        assert link.answer(time.monotonic()) is None
        served.sendall(frame(b"whole")[6:])
        assert link.answer(soon()) == b"whole"


def test_who_owes_an_answer_is_not_asked_again(link: Link, listener: socket.socket) -> None:
    """A paused broker would get hundreds of requests, and answer all of them when it goes on."""
    link.ask(b"?")
    served, _ = listener.accept()
    with served:
        assert link.answer(time.monotonic()) is None
        assert not link.ask(b"again")


def test_a_late_answer_is_thrown_away(link: Link, listener: socket.socket) -> None:
    """It says what was before the pause; the next one answers the next question."""
    link.ask(b"?")
    served, _ = listener.accept()
    with served:
        assert link.answer(time.monotonic()) is None
        served.sendall(frame(b"old"))
        wait_until(lambda: link.ask(b"again"), awaiting="the late answer", timeout_s=SOON_S)
        served.sendall(frame(b"new"))
        assert link.answer(soon()) == b"new"


def test_a_connection_that_ended_is_made_anew(link: Link, listener: socket.socket) -> None:
    """The broker was killed and is back: what it owed will never come."""
    link.ask(b"?")
    listener.accept()[0].close()
    assert link.answer(soon()) is None
    assert link.ask(b"again")


def test_where_nobody_listens_nothing_is_asked(link: Link, listener: socket.socket) -> None:
    """At once, and without an error."""
    listener.close()
    assert not link.ask(b"?")
    assert link.answer(soon()) is None
