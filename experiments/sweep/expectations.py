"""What an experiment expects of its cells: a bound of a measure, which trials meet or not.

`experiments.planning.expectations` reads them from a file, `experiments.results.expectations`
holds them against what was measured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from ackbench.experiments.ledger.quantities import PLACES_BY_NAME, QuantityUnit
from ackbench.experiments.ledger.result_terms import QUANTILES, LatencyKind
from ackbench.experiments.ledger.trial_manifest import Cell, Frozen, Scalar
from ackbench.experiments.sweep.cell_names import setting_text

LATENCIES: Final[Mapping[str, tuple[LatencyKind, str]]] = {
    f"{kind.value}_{quantile}_ms": (kind, quantile)
    for kind in LatencyKind
    for quantile in QUANTILES
}
"""The quantiles of latencies of a trial, by name: `ack_p99_ms`."""
EXPECTABLE: Final = (*PLACES_BY_NAME, *LATENCIES)
"""The measures that have bounds: the columns of `ackbench.Sweep.trials`, without those of a bound
of an interval."""


_COUNTED: Final = frozenset(
    {QuantityUnit.RECORDS, QuantityUnit.COPIES, QuantityUnit.READS, QuantityUnit.TRANSACTIONS}
)


def unit_of(measure: str) -> QuantityUnit:
    """Return the unit of one of `EXPECTABLE`."""
    return QuantityUnit.MS if measure in LATENCIES else PLACES_BY_NAME[measure][0].quantity.unit


def is_count(measure: str) -> bool:
    """Return whether a measure is a number of records or of the like, and no time or rate."""
    return unit_of(measure) in _COUNTED


class Relation(StrEnum):
    """How a value is to be to its bound."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


_COMPARE: Final[Mapping[Relation, Callable[[float, float], bool]]] = {
    Relation.EQUAL: operator.eq,
    Relation.LESS: operator.lt,
    Relation.AT_MOST: operator.le,
    Relation.MORE: operator.gt,
    Relation.AT_LEAST: operator.ge,
}


def _known_measure(name: str) -> str:
    if name not in EXPECTABLE:
        raise ValueError(f"one of {', '.join(EXPECTABLE)}")
    return name


class Expectation(Frozen):
    """One bound, of some cells or of all."""

    measure: Annotated[str, AfterValidator(_known_measure)]
    """One of `EXPECTABLE`."""
    relation: Relation
    bound: bool | int | float
    where: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    """Values by axis: a cell that has one of them on each axis. Empty: each cell."""

    def __str__(self) -> str:
        """Return it as text: `unavailable_ms < 5,000 where acks=all`."""
        bound = str(self.bound).lower() if isinstance(self.bound, bool) else f"{self.bound:,}"
        where = ", ".join(
            "/".join([setting_text(axis, values[0]), *map(str, values[1:])])
            for axis, values in self.where.items()
        )
        return f"{self.measure} {self.relation} {bound}" + (f" where {where}" if where else "")

    def is_about(self, cell: Cell) -> bool:
        """Return whether it bounds this cell."""
        return all(axis in cell and cell[axis] in values for axis, values in self.where.items())

    def holds(self, low: float, high: float) -> bool | None:
        """Return whether a value between `low` and `high` meets it; `None`: it may or may not."""
        compare = _COMPARE[self.relation]
        if self.relation is Relation.EQUAL:
            if not low <= self.bound <= high:
                return False
            return True if low == high else None
        ends = {compare(low, self.bound), compare(high, self.bound)}
        return ends.pop() if len(ends) == 1 else None
