"""Read any file that has settings of Kafka: what it is, its content says.

`read_file` tries the kinds of files in turn; none is chosen by a name alone, and a file of which
nothing is understood is an error, never an answer about the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from ackbench.experiments.results.checkup.files import products
from ackbench.experiments.results.checkup.files.applications import read_framework
from ackbench.experiments.results.checkup.files.containers import (
    is_variables,
    read_compose,
    read_dockerfile,
    read_variables,
)
from ackbench.experiments.results.checkup.files.found import FoundFile, Scope
from ackbench.experiments.results.checkup.files.operators import (
    chart_values,
    is_resource,
    read_chart,
    read_resources,
)
from ackbench.experiments.results.checkup.files.properties_files import pairs_of, take_pairs
from ackbench.experiments.results.checkup.files.sources import is_source, read_source
from ackbench.experiments.results.checkup.files.text import text_of
from ackbench.experiments.results.checkup.files.trees import (
    at,
    flattened,
    mapping,
    toml_document,
    yaml_documents,
)
from ackbench.infra.errors import InputError

_YAML: Final = (".yml", ".yaml")
_DOCKERFILE: Final = re.compile(r"(\s*#.*\n|\s*\n)*(FROM|ARG|ENV) +[\w$]")
_TOML: Final = re.compile(r"^\s*\[\[?[\w.\"-]+\]\]?\s*(#.*)?$", re.MULTILINE)


def read_file(path: Path, scopes: Sequence[Scope] = ()) -> FoundFile:
    """Return the settings of a file.

    Args:
        path: the file.
        scopes: what it is about, where its names do not say it: of a plain property file.

    Raises:
        InputError: it cannot be read, is too large or binary, is a template, or has no setting of
            Kafka that is known; one line.
    """
    text = text_of(path)
    for read in _KINDS:
        found = read(text, path, scopes)
        if found is not None:
            return found
    raise InputError(f"{path}: no setting of Kafka was found in it")


def _program(text: str, path: Path, _: Sequence[Scope]) -> FoundFile | None:
    return read_source(text, path) if is_source(path) else None


def _dockerfile(text: str, path: Path, _: Sequence[Scope]) -> FoundFile | None:
    if "dockerfile" in path.name.lower() or (
        path.suffix not in _YAML
        and _DOCKERFILE.match(text)
        and "=" not in text.split("\n", maxsplit=1)[0]
    ):
        return read_dockerfile(text, path)
    return None


def _shipper(text: str, path: Path, _: Sequence[Scope]) -> FoundFile | None:
    """Return the settings of a product whose files have a notation of their own."""
    for product, options_of in products.NOTATIONS:
        outputs = options_of(text) if path.suffix not in _YAML else []
        if outputs:
            return products.read_products([(product, one) for one in outputs], path)
    return None


def _toml(text: str, path: Path, scopes: Sequence[Scope]) -> FoundFile | None:
    sections = _TOML.search(text) and path.suffix not in {*_YAML, ".properties"}
    if path.suffix == ".toml" or sections:
        return _read_tree(toml_document(text, path), path, scopes)
    return None


def _yaml_or_json(text: str, path: Path, scopes: Sequence[Scope]) -> FoundFile | None:
    if path.suffix in _YAML or has_structure(text):
        return _read_trees(text, path, scopes)
    return None


def _properties(text: str, path: Path, scopes: Sequence[Scope]) -> FoundFile:
    pairs = list(pairs_of(text, path))
    if is_variables([name for name, _ in pairs]):
        return read_variables(text, path)
    found = None if scopes else read_framework(pairs, path)
    return found or take_pairs(pairs, path, "properties", scopes)


_KINDS: Final = (_program, _dockerfile, _shipper, _toml, _yaml_or_json, _properties)
"""Each returns what it found, `None`: the file is of another kind. The last one takes any."""


def _read_trees(text: str, path: Path, scopes: Sequence[Scope]) -> FoundFile:
    documents = yaml_documents(text, path)
    if not documents:
        raise InputError(f"{path} is empty")
    if any(is_resource(one) for one in documents):
        return read_resources([one for one in documents if is_resource(one)], path)
    if len(documents) == 1 and isinstance(at(documents[0], "services"), dict):
        return read_compose(documents[0], path)
    pairs = [pair for document in documents for pair in flattened(document)]
    if found := read_framework(pairs, path):
        return found
    values = chart_values(documents[0])
    if values is not None:
        return read_chart(values, path)
    if len(documents) == 1:
        return _read_tree(documents[0], path, scopes)
    raise InputError(f"{path}: no setting of Kafka was found in its {len(documents)} documents")


def _read_tree(document: object, path: Path, scopes: Sequence[Scope] = ()) -> FoundFile:
    """Return the settings of a product's file, of a connector, or of plain names of Kafka."""
    outputs = list(products.tree_options(document))
    if outputs:
        return products.read_products(outputs, path)
    config = at(document, "config")
    pairs = list(flattened(config if isinstance(config, dict) else document))
    if found := read_framework(pairs, path):
        return found
    if mapping(document):
        return take_pairs(pairs, path, "names and values", scopes)
    raise InputError(f"{path}: no setting of Kafka was found in it")


def has_structure(text: str) -> bool:
    """Return whether a text has the structure of YAML or JSON, which property files do not have.

    Lines such as `acks: all` are both, with the same meaning. Nothing is constructed.
    """
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > 1 or event.flow_style or isinstance(event, yaml.SequenceStartEvent):
                    return True
            block = isinstance(event, yaml.ScalarEvent) and event.style in {"|", ">"}
            if block or (isinstance(event, yaml.DocumentStartEvent) and event.explicit):
                return True
    except (yaml.YAMLError, RecursionError):
        return False
    return False
