"""Digests of fields: known answers, and what runs against what is written plainly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference.digests import digest, headers_digest, signed

from experiments.clients.librdkafka.interceptor_tables import ABSENT
from experiments.clients.librdkafka.interceptors import digest_bytes


@pytest.mark.parametrize(
    ("content", "known"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_a_digest_is_fnv_1a(content: bytes, known: int) -> None:
    """With the answers that its authors give."""
    assert digest(content) == digest_bytes(content) == signed(known)


@given(st.binary(max_size=300))
def test_what_runs_is_what_is_written_plainly(content: bytes) -> None:
    """For any bytes."""
    assert digest_bytes(content) == digest(content)


def test_no_key_is_not_an_empty_one() -> None:
    """Nor are names and values of headers run together."""
    assert digest(None) == digest_bytes(None) == ABSENT != digest(b"")
    assert headers_digest([("a", b"bc")]) != headers_digest([("ab", b"c")])
    assert headers_digest([("a", b""), ("b", b"")]) != headers_digest([("b", b""), ("a", b"")])
