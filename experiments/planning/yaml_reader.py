"""Reading YAML without its surprises: only what looks like a number or a truth value is one, and a key stands once.

PyYAML speaks YAML 1.1, where `12:30` is 750, `010` is 8, `1e4` is text and a repeated key silently wins. Here numbers are
decimal (`1e4` is one), `true/false`, `yes/no` and `on/off` are truth values, dates are text, and a repeated key is refused.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

from experiments.errors import ExperimentError
from experiments.messages.phrases import one_line

_TRUTH: Final = re.compile(r"^(?:true|false|yes|no|on|off)$", re.IGNORECASE)
_WHOLE: Final = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_DECIMAL: Final = re.compile(
    r"^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"
)
_WITH_BRACKETS: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|[^,])+""")
"""One value of a list: to the next comma that is neither quoted nor in the innermost round brackets."""
_NOTHING: Final = re.compile(r"^(?:~|null|Null|NULL|)$")

MOST_CHARACTERS: Final = 1_000_000
"""An experiment is a page of text; more is another file by mistake."""


_Resolvers = dict[str, list[tuple[str, re.Pattern[str]]]]


class _PlainLoader(yaml.SafeLoader):
    """A loader with the resolvers below instead of YAML 1.1's."""

    yaml_implicit_resolvers: _Resolvers = {}  # noqa: RUF012 - PyYAML's own attribute, filled below


class _PlainDumper(yaml.SafeDumper):
    """A dumper that quotes the text that `_PlainLoader` would take for something else."""

    yaml_implicit_resolvers: _Resolvers = {}  # noqa: RUF012 - the same


for _kind in (_PlainLoader, _PlainDumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:bool", _TRUTH, list("tTfFyYnNoO"))
    _kind.add_implicit_resolver("tag:yaml.org,2002:int", _WHOLE, list("-+0123456789"))
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _DECIMAL, list("-+0123456789."))
    _kind.add_implicit_resolver("tag:yaml.org,2002:null", _NOTHING, ["~", "n", "N", ""])
    _kind.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


def _mapping(loader: _PlainLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(
                None, None, "a key must be a word", key.start_mark
            )
        if key.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key `{key.value}` stands twice", key.start_mark
            )
        seen.add(key.value)
    return {
        loader.construct_object(key): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


def _whole(_loader: _PlainLoader, node: yaml.ScalarNode) -> int:
    return int(node.value)


def _decimal(_loader: _PlainLoader, node: yaml.ScalarNode) -> float:
    return float(node.value)


_PlainLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
_PlainLoader.add_constructor("tag:yaml.org,2002:int", _whole)
_PlainLoader.add_constructor("tag:yaml.org,2002:float", _decimal)


def parse(text: str, source: str) -> Any:
    """Return what a YAML text holds.

    Args:
        text: the YAML.
        source: where it came from, for the message.

    Raises:
        ExperimentError: it is no YAML; one line with the line number.
    """
    try:
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader with fewer types
    except yaml.MarkedYAMLError as error:
        raise ExperimentError(
            f"{source}{_line(error)}: {one_line(error.problem or error.context or 'no YAML')}"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ExperimentError(f"{source}: no YAML: {one_line(str(error))}") from error


def read(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        ExperimentError: it cannot be read, or is no YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: is no UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read ({error.strerror})") from error
    if len(text) > MOST_CHARACTERS:
        raise ExperimentError(
            f"{path}: holds {len(text)} characters; an experiment has at most {MOST_CHARACTERS}"
        )
    return parse(text, str(path))


def parse_values(text: str, source: str) -> tuple[Any, ...]:
    """Return the values of `a,b,c`, each read as YAML would; quote one that holds a comma: `"compact,delete",delete`.

    A comma in round brackets parts nothing: `leader-crash(at_s=1, restart_after_s=4),none` are two values.

    Raises:
        ExperimentError: it is no list of values.
    """
    return tuple(parse(f"[{_WITH_BRACKETS.sub(_quoted, text)}]", source))


def dump(data: Any) -> str:
    """Return YAML that `parse` reads back to the same data."""
    return yaml.dump(data, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=160)


def _quoted(found: re.Match[str]) -> str:
    """Quote a value that holds round brackets, unless it is quoted already."""
    value = found.group()
    return (
        value
        if "(" not in value or value.strip()[0] in "\"'"
        else json.dumps(value.strip(), ensure_ascii=False)
    )


def _line(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return "" if mark is None else f", line {mark.line + 1}"
