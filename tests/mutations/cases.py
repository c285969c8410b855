"""Test files as a judge of mutants: their tests are called in this process, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from mutations.mutator import Mutant
from mutations.running import mutant_in_place


def is_caught_by_cases(mutant: Mutant, files: Sequence[Path], fixtures: Mapping[str, Any]) -> bool:
    """Return whether a test of the given files fails with a mutant, or cannot be imported.

    Args:
        mutant: replaces its module meanwhile.
        files: the test files.
        fixtures: the fixtures of their tests, by name.
    """
    try:
        with mutant_in_place(mutant):
            run_cases(files, fixtures)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any error: it was caught
        return True
    return False


def run_cases(files: Sequence[Path], fixtures: Mapping[str, Any]) -> None:
    """Call every test of the given files, except those that need other fixtures."""
    for file in files:
        for case in _cases(file, fixtures):
            case()


def _cases(file: Path, fixtures: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
    """Import a file again, and yield each of its tests with each of its parameters."""
    for test_name, test in _import(file).items():
        needed = signature(test).parameters if test_name.startswith("test_") else ()
        for arguments in _parameters(test) if test_name.startswith("test_") else ():
            arguments_by_name = {**fixtures, **arguments}
            if arguments_by_name.keys() >= set(needed):
                yield partial(test, **{name: arguments_by_name[name] for name in needed})


def _import(file: Path) -> Mapping[str, Any]:
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    """Yield all combinations of the test's parameters."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for combination in product(*(list(_rows(*mark.args)) for mark in marks)):
        yield {name: value for row in combination for name, value in row.items()}


def _rows(names: str | tuple[str, ...], values: Any) -> Iterator[dict[str, Any]]:
    yield from (
        {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
        for value in values
    )
