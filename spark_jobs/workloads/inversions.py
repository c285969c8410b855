"""What came behind a later one: records of a key, of a partition, and the two of a pair; as the log has them, and as consumers received them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.workload_tables import OrderObserver, OrderScope

_RECORD: Final = ("trial_no", "producer", "seq")
_SEEN: Final = (*_RECORD, "partition", "place", "observer")
_COUNTS: Final = ("compared", "inverted", "apart")
_SIDES: Final = (("first", False), ("second", True))


def stored(log: DataFrame) -> DataFrame:
    """Return each record at its first copy: of several partitions the lowest, of several offsets the lowest.

    Args:
        log: trial_no, partition, offset, producer, seq, intact; rows that consumers are shown.

    Returns:
        trial_no, producer, seq, partition, place, seen_by.
    """
    ours = log.where("intact AND seq IS NOT NULL")
    first = sf.min(sf.struct("partition", "offset")).alias("first")
    at = (
        ours.groupBy(*_RECORD)
        .agg(first)
        .select(*_RECORD, "first.partition", sf.col("first.offset").alias("place"))
    )
    return at.withColumn("observer", sf.lit(OrderObserver.LOG.value))


def received(reads: DataFrame) -> DataFrame:
    """Return each record when it was first received, whoever did.

    Args:
        reads: trial_no, partition, producer, seq, received_ns.

    Returns:
        What `stored` returns.
    """
    first = sf.min(sf.struct("received_ns", "partition")).alias("first")
    at = (
        reads.where("seq IS NOT NULL")
        .groupBy(*_RECORD)
        .agg(first)
        .select(*_RECORD, "first.partition", sf.col("first.received_ns").alias("place"))
    )
    return at.withColumn("observer", sf.lit(OrderObserver.CONSUMERS.value))


def orders(seen: DataFrame, attempts: DataFrame, asked: DataFrame) -> DataFrame:
    """Count what came behind a later one of its key, and of its partition: both in one pass, as it is over every record twice.

    Args:
        seen: of `stored` and of `received`.
        attempts: trial_no, producer, seq, key.
        asked: of the schema `spark_jobs.workloads.keys.KEYINGS`.

    Returns:
        trial_no and the columns of `ORDERS`; no row for keys of a trial that has none.
    """
    wanted = seen.select(*_SEEN).join(sf.broadcast(asked.select("trial_no")), "trial_no")
    keyed = wanted.join(attempts.select(*_RECORD, "key"), list(_RECORD), "left")
    in_log = sf.when(
        sf.col("observer") == OrderObserver.LOG.value, sf.col("partition")
    )  # a log has no order between its partitions; a consumer has one
    late = (
        keyed.withColumn("in_log", in_log)
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
        OrderScope.PARTITION, sf.count("*"), sf.count_if("late_partition"), sf.lit(0).cast("long")
    )
    counted = late.groupBy("trial_no", "observer").agg(
        sf.array(of_keys, of_partitions).alias("counts")
    )
    return counted.select("trial_no", "observer", sf.inline("counts")).where("compared > 0")


def _is_late(*stream: str) -> Column:
    """Say whether a record of the stream with a higher seq is before it; of two at one place, the lower seq was first."""
    of_stream = Window.partitionBy("trial_no", "observer", "producer", *stream).orderBy(
        "place", "seq"
    )
    before = sf.max("seq").over(of_stream.rowsBetween(Window.unboundedPreceding, -1))
    return sf.coalesce(before > sf.col("seq"), sf.lit(False))


def pairs(seen: DataFrame, asked: DataFrame) -> DataFrame:
    """Put the two of each pair side by side, where both are there; see `experiments.clients.record.keys.record_pairs`.

    Args:
        seen: of `stored` and of `received`.
        asked: of the schema `spark_jobs.workloads.keys.KEYINGS`.

    Returns:
        What `orders` returns, of the trials that have pairs.
    """
    rows = seen.select(*_SEEN).join(
        sf.broadcast(asked.select("trial_no", "apart_records").where("apart_records IS NOT NULL")),
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
        OrderScope.PAIR, sf.count_if(has_order), sf.count_if(inverted), sf.count_if(apart)
    )
    return (
        both.groupBy("trial_no", "observer")
        .agg(counts.alias("counts"))
        .select("trial_no", "observer", "counts.*")
    )


def _counts(within: OrderScope, *counts: Column) -> Column:
    """Return the rest of a row of `ORDERS`."""
    return sf.struct(
        sf.lit(within.value).alias("within"),
        *(count.alias(name) for count, name in zip(counts, _COUNTS, strict=True)),
    )


def lags(reads: DataFrame) -> DataFrame:
    """Return how far behind each consumer was: from the intended time of a record to when it was received.

    Args:
        reads: trial_no, consumer, intended_ns, received_ns.

    Returns:
        trial_no and the columns of `LAGS`; the median lies between two where there is none in the middle.
    """
    lag = reads.where("intended_ns IS NOT NULL").withColumn(
        "lag_ns", sf.col("received_ns") - sf.col("intended_ns")
    )
    middle = sf.percentile("lag_ns", sf.lit(0.5)).cast("long")
    return lag.groupBy("trial_no", "consumer").agg(
        sf.count("*").alias("records"), middle.alias("median_ns"), sf.max("lag_ns").alias("max_ns")
    )
