"""The planted cases of test files, called one by one in this process: a judge that takes milliseconds."""

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
from mutations.running import in_place


def a_case_fails(mutant: Mutant, files: Sequence[Path], given: Mapping[str, Any]) -> bool:
    """Tell whether a mutant makes a test of some files fail, or breaks before there is one."""
    try:
        with in_place(mutant):
            run(files, given)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever a mistake leads to, it was noticed
        return True
    return False


def run(files: Sequence[Path], given: Mapping[str, Any]) -> None:
    """Call every test of some files, but for those that ask for fixtures which are not given."""
    for file in files:
        for case in _cases(file, given):
            case()


def _cases(file: Path, given: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
    """Yield every test of a file, which is imported anew, with each of its parameters."""
    for name, test in _imported(file).items():
        wants = signature(test).parameters if name.startswith("test_") else ()
        for arguments in _parameters(test) if name.startswith("test_") else ():
            known = {**given, **arguments}
            if known.keys() >= set(wants):
                yield partial(test, **{wanted: known[wanted] for wanted in wants})


def _imported(file: Path) -> Mapping[str, Any]:
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    """Yield all combinations of what the test is parametrized with."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for combination in product(*(list(_rows(*mark.args)) for mark in marks)):
        yield {name: value for row in combination for name, value in row.items()}


def _rows(names: str | tuple[str, ...], values: Any) -> Iterator[dict[str, Any]]:
    yield from (
        {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
        for value in values
    )
