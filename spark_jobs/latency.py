"""How long acknowledgement and delivery took, from the time the record was intended: exact quantiles, to the microsecond.

Quantiles come from a histogram of whole microseconds. Cutting to microseconds never changes the order of two values, so the
quantile of the cut values is the cut quantile of the values themselves.

Between the ledger and the result, trial, measure and phase are small numbers: a key of texts would cost more than all the rest.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.measured import QUANTILES, Measure, Phase
from experiments.ledger.schema import ACKED
from spark_jobs.blocks import BLOCK, bits, with_block

_PARTS: Final = ("trial_no", "measure", "phase")
_MEASURES: Final = tuple(Measure)
_PHASES: Final = tuple(Phase)
_SLOT_BITS: Final = 10


def ack_latencies(attempts: DataFrame) -> DataFrame:
    """Return intended_ns and end_ns of every acknowledged record that tells when, measure 0 (`ack`).

    Args:
        attempts: trial_id, intended_ns, settled_ns, outcome.
    """
    acked = attempts.where((sf.col("outcome") == ACKED) & sf.col("settled_ns").isNotNull())
    return acked.select("trial_id", sf.lit(_MEASURES.index(Measure.ACK)).alias("measure"), "intended_ns", sf.col("settled_ns").alias("end_ns"))


def read_blocks(reads: DataFrame) -> DataFrame:
    """Return the blocks of what was read: key, `present` (bitmap), `copies` (reads)."""
    blocks = with_block(reads.where("producer IS NOT NULL")).groupBy(*BLOCK)
    return blocks.agg(bits("bit").alias("present"), sf.count("*").alias("copies")).select(*BLOCK, "present", "copies")


def first_reads(reads: DataFrame, crowded_blocks: DataFrame) -> DataFrame:
    """Return the first read of every record: as it is in blocks where nothing was read twice, the earliest in crowded ones.

    Args:
        reads: trial_id, producer, seq, intended_ns, received_ns; rows without producer are not of this trial.
        crowded_blocks: those of `read_blocks` that `spark_jobs.blocks.crowded` picks.

    Returns:
        trial_id, intended_ns, received_ns.
    """
    blocked, columns = with_block(reads.where("producer IS NOT NULL")), ("trial_id", "intended_ns", "received_ns")
    earliest = (sf.min(name).alias(name) for name in columns[1:])
    once = blocked.join(crowded_blocks, list(BLOCK), "left_anti").select(*columns)
    often = blocked.join(crowded_blocks, list(BLOCK), "left_semi").groupBy(*BLOCK, "bit").agg(*earliest).select(*columns)
    return once.unionByName(often)


def end_to_end_latencies(reads: DataFrame) -> DataFrame:
    """Return intended_ns and end_ns of every read, measure 1 (`end_to_end`).

    Args:
        reads: trial_id, intended_ns, received_ns; first reads only, rows without intended_ns are not of this trial.
    """
    ours = reads.where("intended_ns IS NOT NULL")
    return ours.select("trial_id", sf.lit(_MEASURES.index(Measure.END_TO_END)).alias("measure"), "intended_ns", sf.col("received_ns").alias("end_ns"))


def whole_us(latencies: DataFrame, phases: DataFrame) -> DataFrame:
    """Cut latencies to whole microseconds, downwards also below zero, and say in which phase the record was intended.

    Args:
        latencies: trial_id, measure, intended_ns, end_ns.
        phases: trial_id, trial_no, fault_begin_ns, fault_end_ns, a row a trial.

    Returns:
        trial_no, measure, phase (null: a trial without fault), us.
    """
    us = sf.expr("(end_ns - intended_ns - pmod(end_ns - intended_ns, 1000L)) div 1000L")
    marked = latencies.join(sf.broadcast(phases.select("trial_id", "trial_no", "fault_begin_ns", "fault_end_ns")), "trial_id")
    return marked.select("trial_no", "measure", _phase().alias("phase"), us.alias("us"))


def coarse(latencies: DataFrame) -> DataFrame:
    """Cut latencies further down to slots of a millisecond or so, told by their lower bound.

    Args:
        latencies: of `whole_us`; the same columns are returned.
    """
    return latencies.withColumn("us", _slot())


def coarse_but(latencies: DataFrame, fine_slots: DataFrame) -> DataFrame:
    """Cut latencies down to slots, all but those in some.

    Args:
        latencies: of `whole_us`; the same columns are returned.
        fine_slots: trial_no, measure, slot (its lower bound, microseconds).
    """
    fine = sf.broadcast(fine_slots.withColumn("fine", sf.expr("true")))
    return (
        latencies.withColumn("slot", _slot())
        .join(fine, ["trial_no", "measure", "slot"], "left")
        .select(*_PARTS, sf.when(sf.col("fine"), sf.col("us")).otherwise(sf.col("slot")).alias("us"))
    )


def _slot() -> Column:
    return sf.shiftleft(sf.shiftright("us", _SLOT_BITS), _SLOT_BITS)


def histogram(latencies: DataFrame) -> DataFrame:
    """Count equal latencies.

    Args:
        latencies: trial_no, measure, phase, us.

    Returns:
        trial_no, measure, phase, us, records.
    """
    return latencies.groupBy(*_PARTS, "us").agg(sf.count("*").alias("records")).select(*_PARTS, "us", "records")


def slots_of(found: DataFrame) -> DataFrame:
    """Return the slots that quantiles lie in.

    Args:
        found: of `quantiles`, over `coarse` latencies.

    Returns:
        trial_no, measure, slot; each once.
    """
    slots = sf.array(*(f"{name}_us" for name in QUANTILES))
    return found.select("trial_no", "measure", sf.explode(slots).alias("slot")).distinct()


def _phase() -> Column:
    """The phase that the record was intended in; a fault that nothing ended lasts to the end."""
    intended = sf.col("intended_ns")
    before, after = intended < sf.col("fault_begin_ns"), intended >= sf.col("fault_end_ns")
    in_fault = sf.when(before, _phase_no(Phase.BEFORE)).when(after, _phase_no(Phase.AFTER)).otherwise(_phase_no(Phase.DURING))
    return sf.when(sf.col("fault_begin_ns").isNotNull(), in_fault)


def _phase_no(phase: Phase) -> Column:
    return sf.lit(_PHASES.index(phase))


def quantiles(counted: DataFrame) -> DataFrame:
    """Read the quantiles off a histogram, by phase and over all.

    Args:
        counted: trial_no, measure, phase, us, records; of `histogram`.

    Returns:
        trial_no, measure, phase, records, negative_records and `<quantile>_us` for each of `QUANTILES`.
    """
    parts = Window.partitionBy(*_PARTS)
    both = sf.explode(sf.array_compact(sf.array(_phase_no(Phase.ALL), "phase"))).alias("phase")
    up_to = sf.sum("records").over(parts.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return (
        counted.select("trial_no", "measure", both, "us", "records")
        .select(*_PARTS, "us", "records", up_to.alias("up_to"), sf.sum("records").over(parts).alias("of"))
        .groupBy(*_PARTS)
        .agg(sf.sum("records").alias("records"), _negative().alias("negative_records"), *(_quantile(p).alias(f"{name}_us") for name, p in QUANTILES.items()))
        .select(*_PARTS, "records", "negative_records", *(f"{name}_us" for name in QUANTILES))
    )


def _negative() -> Column:
    return sf.sum(sf.when(sf.col("us") < 0, sf.col("records")).otherwise(0))


def _quantile(thousandths: int) -> Column:
    """Nearest rank, in whole numbers: the smallest value with up_to / of >= thousandths / 1000; equal values may stand in several rows."""
    return sf.min(sf.when(sf.col("up_to") * 1000 >= sf.col("of") * thousandths, sf.col("us")))


def named(found: DataFrame, phases: DataFrame) -> DataFrame:
    """Give trials, measures and phases their names again.

    Args:
        found: of `quantiles`.
        phases: trial_id, trial_no, a row a trial.

    Returns:
        trial_id, measure, phase and the other columns of `found`.
    """
    names = (sf.element_at(sf.array(*map(sf.lit, of)), sf.col(name) + 1).alias(name) for name, of in (("measure", _MEASURES), ("phase", _PHASES)))
    values = [name for name in found.columns if name not in _PARTS]
    return found.join(sf.broadcast(phases.select("trial_id", "trial_no")), "trial_no").select("trial_id", *names, *values)
