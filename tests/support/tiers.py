"""Two tiers of tests: `make test` leaves out what is marked as `further`, `make test-all` nothing.

A test or a case is `further` if `make test` has another of its kind: another client, another width
of a page, another seed, a longer run of the same; also a file that starts a cluster or a service of
its own for one subject. The first tier has every kind of test, `make test-all` every subject.

    @pytest.mark.further                        the test
    @pytest.mark.further("java", "copies")      its cases with these ids
    @pytest.mark.further(width=[768, 1280])     its cases with these values of an argument
    @pytest.mark.parametrize(("a", "b"), pairs(A, B))       all pairs but one for each value

Of many cases of one test the first tier tries some: `@settings(max_examples=examples(150))`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import tally

_first_tier = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the first tier."""
    parser.addoption(
        "--first-tier", action="store_true", help="leave out what is marked as `further`"
    )


def examples(count: int) -> int:
    """Return how many of so many cases this run tries: in the first tier, a third."""
    return -(-count // 3) if _first_tier else count


def pairs(first: Sequence[object], second: Sequence[object]) -> list[pytest.ParameterSet]:
    """Return all pairs; the first tier tries as few as have each value of both."""
    most = max(len(first), len(second))
    tried = {(number % len(first), number % len(second)) for number in range(most)}
    return [
        pytest.param(one, other, marks=() if (i, j) in tried else pytest.mark.further)
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and note the tier before a module of tests is imported."""
    global _first_tier  # noqa: PLW0603 - modules read it while they are imported
    _first_tier = config.getoption("--first-tier")
    config.addinivalue_line(
        "markers", "further(*ids, **values): left out by `make test`, the test or these cases of it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is further; each worker of pytest-xdist does, and the first one counts."""
    if not config.getoption("--first-tier"):
        return
    further = {item for item in items if _is_further(item)}
    config.hook.pytest_deselected(items=list(further))
    items[:] = [item for item in items if item not in further]
    if getattr(config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0":
        tally.count("tests are left to make test-all", len(further))


def _is_further(item: pytest.Item) -> bool:
    case = getattr(item, "callspec", None)
    return any(
        not (mark.args or mark.kwargs)
        or (
            case is not None
            and (
                case.id in mark.args
                or any(case.params[name] in values for name, values in mark.kwargs.items())
            )
        )
        for mark in item.iter_markers("further")
    )
