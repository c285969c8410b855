"""Large values on their way from one task to another, and from a task to the driver.

A JVM holds what a Python process sends it as arrays of bytes on its heap, one for each item. With a
local master this is the driver's heap, whatever the value is for. So a value goes to another task
in pieces, which Spark's shuffle writes to disk as they come, and to the driver compressed.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

PIECE_BYTES: Final = 1 << 16
"""The size of a piece. PySpark sends a shuffle's first 1,000 items as one array."""
_CODEC: Final = "zstd"


class Piece(NamedTuple):
    """A part of a value."""

    value: int
    """Which value."""
    number: int
    pieces: int
    """How many the value has."""
    data: bytes


def to_pieces(value: object, number: int) -> Iterator[Piece]:
    """Yield the pieces of a value, which has a number among those with the same destination."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    begins = range(0, len(data), PIECE_BYTES)
    for place, begin in enumerate(begins):
        yield Piece(number, place, len(begins), data[begin : begin + PIECE_BYTES])


def from_pieces(pieces: Iterable[Piece]) -> Iterator[Any]:
    """Yield each value once all of its pieces have come, in any order."""
    unfinished: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
    for piece in pieces:
        found = unfinished[piece.value]
        found[piece.number] = piece.data
        if len(found) == piece.pieces:
            del unfinished[piece.value]
            yield pickle.loads(b"".join(found[place] for place in sorted(found)))  # noqa: S301 - ours


class Packed(NamedTuple):
    """A compressed value."""

    data: bytes
    unpacked_bytes: int


def pack(value: object) -> Packed:
    """Return a value compressed."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return Packed(pa.compress(data, _CODEC, asbytes=True), len(data))


def unpack(packed: Packed) -> Any:
    """Return the value that was compressed."""
    data = pa.decompress(packed.data, packed.unpacked_bytes, _CODEC, asbytes=True)
    return pickle.loads(data)  # noqa: S301 - this application's own
