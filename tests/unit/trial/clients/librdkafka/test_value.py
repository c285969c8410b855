"""Tests of record values: their origin is detected, and compiled code agrees with the reference.

The reference is plain Python, `tests/support/reference/values.py`.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import values
from support.reference.values import ValueFields

from ackbench.experiments.trial.clients.librdkafka import value
from ackbench.experiments.trial.clients.record import layout
from ackbench.experiments.trial.clients.record.layout import HEADER_BYTES, Origin, TextValueFormat

SIZES = st.integers(HEADER_BYTES, 400)
FIELDS = st.builds(
    ValueFields,
    st.integers(0, layout.MAX_PRODUCER),
    st.integers(0, 2**62),
    st.integers(-(2**62), 2**62),
    st.integers(0, 2**63 - 1),
)
TOKEN = 2**62 + 4711
TEXT_FORMAT = TextValueFormat(layout.trial_tag(TOKEN), 0)


def compiled_encode(fields: ValueFields, size_bytes: int) -> bytes:
    """Encode a binary value with compiled code."""
    words = value.begin_value(size_bytes, fields.producer, fields.token)
    value.encode(words, size_bytes, fields.seq, fields.intended_ns)
    return words.tobytes()[:size_bytes]


def compiled_origin(content: bytes, token: int) -> Origin:
    """Return the origin of a binary value, from compiled code."""
    words = value.allocate_words(max(len(content), 8))
    words.view("u1")[: len(content)] = list(content)
    return Origin(value.origin(words, len(content), token))


def compiled_decode(content: bytes, text_format: TextValueFormat) -> tuple[Origin, int, int]:
    """Decode a text value with compiled code, from a buffer with remains of another value."""
    text = np.frombuffer(content + b"99999999", np.uint8).copy()
    origin, producer, seq = value.decode_text_value(
        text, len(content), text_format.tag, text_format.warm_up_records
    )
    return Origin(origin), producer, seq


@given(FIELDS, SIZES)
def test_compiled_encoder_matches_the_reference(fields: ValueFields, size_bytes: int) -> None:
    """Both write the same bytes, so the reference can stand for the compiled code."""
    assert compiled_encode(fields, size_bytes) == values.encode(fields, size_bytes)


@given(FIELDS, SIZES)
def test_encoded_value_decodes_to_its_fields(fields: ValueFields, size_bytes: int) -> None:
    """Reference and compiled code both recognise the value."""
    content = values.encode(fields, size_bytes)
    assert values.decode(content, fields.token) == (Origin.TRIAL, fields)
    assert compiled_origin(content, fields.token) is Origin.TRIAL


@given(st.binary(max_size=120), st.integers(0, 2**63 - 1))
def test_arbitrary_bytes_have_the_same_origin_in_both(content: bytes, token: int) -> None:
    """They are never taken for a value of the trial."""
    expected, fields = values.decode(content, token)
    assert compiled_origin(content, token) is expected
    assert fields is None


@given(FIELDS, SIZES, st.data())
def test_one_changed_byte_after_the_magic_is_detected_as_corruption(
    fields: ValueFields, size_bytes: int, data: st.DataObject
) -> None:
    """The checksum detects every change within one word."""
    content = bytearray(values.encode(fields, size_bytes))
    content[data.draw(st.integers(4, size_bytes - 1))] ^= data.draw(st.integers(1, 255))
    assert values.decode(bytes(content), fields.token)[0] is Origin.CORRUPT
    assert compiled_origin(bytes(content), fields.token) is Origin.CORRUPT


@given(FIELDS, SIZES)
def test_intact_value_of_another_trial_is_of_other_origin(
    fields: ValueFields, size_bytes: int
) -> None:
    """A different token is not corruption."""
    content = values.encode(fields, size_bytes)
    assert values.decode(content, fields.token ^ 1)[0] is Origin.OTHER
    assert compiled_origin(content, fields.token ^ 1) is Origin.OTHER


def test_truncated_value_is_corrupt() -> None:
    """It has the magic, but not a complete header."""
    content = values.encode(ValueFields(1, 2, 3, 4), 100)[:39]
    assert values.decode(content, 4)[0] is compiled_origin(content, 4) is Origin.CORRUPT


def test_value_size_below_the_header_is_refused() -> None:
    """The smallest value consists of the header only."""
    with pytest.raises(ValueError, match="39 bytes does not hold the header of 40"):
        values.encode(ValueFields(0, 0, 0, 0), 39)


def test_producer_number_out_of_range_is_refused() -> None:
    """It must not wrap around to another producer's number."""
    with pytest.raises(struct.error):
        values.encode(ValueFields(layout.MAX_PRODUCER + 1, 0, 0, 0), 40)


@given(st.integers(0, 2**63 - 1), st.integers(0, 63), st.integers(0, 10**17))
def test_text_value_identifies_trial_producer_and_record(
    token: int, producer: int, seq: int
) -> None:
    """The prefix is a positive Java int."""
    prefix = layout.value_prefix(token, producer)
    assert 0 < prefix < 2**31
    assert values.decode_text_value(
        b"%d.%d" % (prefix, seq), TextValueFormat(layout.trial_tag(token), 0)
    ) == (Origin.TRIAL, producer, seq)


@given(
    st.one_of(st.binary(max_size=40), st.from_regex(rb"[0-9]{1,12}\.[0-9x]{0,20}", fullmatch=True)),
    st.integers(1, 2**25),
)
def test_compiled_text_decoder_matches_the_reference(content: bytes, tag: int) -> None:
    """For arbitrary bytes and for text that resembles a value."""
    text_format = TextValueFormat(tag, 5)
    assert compiled_decode(content, text_format) == values.decode_text_value(content, text_format)


@given(st.integers(0, 63), st.from_regex(rb"[0-9]{0,20}x?", fullmatch=True))
def test_compiled_text_decoder_matches_the_reference_with_the_trials_prefix(
    producer: int, rest: bytes
) -> None:
    """Also for numbers that are too long, have leading zeros or are followed by other bytes."""
    content = b"%d.%s" % (layout.value_prefix(TOKEN, producer), rest)
    for warm_up_records in (0, 1000):
        text_format = TextValueFormat(TEXT_FORMAT.tag, warm_up_records)
        assert compiled_decode(content, text_format) == values.decode_text_value(
            content, text_format
        )


@pytest.mark.parametrize("rest", [b"", b"01", b"1x", b"-1", b"1.", b"1" * 19])
def test_text_value_with_the_trials_prefix_and_no_valid_number_is_corrupt(rest: bytes) -> None:
    """The trial's producer sent it, and its bytes were changed."""
    content = b"%d.%s" % (layout.value_prefix(TOKEN, 3), rest)
    assert values.decode_text_value(content, TEXT_FORMAT) == (Origin.CORRUPT, -1, -1)


def test_text_value_of_another_trial_is_of_other_origin() -> None:
    """Its tag differs."""
    content = b"%d.7" % layout.value_prefix(TOKEN + 1, 0)
    assert values.decode_text_value(content, TEXT_FORMAT) == (Origin.OTHER, -1, -1)


def test_warm_up_records_are_not_part_of_the_trial() -> None:
    """The first record after the warm-up has seq 0."""
    text_format = TextValueFormat(TEXT_FORMAT.tag, 30)
    last, first = (b"%d.%d" % (layout.value_prefix(TOKEN, 2), number) for number in (29, 30))
    assert values.decode_text_value(last, text_format) == (Origin.WARM_UP, -1, -1)
    assert values.decode_text_value(first, text_format) == (Origin.TRIAL, 2, 0)
