"""Field digests: known values, and the compiled code compared with the reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference.hashing import digest, headers_digest, signed

from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import ABSENT
from ackbench.experiments.trial.clients.librdkafka.interceptors import digest_bytes


@pytest.mark.parametrize(
    ("content", "known"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_a_digest_is_fnv_1a(content: bytes, known: int) -> None:
    """With the test vectors of its authors."""
    assert digest(content) == digest_bytes(content) == signed(known)


@given(st.binary(max_size=300))
def test_compiled_digest_matches_the_reference(content: bytes) -> None:
    """For arbitrary bytes."""
    assert digest_bytes(content) == digest(content)


def test_a_missing_key_differs_from_an_empty_one() -> None:
    """A header's name and value are not simply concatenated, and the order counts."""
    assert digest(None) == digest_bytes(None) == ABSENT != digest(b"")
    assert headers_digest([("a", b"bc")]) != headers_digest([("ab", b"c")])
    assert headers_digest([("a", b""), ("b", b"")]) != headers_digest([("b", b""), ("a", b"")])
