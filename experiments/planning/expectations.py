"""Reads what an experiment expects: `lost: 0`, `unavailable_ms: < 5s`, for all cells or some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ackbench.experiments.ledger.quantities import QuantityUnit
from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean, format_value, list_some
from ackbench.experiments.planning.axes import KnownNames, SettingPlace, resolve_axis
from ackbench.experiments.planning.cells import canonical_value
from ackbench.experiments.planning.field_types import WHERE, ExpectSection
from ackbench.experiments.planning.yaml_reader import number_of, parse_yaml
from ackbench.experiments.sweep.expectations import (
    EXPECTABLE,
    Expectation,
    Relation,
    is_count,
    unit_of,
)

_BOUND: Final = re.compile(r"\s*(?P<relation><=|>=|<|>|=)?\s*(?P<value>[^<>=\s].*?)\s*")
_EXPECTED: Final = re.compile(r"\s*(?P<measure>[a-z0-9_]+)\s*(?P<bound>[<>=].*)")
_ALLOWED: Final = "a number, or a bound such as '< 5s' or '>= 100'"


def parse_expected(texts: Iterable[str]) -> tuple[ExpectSection, ...]:
    """Return the sections of `--expect`, each of one bound of all cells.

    Raises:
        ExperimentError: a text is not like `lost=0` or `unavailable_ms<5s`.
    """
    sections: list[ExpectSection] = []
    for text in texts:
        match = _EXPECTED.fullmatch(text)
        if match is None:
            raise ExperimentError(
                f"--expect {format_value(text)}: write a measure and its bound, as in "
                "--expect lost=0 or --expect 'unavailable_ms<5s'"
            )
        sections.append({match["measure"]: match["bound"].strip()})
    return tuple(sections)


def expectations(
    sections: Sequence[ExpectSection],
    cells: Sequence[Cell],
    places: Mapping[str, SettingPlace],
    known: KnownNames,
) -> Iterator[Expectation]:
    """Yield the bounds of the sections of an experiment.

    Args:
        sections: `expect` of the experiment.
        cells: its own cells.
        places: the setting of each axis of the cells.
        known: the names that the experiment may use.

    Raises:
        ExperimentError: a measure is unknown, a bound not one of it, or `where` names an axis that
            no cell has, or values that none has; one line.
    """
    for section in sections:
        about = _where(section.get(WHERE, {}), cells, places, known)
        for name, bound in section.items():
            if name != WHERE:
                relation, value = _bound(name, bound)
                yield Expectation(measure=name, relation=relation, bound=value, where=about)


def _bound(name: str, written: Any) -> tuple[Relation, bool | int | float]:
    if name not in EXPECTABLE:
        raise ExperimentError(
            f"expect: no measure {format_value(name)}{did_you_mean(name, EXPECTABLE)}; such as "
            "lost, duplicates, unavailable_ms, ack_p99_ms (all: docs/experiments.md)"
        )
    match = _BOUND.fullmatch(written) if isinstance(written, str) else None
    relation = Relation((match and match["relation"]) or Relation.EQUAL)
    value = number_of(name, parse_yaml(match["value"], f"expect.{name}")) if match else written
    shown = format_value(match["value"] if match and relation is Relation.EQUAL else written)
    if unit_of(name) is QuantityUnit.YES_NO:
        if not isinstance(value, bool) or relation is not Relation.EQUAL:
            raise ExperimentError(f"expect.{name} is {shown}; allowed: true or false")
    elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ExperimentError(f"expect.{name} is {shown}; allowed: {_ALLOWED}")
    elif relation is Relation.EQUAL and not is_count(name):
        raise ExperimentError(
            f"expect.{name} is {shown}, and no two times or rates are equal; "
            f"allowed: a bound such as '< {value}'"
        )
    return relation, value


def _where(
    where: Any, cells: Sequence[Cell], places: Mapping[str, SettingPlace], known: KnownNames
) -> dict[str, tuple[Scalar, ...]]:
    if not isinstance(where, Mapping):
        raise ExperimentError(
            f"expect.where is {format_value(where)}; allowed: values by axis, such as {{acks: all}}"
        )
    about: dict[str, tuple[Scalar, ...]] = {}
    for name, written in where.items():
        place = resolve_axis(name, known)
        axis = next((one for one, other in places.items() if other == place), None)
        if axis is None:
            raise ExperimentError(
                f"expect.where.{name}: no axis of this experiment{did_you_mean(name, places)}; "
                f"axes: {', '.join(places)}"
            )
        values = tuple(canonical_value(place, value, known) for value in written)
        swept = {str(cell.get(axis)) for cell in cells}
        for value in values:
            if str(value) not in swept:
                raise ExperimentError(
                    f"expect.where.{name} is {format_value(value)}, which no cell has; "
                    f"they have {list_some(sorted(swept))}"
                )
        about[axis] = values
    return about
