"""The text values of Kafka's own producer: whose they are is told from their form, by plain Python and by compiled code alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import values

from experiments.clients.record import layout
from experiments.clients.record import value as java_value_compiled
from experiments.clients.record.layout import Origin

TOKEN = 2**62 + 4711
TEXT = layout.TextValueFormat(layout.tag_of(TOKEN), 0)


def compiled(value: bytes, told: layout.TextValueFormat) -> tuple[Origin, int, int]:
    """What compiled code makes of a value that lies in a larger scratch with remains of another."""
    text = np.frombuffer(value + b"99999999", np.uint8).copy()
    origin, producer, seq = java_value_compiled.decode(
        text, len(value), told.tag, told.run_in_records
    )
    return Origin(origin), producer, seq


@given(st.integers(0, 2**63 - 1), st.integers(0, 63), st.integers(0, 10**17))
def test_a_value_says_which_producer_sent_which_record_of_which_trial(
    token: int, producer: int, seq: int
) -> None:
    """And its prefix is an int that Java takes."""
    prefix = layout.prefix_of(token, producer)
    assert 0 < prefix < 2**31
    assert values.decode_text_value(
        b"%d.%d" % (prefix, seq), layout.TextValueFormat(layout.tag_of(token), 0)
    ) == (Origin.OURS, producer, seq)


@given(
    st.one_of(st.binary(max_size=40), st.from_regex(rb"[0-9]{1,12}\.[0-9x]{0,20}", fullmatch=True)),
    st.integers(1, 2**25),
)
def test_compiled_code_tells_every_value_as_plain_python_does(value: bytes, tag: int) -> None:
    """Whatever bytes they are."""
    told = layout.TextValueFormat(tag, 5)
    assert compiled(value, told) == values.decode_text_value(value, told)


@given(st.integers(0, 63), st.from_regex(rb"[0-9]{0,20}x?", fullmatch=True))
def test_compiled_code_tells_every_value_with_our_prefix_as_plain_python_does(
    producer: int, rest: bytes
) -> None:
    """Numbers too long, with needless zeros, or with something behind them."""
    value = b"%d.%s" % (layout.prefix_of(TOKEN, producer), rest)
    for run_in in (0, 1000):
        told = layout.TextValueFormat(TEXT.tag, run_in)
        assert compiled(value, told) == values.decode_text_value(value, told)


@pytest.mark.parametrize("rest", [b"", b"01", b"1x", b"-1", b"1.", b"1" * 19])
def test_our_prefix_without_a_number_behind_it_is_corrupt(rest: bytes) -> None:
    """A record of ours whose bytes were changed, as far as its form can tell."""
    assert values.decode_text_value(b"%d.%s" % (layout.prefix_of(TOKEN, 3), rest), TEXT) == (
        Origin.CORRUPT,
        -1,
        -1,
    )


def test_the_value_of_another_trial_is_of_other_origin() -> None:
    """Its tag is another."""
    assert values.decode_text_value(b"%d.7" % layout.prefix_of(TOKEN + 1, 0), TEXT) == (
        Origin.OTHER,
        -1,
        -1,
    )


def test_what_was_sent_in_the_run_in_is_no_record_of_the_trial_s_and_seq_counts_from_behind_it() -> (
    None
):
    """The first record of the schedule has seq 0."""
    text = layout.TextValueFormat(TEXT.tag, 30)
    last, first = (b"%d.%d" % (layout.prefix_of(TOKEN, 2), number) for number in (29, 30))
    assert values.decode_text_value(last, text) == (Origin.RUN_IN, -1, -1)
    assert values.decode_text_value(first, text) == (Origin.OURS, 2, 0)
