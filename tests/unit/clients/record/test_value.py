"""A record's value says whose it is; the compiled code and the plain one agree on every byte."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import values
from support.reference.values import ValueFields

from experiments.clients.record import layout
from experiments.clients.record import value as value_compiled
from experiments.clients.record.layout import HEADER_BYTES, Origin

SIZES = st.integers(HEADER_BYTES, 400)
MARKS = st.builds(
    ValueFields,
    st.integers(0, layout.MAX_PRODUCER),
    st.integers(0, 2**62),
    st.integers(-(2**62), 2**62),
    st.integers(0, 2**63 - 1),
)


def compiled_bytes(mark: ValueFields, size_bytes: int) -> bytes:
    """Encode by compiled code."""
    words = value_compiled.begin_value(size_bytes, mark.producer, mark.token)
    value_compiled.encode(words, size_bytes, mark.seq, mark.intended_ns)
    return words.tobytes()[:size_bytes]


def compiled_origin(content: bytes, token: int) -> Origin:
    """Judge by compiled code."""
    words = value_compiled.words_for(max(len(content), 8))
    words.view("u1")[: len(content)] = list(content)
    return Origin(value_compiled.origin(words, len(content), token))


@given(MARKS, SIZES)
def test_compiled_code_writes_what_the_reference_writes(mark: ValueFields, size_bytes: int) -> None:
    """The property that lets the reference stand for the code that runs."""
    assert compiled_bytes(mark, size_bytes) == values.encode(mark, size_bytes)


@given(MARKS, SIZES)
def test_a_value_reads_back_as_it_was_written(mark: ValueFields, size_bytes: int) -> None:
    """Every field, by both readers."""
    content = values.encode(mark, size_bytes)
    assert values.decode(content, mark.token) == (Origin.OURS, mark)
    assert compiled_origin(content, mark.token) is Origin.OURS


@given(st.binary(max_size=120), st.integers(0, 2**63 - 1))
def test_foreign_bytes_are_judged_alike(content: bytes, token: int) -> None:
    """Whatever lies in a topic, both readers say the same of it, and never that it is ours."""
    expected, mark = values.decode(content, token)
    assert compiled_origin(content, token) is expected
    assert mark is None


@given(MARKS, SIZES, st.data())
def test_one_changed_byte_after_the_magic_is_corruption(
    mark: ValueFields, size_bytes: int, data: st.DataObject
) -> None:
    """No change within one word goes unseen."""
    content = bytearray(values.encode(mark, size_bytes))
    content[data.draw(st.integers(4, size_bytes - 1))] ^= data.draw(st.integers(1, 255))
    assert values.decode(bytes(content), mark.token)[0] is Origin.CORRUPT
    assert compiled_origin(bytes(content), mark.token) is Origin.CORRUPT


@given(MARKS, SIZES)
def test_a_whole_record_of_another_trial_is_of_other_origin(
    mark: ValueFields, size_bytes: int
) -> None:
    """Another token is a stranger, not damage."""
    content = values.encode(mark, size_bytes)
    assert values.decode(content, mark.token ^ 1)[0] is Origin.OTHER
    assert compiled_origin(content, mark.token ^ 1) is Origin.OTHER


def test_a_value_cut_short_is_corruption() -> None:
    """Our magic and not even a header."""
    content = values.encode(ValueFields(1, 2, 3, 4), 100)[:39]
    assert values.decode(content, 4)[0] is compiled_origin(content, 4) is Origin.CORRUPT


def test_a_value_smaller_than_its_header_is_refused() -> None:
    """The smallest record is the header alone."""
    with pytest.raises(ValueError, match="39 bytes does not hold the header of 40"):
        values.encode(ValueFields(0, 0, 0, 0), 39)


def test_a_producer_past_the_field_is_refused() -> None:
    """A number that does not fit is an error and never another number."""
    with pytest.raises(struct.error):
        values.encode(ValueFields(layout.MAX_PRODUCER + 1, 0, 0, 0), 40)
