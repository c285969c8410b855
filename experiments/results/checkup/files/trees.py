"""YAML, JSON and TOML as plain values that know their line.

Nothing is constructed from tags, aliases are followed within a bound, and each scalar keeps the
text that stands in the file: `yes` stays `yes`, as a container's environment gets it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import yaml

from ackbench.experiments.messages.phrases import one_line
from ackbench.infra.errors import InputError

MAX_NODES: Final = 100_000
"""Values of a file, each alias counted as what it stands for."""
MAX_DEPTH: Final = 60


class LineText(str):
    """A scalar with the number of its line, from 1 on.

    Args:
        text: the scalar.
        line: its line.
        file: the name of the file that it is from, if that is not the one that is read.
    """

    __slots__ = ("file", "line")
    line: int
    file: str | None

    def __new__(cls, text: str, line: int, file: str | None = None) -> Self:
        """Return the text."""
        self = super().__new__(cls, text)
        self.line, self.file = line, file
        return self


def line_of(value: object) -> int | None:
    """Return the line of a scalar, or of the first key of a mapping."""
    if isinstance(value, dict):
        value = next(iter(value), None)
    return value.line if isinstance(value, LineText) else None


def yaml_documents(text: str, path: Path) -> list[Any]:
    """Return the documents of a YAML or JSON file: mappings, lists and `LineText`; null is `None`.

    Raises:
        InputError: it is not YAML, a template that has to be rendered first, or too large.
    """
    builder = _Builder(path)
    try:
        loader = yaml.SafeLoader(text)
        documents = []
        while loader.check_node():
            documents.append(builder.value(loader.get_node(), loader, 0))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        if "{{" in text:
            raise _template(path, line) from error
        problem = one_line(error.problem or error.context or "")
        raise InputError(f"{path}{line}: not YAML ({problem})") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{path}: not YAML ({one_line(str(error))})") from error
    return [one for one in documents if one is not None]


def _template(path: Path, line: str) -> InputError:
    return InputError(
        f"{path}{line} is a template ({{{{ ... }}}}): render it first, as with `helm template`"
    )


class _Builder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._values = 0

    def value(self, node: yaml.Node | None, loader: yaml.SafeLoader, depth: int) -> Any:
        self._values += 1
        if self._values > MAX_NODES or depth > MAX_DEPTH:
            raise InputError(
                f"{self._path} has more than {MAX_NODES:,} values, or is nested deeper than "
                f"{MAX_DEPTH}, aliases included"
            )
        if isinstance(node, yaml.MappingNode):
            loader.flatten_mapping(node)  # of `<<`
            line = node.start_mark.line + 1
            if not all(isinstance(key, yaml.ScalarNode) for key, _ in node.value):
                raise _template(self._path, f", line {line}")  # `{{ x }}` is a mapping as a key
            return {
                LineText(key.value, key.start_mark.line + 1): self.value(value, loader, depth + 1)
                for key, value in node.value
            }
        if isinstance(node, yaml.SequenceNode):
            return [self.value(one, loader, depth + 1) for one in node.value]
        if not isinstance(node, yaml.ScalarNode):
            return None
        if node.tag == "tag:yaml.org,2002:null" and node.style is None:
            return None
        # A block's first line is the one after its indicator.
        block = node.style in {"|", ">"}
        return LineText(node.value, node.start_mark.line + 1 + block)


def toml_document(text: str, path: Path) -> dict[str, Any]:
    """Return a TOML file as mappings, lists and `LineText`.

    Raises:
        InputError: it is not TOML.
    """
    try:
        return _with_lines(tomllib.loads(text), text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML ({one_line(str(error))})") from error


def _with_lines(document: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the document with the line of each key; the parser does not keep them."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        places.setdefault(line.partition("=")[0].strip().strip("\"'"), []).append(number)

    def converted(value: Any, line: int) -> Any:
        if isinstance(value, dict):
            lines = {key: places[key].pop(0) if places.get(key) else line for key in value}
            return {
                LineText(key, lines[key]): converted(one, lines[key]) for key, one in value.items()
            }
        if isinstance(value, list):
            return [converted(one, line) for one in value]
        return LineText(str(value).lower() if isinstance(value, bool) else str(value), line)

    return dict(converted(document, 1))


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> Iterator[tuple[LineText, Any]]:
    """Yield the keys of a mapping, which know their line, with their values."""
    for key, one in mapping(value).items():
        yield key if isinstance(key, LineText) else LineText(key, 1), one


def items(value: object) -> list[Any]:
    """Return a list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def at(value: object, *path: str) -> Any:
    """Return the value below a path of keys, `None` if there is none."""
    for key in path:
        value = mapping(value).get(key)
    return value


def flattened(value: object, prefix: str = "", line: int = 1) -> Iterator[tuple[LineText, str]]:
    """Yield each scalar with its dotted path, as Spring and Quarkus read YAML: `a.b[0]`.

    Args:
        value: a tree.
        prefix: the path of the tree.
        line: its line.
    """
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flattened(one, f"{prefix}.{key}" if prefix else str(key), key.line)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from flattened(one, f"{prefix}[{number}]", line)
    else:
        yield LineText(prefix, line), "" if value is None else str(value)
