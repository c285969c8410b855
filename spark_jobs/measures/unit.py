"""A unit as its measures see it, and what several of them need of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from ackbench.experiments.ledger.trial_manifest import Phases, TrialManifest
from ackbench.spark_jobs.io.arrays import Reads, UnitArrays
from ackbench.spark_jobs.io.columns import BoolColumn
from ackbench.spark_jobs.measures import consumers

Computed = TypeVar("Computed")


@dataclass(frozen=True)
class MeasuredUnit:
    """A unit whose arrays have the outcomes as a `read_committed` application sees them."""

    arrays: UnitArrays
    _computed: dict[Callable[[MeasuredUnit], Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, compute: Callable[[MeasuredUnit], Computed]) -> Computed:
        """Return what a function computes of this unit; several measures need it."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        computed: Computed = self._computed[compute]
        return computed

    @property
    def manifest(self) -> TrialManifest:
        """The trial's manifest."""
        return self.arrays.rows.ledger.manifest

    @property
    def phases(self) -> Phases:
        """The trial's phases."""
        return self.manifest.phases

    @property
    def events(self) -> pa.Table:
        """The trial's events."""
        return self.arrays.rows.tables["events"]

    @cached_property
    def ending(self) -> consumers.ConsumerEnding | None:
        """The end of the concurrent consumer; `None`: there is no such event."""
        return consumers.consumer_ending(self.events)

    @cached_property
    def groups(self) -> tuple[consumers.GroupOffsets, ...]:
        """The trial's consumer groups at their end."""
        return consumers.groups_of(self.events)

    @cached_property
    def _by_members(self) -> BoolColumn:
        return consumers.by_members(self.arrays.reads, self.groups)

    @cached_property
    def received(self) -> Reads:
        """The reads of the concurrent consumer."""
        return self.arrays.reads.where(~self._by_members)

    @cached_property
    def processed(self) -> Reads:
        """The reads of the groups' members."""
        return self.arrays.reads.where(self._by_members)
