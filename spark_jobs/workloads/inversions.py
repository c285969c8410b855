"""Inversions: records that are behind a later one of the same key, partition or pair.

They are counted twice: in the order of the log, and in the order in which consumers received them.
Consumers' lags are here too, because both are measured on the same reads.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.workload_tables import OrderObserver, OrderScope

_RECORD: Final = ("trial_no", "producer", "seq")
_POSITION: Final = (*_RECORD, "partition", "place", "observer")
_COUNTS: Final = ("compared", "inverted", "apart")
_SIDES: Final = (("first", False), ("second", True))


def log_positions(log: DataFrame) -> DataFrame:
    """Return each record's position in the log: its first copy.

    The first copy is the one in the lowest partition, and there at the lowest offset.

    Args:
        log: trial_no, partition, offset, producer, seq, intact; visible rows only.

    Returns:
        trial_no, producer, seq, partition, place (the offset), observer.
    """
    intact = log.where("intact AND seq IS NOT NULL")
    first = sf.min(sf.struct("partition", "offset")).alias("first")
    at = (
        intact.groupBy(*_RECORD)
        .agg(first)
        .select(*_RECORD, "first.partition", sf.col("first.offset").alias("place"))
    )
    return at.withColumn("observer", sf.lit(OrderObserver.LOG.value))


def receipt_positions(reads: DataFrame) -> DataFrame:
    """Return each record's position by the time of its first receipt, by any consumer.

    Args:
        reads: trial_no, partition, producer, seq, received_ns.

    Returns:
        The columns of `log_positions`; place is the time in nanoseconds.
    """
    first = sf.min(sf.struct("received_ns", "partition")).alias("first")
    at = (
        reads.where("seq IS NOT NULL")
        .groupBy(*_RECORD)
        .agg(first)
        .select(*_RECORD, "first.partition", sf.col("first.received_ns").alias("place"))
    )
    return at.withColumn("observer", sf.lit(OrderObserver.CONSUMERS.value))


def stream_orders(positions: DataFrame, attempts: DataFrame, keyed: DataFrame) -> DataFrame:
    """Count the records that are behind a later one of their key, and of their partition.

    Both are counted in one pass, because each of them sorts all records.

    Args:
        positions: of `log_positions` and of `receipt_positions`.
        attempts: trial_no, producer, seq, key.
        keyed: of the schema `spark_jobs.workloads.keys.KEYED_TRIALS`.

    Returns:
        trial_no and the columns of `ORDERS`; no row for the keys of a trial without keys.
    """
    wanted = positions.select(*_POSITION).join(sf.broadcast(keyed.select("trial_no")), "trial_no")
    with_key = wanted.join(attempts.select(*_RECORD, "key"), list(_RECORD), "left")
    # A log has no order between its partitions; a consumer has one.
    in_log = sf.when(sf.col("observer") == OrderObserver.LOG.value, sf.col("partition"))
    late = (
        with_key.withColumn("in_log", in_log)
        .withColumn("late_key", _is_late("key", "in_log"))
        .withColumn("late_partition", _is_late("partition"))
    )
    of_keys = _counts(
        OrderScope.KEY,
        sf.count("key"),
        sf.count_if(sf.col("key").isNotNull() & sf.col("late_key")),
        sf.lit(0).cast("long"),
    )
    of_partitions = _counts(
        OrderScope.PARTITION,
        sf.count("*"),
        sf.count_if("late_partition"),
        sf.lit(0).cast("long"),
    )
    counted = late.groupBy("trial_no", "observer").agg(
        sf.array(of_keys, of_partitions).alias("counts")
    )
    return counted.select("trial_no", "observer", sf.inline("counts")).where("compared > 0")


def _is_late(*stream: str) -> Column:
    """Return whether a record with a higher seq of the same stream is before this one.

    Of two records at one place, the one with the lower seq counts as the first.
    """
    of_stream = Window.partitionBy("trial_no", "observer", "producer", *stream).orderBy(
        "place", "seq"
    )
    before = sf.max("seq").over(of_stream.rowsBetween(Window.unboundedPreceding, -1))
    return sf.coalesce(before > sf.col("seq"), sf.lit(False))


def pair_orders(positions: DataFrame, keyed: DataFrame) -> DataFrame:
    """Count the pairs whose second record is before the first.

    Only pairs with both records count; `experiments.clients.record.keys.record_pairs` defines them.

    Args:
        positions: of `log_positions` and of `receipt_positions`.
        keyed: of the schema `spark_jobs.workloads.keys.KEYED_TRIALS`.

    Returns:
        The columns of `stream_orders`, of the trials that have pairs.
    """
    rows = positions.select(*_POSITION).join(
        sf.broadcast(keyed.select("trial_no", "apart_records").where("apart_records IS NOT NULL")),
        "trial_no",
    )
    pair = sf.expr("seq div (2 * apart_records) * apart_records + seq % apart_records")
    is_second = sf.expr("seq % (2 * apart_records) >= apart_records")
    sided = rows.withColumns({"pair": pair, "is_second": is_second}).groupBy(
        "trial_no", "observer", "producer", "pair"
    )
    sides = {
        f"{side}_{name}": sf.max(sf.when(sf.col("is_second") == sf.lit(second), sf.col(name)))
        for side, second in _SIDES
        for name in ("place", "partition")
    }
    both = sided.agg(*(column.alias(name) for name, column in sides.items())).where(
        "first_place IS NOT NULL AND second_place IS NOT NULL"
    )
    apart = sf.col("first_partition") != sf.col("second_partition")
    has_order = ~apart | (sf.col("observer") == OrderObserver.CONSUMERS.value)
    inverted = has_order & (sf.col("second_place") < sf.col("first_place"))
    counts = _counts(
        OrderScope.PAIR,
        sf.count_if(has_order),
        sf.count_if(inverted),
        sf.count_if(apart),
    )
    return (
        both.groupBy("trial_no", "observer")
        .agg(counts.alias("counts"))
        .select("trial_no", "observer", "counts.*")
    )


def _counts(within: OrderScope, *counts: Column) -> Column:
    """Return the scope and the counts of a row of `ORDERS`."""
    return sf.struct(
        sf.lit(within.value).alias("within"),
        *(count.alias(name) for count, name in zip(counts, _COUNTS, strict=True)),
    )


def lags(reads: DataFrame) -> DataFrame:
    """Return each consumer's lag: from a record's intended time to its receipt.

    Args:
        reads: trial_no, consumer, intended_ns, received_ns.

    Returns:
        trial_no and the columns of `LAGS`; the median of an even number of reads is the mean of the
        middle two.
    """
    lag = reads.where("intended_ns IS NOT NULL").withColumn(
        "lag_ns", sf.col("received_ns") - sf.col("intended_ns")
    )
    middle = sf.percentile("lag_ns", sf.lit(0.5)).cast("long")
    return lag.groupBy("trial_no", "consumer").agg(
        sf.count("*").alias("records"),
        middle.alias("median_ns"),
        sf.max("lag_ns").alias("max_ns"),
    )
