"""A measure: what is counted of a unit, how the units of a trial add up, and the rows that follow.

A new measure is a class in its module and an entry in `spark_jobs.pipeline.MEASURES`. Columns of
`trials` also need a quantity (`experiments.ledger.quantities`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar, cast

import pyarrow as pa

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.spark_jobs.io.ledgers import Ledger
from ackbench.spark_jobs.measures.consumers import ConsumerEnding, consumer_ending
from ackbench.spark_jobs.measures.stalls import TrialStalls, stalls_of
from ackbench.spark_jobs.measures.unit import MeasuredUnit

Row = Mapping[str, Any]
Tables = Mapping[str, Iterable[Row] | pa.Table]
"""Rows of result tables by name, without trial_id; of `trials` the columns of one row."""


class Measure(ABC):
    """The measure of a unit, or of several units of a trial together: small, immutable."""

    @classmethod
    @abstractmethod
    def of(cls, unit: MeasuredUnit) -> Self | None:
        """Measure a unit; `None`: the trial has nothing of the kind, whichever unit it is."""

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """Return what was measured of two units of a trial; a record is in one of them only."""

    @abstractmethod
    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return the trial's rows."""

    @property
    def written(self) -> int:
        """The number of records that it found attempted, stored or received by the consumer."""
        return 0


class OfEvents(Measure):
    """A measure whose rows follow from the trial's events, or from other measures."""

    @classmethod
    def of(cls, unit: MeasuredUnit) -> Self:
        """Return the measure: nothing is counted."""
        del unit
        return cls()

    def __add__(self, other: Self) -> Self:
        """Return the measure."""
        del other
        return self


class OfEntireTrial(Measure):
    """A measure of trials that are not divided."""

    def __add__(self, other: Self) -> Self:
        """Return nothing: no such trial has two units."""
        raise AssertionError(f"{type(self).__name__} of two units")


M = TypeVar("M", bound=Measure)


@dataclass(frozen=True)
class MeasuredTrial:
    """All measures of a unit, or of several units of a trial together."""

    ledger: Ledger
    context: Mapping[str, pa.Table]
    """The tables of the entire trial with a few hundred rows: events, epochs, transactions, and
    served if the trial has it."""
    measures: Mapping[type[Measure], Measure]
    """Those that the trial has, in the order of `spark_jobs.pipeline.MEASURES`."""

    def __add__(self, other: MeasuredTrial) -> MeasuredTrial:
        """Return what was measured of the units of both."""
        return MeasuredTrial(
            self.ledger,
            self.context,
            {kind: found + other.measures[kind] for kind, found in self.measures.items()},
        )

    def __getitem__(self, kind: type[M]) -> M:
        """Return a measure that every trial has."""
        return cast(M, self.measures[kind])

    def rows_of(self, kind: type[Measure]) -> Mapping[str, list[Row] | pa.Table]:
        """Return the rows of a measure, made once: those of another may follow from them."""
        if kind not in self._rows:
            self._rows[kind] = {
                name: rows if isinstance(rows, pa.Table) else list(rows)
                for name, rows in self[kind].rows(self).items()
            }
        return self._rows[kind]

    @cached_property
    def _rows(self) -> dict[type[Measure], Mapping[str, list[Row] | pa.Table]]:
        return {}

    @property
    def manifest(self) -> TrialManifest:
        """The trial's manifest."""
        return self.ledger.manifest

    @property
    def events(self) -> pa.Table:
        """Its events."""
        return self.context["events"]

    @property
    def is_written(self) -> bool:
        """Return `True` if anything was attempted, stored or received."""
        return any(measure.written for measure in self.measures.values())

    @cached_property
    def ending(self) -> ConsumerEnding | None:
        """The end of its concurrent consumer; `None`: there is no such event."""
        return consumer_ending(self.events)

    @cached_property
    def stalls(self) -> TrialStalls:
        """When the harness kept its processes from running."""
        return stalls_of(self.manifest, self.events)
