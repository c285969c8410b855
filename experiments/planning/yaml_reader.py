"""YAML without surprises: plain decimal numbers and truth values, and no repeated keys.

PyYAML implements YAML 1.1, where `12:30` is 750, `010` is 8, `1e4` is text and the last of two
equal keys silently wins. Here numbers are decimal (`1e4` is one), `true/false`, `yes/no` and
`on/off` are booleans, dates are text, and a repeated key is an error. So is a tag such as `!!set`,
which would make another type of a value, and text that no file can hold (half of a surrogate pair).

A value may have a unit, `5s`, `10MB`, `50k/s`, where the end of its name says what its number is:
`duration_s`, `linger.ms`, `record_size_bytes`. Any other text stays as it is, and whoever reads it
says what is allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import one_line, shorten
from ackbench.infra.errors import InputError
from ackbench.infra.machine.paths import read_small_file

MAX_BYTES: Final = 1_000_000
"""An experiment is a page of text; a larger file is another file by mistake."""


def read_yaml(path: Path) -> Any:
    """Return the value that a YAML file holds.

    Raises:
        ExperimentError: the file cannot be read or is not YAML.
    """
    try:
        text = read_small_file(path, MAX_BYTES).decode()
    except InputError as error:
        raise ExperimentError(str(error)) from error
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read ({error.strerror})") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """Return the value that a YAML text holds.

    Args:
        text: the YAML.
        source: where the text comes from, for the message.

    Raises:
        ExperimentError: the text is not YAML; one line with the line number.
    """
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        return yaml.load(text, Loader=_FastLoader)  # noqa: S506 - a SafeLoader with fewer types
    try:
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - the same
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        problem = one_line(error.problem or error.context or "not YAML")
        raise ExperimentError(f"{source}{line}: {problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ExperimentError(f"{source}: not YAML: {one_line(str(error))}") from error


_LIST_ITEM: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|[^,])+""")
"""One value of a list: up to the next comma outside quotes and outside the innermost brackets."""


def parse_values(text: str, source: str) -> tuple[Any, ...]:
    """Return the values of `a,b,c`, each parsed as YAML.

    A comma in quotes or round brackets does not separate values: `"compact,delete",delete` and
    `leader-crash(at_s=1, restart_after_s=4),none` are two values each.

    Raises:
        ExperimentError: the text is not a list of values.
    """
    return tuple(parse_yaml(f"[{_LIST_ITEM.sub(_quote_if_bracketed, text)}]", source))


def _quote_if_bracketed(match: re.Match[str]) -> str:
    """Return a value, in quotes if it contains round brackets and is not quoted already."""
    value = match.group()
    if "(" not in value or value.strip()[0] in "\"'":
        return value
    return json.dumps(value.strip(), ensure_ascii=False)


def dump_yaml(data: Any) -> str:
    """Return YAML that `parse_yaml` parses to the same data."""
    return yaml.dump(data, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=160)


# PyYAML with other resolvers


_BOOLEAN: Final = re.compile(r"^(?:true|false|yes|no|on|off)$", re.IGNORECASE)
_INTEGER: Final = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_DECIMAL: Final = re.compile(
    r"^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"
)
_NULL: Final = re.compile(r"^(?:~|null|Null|NULL|)$")

_STANDARD_TAG: Final = "tag:yaml.org,2002:"
_Resolvers = dict[str, list[tuple[str, re.Pattern[str]]]]


class _PlainLoader(yaml.SafeLoader):
    """A loader with the resolvers below instead of YAML 1.1's."""

    yaml_implicit_resolvers: _Resolvers = {}  # noqa: RUF012 - PyYAML's own attribute, filled below

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse tags; PyYAML calls this for each value."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.composer.ComposerError(
                None,
                None,
                f"the tag {shorten(event.tag.replace(_STANDARD_TAG, '!!'))}; "
                "allowed: values without tags",
                event.start_mark,
            )
        return super().compose_node(parent, index)


class _FastLoader(_PlainLoader):
    """The same with libyaml's parser, which takes a sixth of the time and says less of an error."""

    def __init__(self, text: str) -> None:
        events = yaml.CSafeLoader(text)
        for name in ("check_event", "peek_event", "get_event"):
            setattr(self, name, getattr(events, name))
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)

    def dispose(self) -> None:
        """Do nothing: there is no state of PyYAML's own parser."""


class _PlainDumper(yaml.SafeDumper):
    """A dumper that quotes text that `_PlainLoader` would not parse as text."""

    yaml_implicit_resolvers: _Resolvers = {}  # noqa: RUF012 - the same


for _class in (_PlainLoader, _PlainDumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("tTfFyYnNoO"))
    _class.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _DECIMAL, list("-+0123456789."))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
    _class.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


def _construct_mapping(loader: _PlainLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(
                None, None, "a key must be a single value", key.start_mark
            )
        if key.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key `{key.value}` appears twice", key.start_mark
            )
        seen.add(key.value)
    return {
        loader.construct_object(key): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


def _construct_text(_loader: _PlainLoader, node: yaml.ScalarNode) -> str:
    """Return the text, with each escaped surrogate pair as the one character that it stands for."""
    try:
        text: str = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise yaml.constructor.ConstructorError(
            None, None, "the text has a character that UTF-8 cannot hold, or \\0", node.start_mark
        )
    return text


def _construct_integer(_loader: _PlainLoader, node: yaml.ScalarNode) -> int:
    return int(node.value)


def _construct_decimal(_loader: _PlainLoader, node: yaml.ScalarNode) -> float:
    value = float(node.value)
    if math.isinf(value):
        raise yaml.constructor.ConstructorError(
            None, None, f"the number {one_line(node.value)[:60]} is too large", node.start_mark
        )
    return value


_PlainLoader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_PlainLoader.add_constructor("tag:yaml.org,2002:str", _construct_text)
_PlainLoader.add_constructor("tag:yaml.org,2002:int", _construct_integer)
_PlainLoader.add_constructor("tag:yaml.org,2002:float", _construct_decimal)


# Values with a unit


_TIMES_MS: Final = {
    "ms": 1.0,
    "s": 1e3,
    "sec": 1e3,
    "m": 60e3,
    "min": 60e3,
    "h": 3600e3,
    "d": 86400e3,
}
_SIZES_BYTES: Final = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_COUNTS: Final = {"": 1, "k": 1000, "m": 1000**2}
_IN_BYTES: Final = ("batch.size", "buffer.memory", "max.request.size", "send.buffer.bytes")
"""Properties in bytes whose name does not end with it."""
_NUMBER_AND_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)(/s)?")


def has_unit(name: str) -> bool:
    """Return whether the end of a name says the unit of its number."""
    return any(number_of(name, f"1{unit}") == 1 for unit in ("", "/s", "ms", "s", "B"))


def number_of(name: str, value: Any) -> Any:
    """Return a value with a unit as a number in the unit of its name, any other as it is.

    Args:
        name: of an axis, a property or a key: `workload.duration_s`, `linger.ms`.
        value: `5s`, `10MB`, `50k/s`, or anything else.
    """
    found = _NUMBER_AND_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return value
    number, unit, per_second = float(found[1]), found[2].lower(), bool(found[3])
    end = re.split(r"[._]", name)[-1]
    scale: float | None = None
    if name.endswith(("_per_s", "_records")):
        scale = _COUNTS.get(unit) if per_second <= name.endswith("_per_s") else None
    elif per_second:
        return value
    elif end == "ms":
        scale = _TIMES_MS.get(unit)
    elif end == "s":
        scale = _TIMES_MS[unit] / 1000 if unit in _TIMES_MS else None
    elif end == "bytes" or name in _IN_BYTES or name.partition(".")[2] in _IN_BYTES:
        scale = _SIZES_BYTES.get(unit)
    if scale is None:
        return value
    result = number * scale
    return int(result) if result.is_integer() else result


def without_units(value: Any, name: str = "") -> Any:
    """Return a document of YAML with numbers where its values have units.

    Args:
        value: a mapping, a list, or one value.
        name: the key that it stands below.
    """
    if isinstance(value, Mapping):
        return {key: without_units(one, str(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_units(one, name) for one in value]
    return number_of(name, value)
