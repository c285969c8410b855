"""Large values as pieces, and compressed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.spark_jobs.io import transport
from ackbench.spark_jobs.io.transport import from_pieces, pack, to_pieces, unpack


@given(st.lists(st.binary(max_size=400), max_size=4), st.randoms(use_true_random=False))
def test_values_come_back_from_their_pieces_in_any_order(
    values: list[bytes], random: st.DataObject
) -> None:
    """Each once, whatever pieces of others are in between."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "PIECE_BYTES", 64)
        pieces = [piece for n, value in enumerate(values) for piece in to_pieces(value, n)]
    random.shuffle(pieces)  # type: ignore[attr-defined]
    assert sorted(from_pieces(pieces)) == sorted(values)


def test_a_piece_is_small() -> None:
    """A JVM holds each as one array."""
    sizes = [len(piece.data) for piece in to_pieces(bytes(10**6), 0)]
    assert len(sizes) == 16
    assert max(sizes) == transport.PIECE_BYTES


def test_a_packed_value_comes_back() -> None:
    """It takes less than before."""
    value = {"seq": list(range(1000)) * 10}
    assert unpack(pack(value)) == value
    assert len(pack(value).data) < pack(value).unpacked_bytes / 10
