"""Latency of acknowledgement and of delivery, with quantiles exact to the microsecond.

Both are measured from the record's intended time. Quantiles come from a histogram of whole
microseconds. Truncation to microseconds keeps the order of any two values, so the quantile of the
truncated values is the truncated quantile.

Histograms are log-linear, as an HDR histogram: slots are 1 us wide below 256 us, and above at most
1/128 of the value. Below zero they are the mirror image: -1 is to -2 what 0 is to 1.

Between the ledger and the result, trial, measure and phase are small numbers: grouping by strings
would cost more than all the rest.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import QUANTILES, Measure, Phase
from experiments.ledger.schema import ACKED
from spark_jobs.measures.blocks import BLOCK, RECORD, with_block

_EXACT_BITS: Final = 8
_BITS: Final = 63
_PARTS: Final = ("trial_no", "measure", "phase")
_MEASURES: Final = tuple(Measure)
_PHASES: Final = tuple(Phase)


def slot(us: str) -> Column:
    """Return the lower bound of a value's slot; both in whole microseconds."""
    width_bits = _width_bits(us)
    return sf.call_function(
        "shiftleft", sf.call_function("shiftright", sf.col(us), width_bits), width_bits
    )


def slot_end(from_us: str) -> Column:
    """Return the upper bound, exclusive, of the slot with this lower bound."""
    return sf.col(from_us) + sf.call_function(
        "shiftleft", sf.lit(1).cast("long"), _width_bits(from_us)
    )


def _width_bits(us: str) -> Column:
    """Return the slot's width as a power of two.

    By comparisons: logarithms of floating-point numbers are wrong at the bounds.
    """
    magnitude = sf.when(sf.col(us) < 0, sf.bitwise_not(us)).otherwise(sf.col(us))
    steps = [(magnitude < 2**bits, bits - _EXACT_BITS) for bits in range(_EXACT_BITS, _BITS)]
    first, *others = steps
    chain = reduce(lambda chosen, step: chosen.when(step[0], step[1]), others, sf.when(*first))
    return chain.otherwise(_BITS - _EXACT_BITS)


def ack_latencies(attempts: DataFrame) -> DataFrame:
    """Return trial_no, measure 0 (`ack`), intended_ns and end_ns of every acknowledged record.

    Args:
        attempts: trial_no, intended_ns, settled_ns, outcome.
    """
    acked = attempts.where((sf.col("outcome") == ACKED) & sf.col("settled_ns").isNotNull())
    return acked.select(
        "trial_no",
        sf.lit(_MEASURES.index(Measure.ACK)).alias("measure"),
        "intended_ns",
        sf.col("settled_ns").alias("end_ns"),
    )


def first_reads(reads: DataFrame, suspects: DataFrame, repeated: DataFrame) -> DataFrame:
    """Return the first read of every record.

    In blocks where nothing was read twice this is the only read, in the others the earliest.

    Args:
        reads: trial_no, producer, seq, intended_ns, received_ns; rows without a producer are not
            of this trial.
        suspects: the blocks that `spark_jobs.measures.blocks.has_repeated_reads` selects.
        repeated: the reads of those blocks.

    Returns:
        trial_no, intended_ns, received_ns.
    """
    columns = ("trial_no", "intended_ns", "received_ns")
    earliest = (sf.min(name).alias(name) for name in columns[1:])
    once = (
        with_block(reads.where("producer IS NOT NULL"))
        .join(suspects.select(*BLOCK), list(BLOCK), "left_anti")
        .select(*columns)
    )
    often = (
        with_block(repeated.where("producer IS NOT NULL"))
        .groupBy(*RECORD)
        .agg(*earliest)
        .select(*columns)
    )
    return once.unionByName(often)


def end_to_end_latencies(reads: DataFrame) -> DataFrame:
    """Return trial_no, measure 1 (`end_to_end`), intended_ns and end_ns of every read.

    Args:
        reads: trial_no, intended_ns, received_ns; first reads only. Rows without intended_ns are
            not of this trial.
    """
    of_trial = reads.where("intended_ns IS NOT NULL")
    return of_trial.select(
        "trial_no",
        sf.lit(_MEASURES.index(Measure.END_TO_END)).alias("measure"),
        "intended_ns",
        sf.col("received_ns").alias("end_ns"),
    )


def both_latencies(attempts: DataFrame, reads: DataFrame) -> DataFrame:
    """Return trial_no, measure, intended_ns and end_ns of both measures.

    Args:
        attempts: as for `ack_latencies`.
        reads: as for `end_to_end_latencies`.
    """
    return ack_latencies(attempts).unionByName(end_to_end_latencies(reads))


def to_microseconds(latencies: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Round latencies down to whole microseconds, also below zero, and add the phase.

    The phase is the one of the record's intended time.

    Args:
        latencies: trial_no, measure, intended_ns, end_ns.
        trial_info: trial_no, fault_begin_ns, fault_end_ns; one row per trial.

    Returns:
        trial_no, measure, phase (null: a trial without a fault), us.
    """
    us = sf.expr("(end_ns - intended_ns - pmod(end_ns - intended_ns, 1000L)) div 1000L")
    with_fault = latencies.join(
        sf.broadcast(trial_info.select("trial_no", "fault_begin_ns", "fault_end_ns")), "trial_no"
    )
    return with_fault.select("trial_no", "measure", _phase().alias("phase"), us.alias("us"))


def to_slots(latencies: DataFrame) -> DataFrame:
    """Round latencies down to the lower bound of their slot.

    Args:
        latencies: of `to_microseconds`; the same columns are returned.
    """
    return latencies.withColumn("us", slot("us"))


def to_slots_except(latencies: DataFrame, fine_slots: DataFrame) -> DataFrame:
    """Round latencies down to their slot, except those in some slots.

    Args:
        latencies: of `to_microseconds`; the same columns are returned.
        fine_slots: trial_no, measure, slot (its lower bound, microseconds).
    """
    fine = sf.broadcast(fine_slots.withColumn("fine", sf.expr("true")))
    return (
        latencies.withColumn("slot", slot("us"))
        .join(fine, ["trial_no", "measure", "slot"], "left")
        .select(
            *_PARTS, sf.when(sf.col("fine"), sf.col("us")).otherwise(sf.col("slot")).alias("us")
        )
    )


def histogram(latencies: DataFrame) -> DataFrame:
    """Count equal latencies, by phase and over all phases.

    Args:
        latencies: trial_no, measure, phase (null: none), us.

    Returns:
        trial_no, measure, phase, us, records.
    """
    counted = latencies.groupBy(*_PARTS, "us").agg(sf.count("*").alias("records"))
    phases = sf.explode(sf.array_compact(sf.array(_phase_no(Phase.ALL), "phase"))).alias("phase")
    by_phase = counted.select("trial_no", "measure", phases, "us", "records").groupBy(*_PARTS, "us")
    return by_phase.agg(sf.sum("records").alias("records")).select(*_PARTS, "us", "records")


def with_slot_bounds(counted: DataFrame) -> DataFrame:
    """Return a histogram with both bounds of each slot.

    Args:
        counted: of `histogram`, over latencies of `to_slots`.

    Returns:
        trial_no, measure, phase, from_us, to_us (exclusive), records.
    """
    return counted.select(
        *_PARTS, sf.col("us").alias("from_us"), slot_end("us").alias("to_us"), "records"
    )


def quantile_slots(by_slot: DataFrame) -> DataFrame:
    """Return the slots that hold a quantile.

    Args:
        by_slot: of `quantiles`, over latencies of `to_slots`.

    Returns:
        trial_no, measure, slot; each once.
    """
    slots = sf.array(*(f"{name}_us" for name in QUANTILES))
    return by_slot.select("trial_no", "measure", sf.explode(slots).alias("slot")).distinct()


def _phase() -> Column:
    """Return the phase of the intended time; a fault without an end lasts until the trial ends."""
    intended = sf.col("intended_ns")
    before, after = intended < sf.col("fault_begin_ns"), intended >= sf.col("fault_end_ns")
    in_fault = (
        sf.when(before, _phase_no(Phase.BEFORE))
        .when(after, _phase_no(Phase.AFTER))
        .otherwise(_phase_no(Phase.DURING))
    )
    return sf.when(sf.col("fault_begin_ns").isNotNull(), in_fault)


def _phase_no(phase: Phase) -> Column:
    return sf.lit(_PHASES.index(phase))


def quantiles(counted: DataFrame) -> DataFrame:
    """Return the quantiles of a histogram.

    Args:
        counted: of `histogram`.

    Returns:
        trial_no, measure, phase, records, negative_records, and `<quantile>_us` for each of
        `QUANTILES`.
    """
    parts = Window.partitionBy(*_PARTS)
    up_to = sf.sum("records").over(
        parts.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        counted.select(
            *_PARTS,
            "us",
            "records",
            up_to.alias("up_to"),
            sf.sum("records").over(parts).alias("total"),
        )
        .groupBy(*_PARTS)
        .agg(
            sf.sum("records").alias("records"),
            _negative().alias("negative_records"),
            *(_quantile(p).alias(f"{name}_us") for name, p in QUANTILES.items()),
        )
        .select(*_PARTS, "records", "negative_records", *(f"{name}_us" for name in QUANTILES))
    )


def _negative() -> Column:
    return sf.sum(sf.when(sf.col("us") < 0, sf.col("records")).otherwise(0))


def _quantile(thousandths: int) -> Column:
    """Nearest rank, in integers: the smallest value with up_to / total >= thousandths / 1000."""
    return sf.min(sf.when(sf.col("up_to") * 1000 >= sf.col("total") * thousandths, sf.col("us")))


def with_measure_names(rows: DataFrame) -> DataFrame:
    """Replace the numbers of measures and phases by their names.

    Args:
        rows: of `quantiles` or `with_slot_bounds`; the same columns are returned.
    """
    names = {
        name: sf.element_at(sf.array(*map(sf.lit, values)), sf.col(name) + 1)
        for name, values in (("measure", _MEASURES), ("phase", _PHASES))
    }
    return rows.withColumns(names)
