"""Units and trials on Spark: which task does what, and what passes through the driver.

A trial that is one unit is measured by one task. The units of a divided trial are measured by a
task each, and their measures go through a shuffle, in pieces, to one task that adds them up. The
tables of a trial, in either case, stay on the disk of their executor, unless they are small. The
driver fetches them, a few trials at a time. So nothing that grows with the number of records is on
its heap, and of a trial at most `DIRECT_BYTES` for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import RDD, SparkContext, StorageLevel

from ackbench.spark_jobs.io.ledgers import InvalidLedger, Ledgers
from ackbench.spark_jobs.io.transport import Packed, Piece, from_pieces, pack, to_pieces, unpack
from ackbench.spark_jobs.io.units import UNIT_RECORDS, Unit, split
from ackbench.spark_jobs.measures.measure import MeasuredTrial
from ackbench.spark_jobs.pipeline import (
    TrialTables,
    merge_units,
    sweep_tables,
    tables_or_error,
    verify_and_measure,
)

FETCHED_BYTES: Final = 1 << 26
"""How much is fetched at a time, compressed, about."""
DIRECT_BYTES: Final = 1 << 16
"""Up to so much, compressed, the tables of a trial are small."""


class TrialOutcome(NamedTuple):
    """The result of a task for a trial."""

    trial_id: str
    error: InvalidLedger | None
    tables: Packed | None
    """`None`: there is an error, or they are in Spark's storage."""
    partition: int = 0
    packed_bytes: int = 0


@dataclass(frozen=True)
class MeasuredTrials:
    """What was measured of each trial; large tables stay with Spark until they are fetched."""

    outcomes: Sequence[TrialOutcome] = ()
    """By trial id."""
    stored: RDD[TrialOutcome] | None = None

    @property
    def measured(self) -> Sequence[str]:
        """The trials that have tables."""
        return [outcome.trial_id for outcome in self.outcomes if outcome.error is None]

    @property
    def unfit(self) -> Mapping[str, InvalidLedger]:
        """Why the others have none."""
        return {outcome.trial_id: outcome.error for outcome in self.outcomes if outcome.error}

    def require_all(self) -> MeasuredTrials:
        """Return this.

        Raises:
            InvalidLedger: a trial could not be measured; the message names it.
        """
        for error in self.unfit.values():
            raise error
        return self

    def tables(self) -> Iterator[tuple[str, TrialTables]]:
        """Yield the result tables of each trial, by trial id; a few trials are in memory."""
        for batch in self._batches():
            fetched = self._fetched([one.partition for one in batch if one.tables is None])
            for outcome in batch:
                yield outcome.trial_id, unpack(outcome.tables or fetched[outcome.trial_id])

    def _batches(self) -> Iterator[Sequence[TrialOutcome]]:
        """Yield the trials that are fetched together."""
        batch, stored_bytes = list[TrialOutcome](), 0
        for outcome in self.outcomes:
            if outcome.error:
                continue
            batch.append(outcome)
            stored_bytes += 0 if outcome.tables else outcome.packed_bytes
            if stored_bytes >= FETCHED_BYTES:
                yield batch
                batch, stored_bytes = [], 0
        yield batch

    def _fetched(self, partitions: list[int]) -> Mapping[str, Packed]:
        if not partitions or self.stored is None:
            return {}
        found = self.stored.context.runJob(self.stored, list, partitions)
        return {outcome.trial_id: outcome.tables for outcome in found if outcome.tables}


def measure_ledgers(
    spark: SparkContext, ledgers: Ledgers, unit_records: int = UNIT_RECORDS
) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

    Raises:
        InvalidLedger: as in `measure_trials`, of any trial.
    """
    return sweep_tables(dict(measure_trials(spark, ledgers, unit_records).require_all().tables()))


def measure_trials(
    spark: SparkContext, ledgers: Ledgers, unit_records: int = UNIT_RECORDS
) -> MeasuredTrials:
    """Measure each trial.

    A trial is unfit if a file is not as it was sealed, its footer is valid but its data cannot be
    read, or a sum does not hold.

    Args:
        spark: where units are measured.
        ledgers: the sealed trials; Spark's executors open the same location.
        unit_records: the most records of a unit, which bounds the memory of a task.
    """
    location, units = ledgers.location, split(ledgers.trials, unit_records)
    entire = [unit for unit in units if unit.is_whole_trial]
    divided = [unit for unit in units if not unit.is_whole_trial]
    trials: list[RDD[TrialOutcome]] = []
    if entire:
        trials.append(
            spark.parallelize(entire, len(entire)).map(
                lambda unit: trial_outcome(*verify_and_measure(location, unit))
            )
        )
    if divided:
        places = {trial_id: place for place, trial_id in enumerate(trial_ids(divided))}
        trials.append(
            spark.parallelize(list(enumerate(divided)), len(divided))
            .flatMap(lambda numbered: unit_pieces(location, *numbered))
            .partitionBy(len(places), lambda trial_id: places[trial_id])
            .mapPartitions(merged_outcomes)
        )
    if not trials:
        return MeasuredTrials()
    stored = spark.union(trials).persist(StorageLevel.DISK_ONLY)
    outcomes = stored.mapPartitionsWithIndex(small_outcomes).collect()
    return MeasuredTrials(sorted(outcomes, key=attrgetter("trial_id")), stored)


def trial_ids(units: Iterable[Unit]) -> list[str]:
    """Return the trials of some units, sorted."""
    return sorted({unit.ledger.manifest.trial_id for unit in units})


def unit_pieces(location: str, number: int, unit: Unit) -> Iterator[tuple[str, Piece]]:
    """Measure a unit, in an executor, and yield its measures as pieces with the trial's id."""
    trial_id, measures = verify_and_measure(location, unit)
    return ((trial_id, piece) for piece in to_pieces(measures, number))


def merged_outcomes(pieces: Iterable[tuple[str, Piece]]) -> Iterator[TrialOutcome]:
    """Yield the outcome of a divided trial, in an executor, from the pieces of all its units."""
    remaining = iter(pieces)
    trial_id, first = next(remaining)
    units = from_pieces(chain([first], map(itemgetter(1), remaining)))
    yield trial_outcome(trial_id, reduce(merge_units, units))


def trial_outcome(trial_id: str, measures: MeasuredTrial | InvalidLedger) -> TrialOutcome:
    """Return a trial's tables, in an executor, packed."""
    tables = tables_or_error(measures)
    if isinstance(tables, InvalidLedger):
        return TrialOutcome(trial_id, tables, None)
    return TrialOutcome(trial_id, None, pack(tables))


def small_outcomes(partition: int, outcomes: Iterable[TrialOutcome]) -> Iterator[TrialOutcome]:
    """Yield a partition's outcomes without tables that are large."""
    for outcome in outcomes:
        size = len(outcome.tables.data) if outcome.tables else 0
        yield outcome._replace(
            partition=partition,
            packed_bytes=size,
            tables=outcome.tables if size <= DIRECT_BYTES else None,
        )
