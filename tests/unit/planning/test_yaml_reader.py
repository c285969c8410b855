"""YAML is parsed without the surprises of YAML 1.1."""

from __future__ import annotations

import string
import subprocess
import sys

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.yaml_reader import (
    _FastLoader,
    _PlainLoader,
    dump_yaml,
    parse_values,
    parse_yaml,
)

LETTERS = string.ascii_letters + string.digits + "-+._:,#&*!|>'\"%@`?~[]{}= \n\té"
SCALARS = st.one_of(
    st.text(LETTERS, max_size=8),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(text=st.text(LETTERS, max_size=60))
@settings(max_examples=300)
def test_libyamls_parser_and_pyyamls_give_the_same_value(text: str) -> None:
    """Of any text that both take. Libyaml alone takes a tab at the end of a line, as YAML 1.2."""

    def value_with(loader: type[yaml.SafeLoader]) -> object:
        try:
            return repr(yaml.load(text, Loader=loader))  # noqa: S506 - the loaders under test
        except (yaml.YAMLError, ValueError, RecursionError):
            return None

    values = {value_with(_FastLoader), value_with(_PlainLoader)} - {None}
    assert len(values) <= 1


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
    """Only truth values, decimal numbers and null are not text."""
    read = parse_yaml(f"key: {text}", "x.yaml")["key"]

    assert (read, type(read)) == (value, type(value))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("abc.-", min_size=1, max_size=4), SCALARS, max_size=4))
def test_dumped_data_is_parsed_to_the_same_data(data: dict[str, object]) -> None:
    """No text becomes a number, and no number becomes text."""
    assert parse_yaml(dump_yaml(data), "x.yaml") == data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acks: 0\nacks: 1", "x.yaml, line 2: the key `acks` appears twice"),
        ("axes: [0, 1", "x.yaml, line 1: expected ',' or ']'"),
        ("a: b: c", "x.yaml, line 1: mapping values are not allowed here"),
        ("? [1, 2]\n: 3", "x.yaml, line 1: a key must be a single value"),
        ("a: !!python/object:os.system x", "x.yaml, line 1: the tag !!python/object:os.system"),
        ("a: 1\nb: !!timestamp x", "x.yaml, line 2: the tag !!timestamp; allowed: values without"),
        ("a: !!bool maybe", "x.yaml, line 1: the tag !!bool"),
        ("a: !!set {b, c}", "x.yaml, line 1: the tag !!set"),
        ("a: !!map x", "x.yaml, line 1: the tag !!map"),
        ("a: !!binary aGFsbG8=", "x.yaml, line 1: the tag !!binary"),
        ("a: [!!int x]", "x.yaml, line 1: the tag !!int"),
        ("!!str a: 1", "x.yaml, line 1: the tag !!str"),
        ("!<tag:example.org,2000:x> a", "x.yaml, line 1: the tag tag:example.org,2000:x"),
        (f"a: !{'x' * 5000} b", "x.yaml, line 1: the tag !xxx"),
        ('a: "\\ud800"', "x.yaml, line 1: the text has a character that UTF-8 cannot hold"),
        ('"\\udc80": a', "x.yaml, line 1: the text has a character that UTF-8 cannot hold"),
        ('a: "b\\0c"', "x.yaml, line 1: the text has a character that UTF-8 cannot hold, or \\0"),
        ("a: \x00", "x.yaml: not YAML"),
    ],
)
def test_invalid_yaml_is_refused_in_one_line_with_the_line_number(text: str, message: str) -> None:
    """The message names the file, the line and the problem."""
    with pytest.raises(ExperimentError) as raised:
        parse_yaml(text, "x.yaml")

    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "a: " + "[" * 5_000 + "]" * 5_000, "{a: " * 20_000, "- " * 50_000],
    ids=["open", "closed", "mappings", "items"],
)
def test_a_deeply_nested_text_is_refused_in_a_process_that_goes_on(text: str) -> None:
    """A parser that recurses in C would end the process."""
    code = (
        "import sys\n"
        "from ackbench.experiments.messages.errors import ExperimentError\n"
        "from ackbench.experiments.planning.yaml_reader import parse_yaml\n"
        "try:\n    parse_yaml(sys.stdin.read(), 'mine.yaml')\n"
        "except ExperimentError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mine.yaml: not YAML: ")


def test_an_escaped_surrogate_pair_is_one_character() -> None:
    """JSON writes characters beyond 16 bits so, and JSON is YAML."""
    assert parse_yaml('a: "\\ud83d\\ude00\\ufeff"', "x.yaml") == {"a": "\U0001f600\ufeff"}


def test_values_of_the_command_line_are_parsed_as_yaml() -> None:
    """Commas separate the values, except in quotes."""
    assert parse_values('0,all,off,"compact,delete",1.5', "--set") == (
        0,
        "all",
        False,
        "compact,delete",
        1.5,
    )
