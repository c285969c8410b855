"""YAML is read without its surprises."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.errors import ExperimentError
from experiments.planning.yaml_reader import dump, parse, parse_values

LETTERS = string.ascii_letters + string.digits + "-+._:,#&*!|>'\"%@`?~[]{}= \n\té"
SCALARS = st.one_of(
    st.text(LETTERS, max_size=8),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", False),
        ("On", True),
        ("no", False),
        ("none", "none"),
        ("1e4", 10_000.0),
        ("010", "010"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("4.3.1", "4.3.1"),
        ("-1", -1),
        ("all", "all"),
        ("'1'", "1"),
        ("~", None),
        ("0 3 * * *", "0 3 * * *"),
    ],
)
def test_a_scalar_is_what_it_looks_like(text: str, value: object) -> None:
    """Truth values and decimal numbers are read as such, everything else as text."""
    read = parse(f"key: {text}", "x.yaml")["key"]

    assert (read, type(read)) == (value, type(value))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("abc.-", min_size=1, max_size=4), SCALARS, max_size=4))
def test_what_was_dumped_reads_back_the_same(data: dict[str, object]) -> None:
    """No text turns into a number, and no number into text, on the way through a file."""
    assert parse(dump(data), "x.yaml") == data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acks: 0\nacks: 1", "x.yaml, line 2: the key `acks` stands twice"),
        ("axes: [0, 1", "x.yaml, line 1: expected ',' or ']'"),
        ("a: b: c", "x.yaml, line 1: mapping values are not allowed here"),
        ("? [1, 2]\n: 3", "x.yaml, line 1: a key must be a word"),
        ("a: !!python/object:os.system x", "x.yaml, line 1: could not determine a constructor"),
        ("a: \x00", "x.yaml: no YAML"),
    ],
)
def test_what_is_no_yaml_is_one_line_with_the_place(text: str, words: str) -> None:
    """The message names file, line and what is wrong."""
    with pytest.raises(ExperimentError) as raised:
        parse(text, "x.yaml")

    assert str(raised.value).startswith(words)
    assert "\n" not in str(raised.value)


def test_values_of_the_command_line_are_read_as_yaml() -> None:
    """Commas part the values; a quoted value may hold one."""
    assert parse_values('0,all,off,"compact,delete",1.5', "--set") == (
        0,
        "all",
        False,
        "compact,delete",
        1.5,
    )
