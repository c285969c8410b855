"""Key placement: the partitions of each key, compared with the clients' partitioning formulas.

The formulas, as Spark columns in 32-bit arithmetic on longs, which cannot overflow:

- Java (`BuiltInPartitioner.partitionForKey`): `(murmur2(key) & 0x7fffffff) % partitions`;
  librdkafka's `murmur2` and `murmur2_random` are the same.
- librdkafka's `consistent` and `consistent_random`, its default: `crc32(key) % partitions`.

If partitions are added under load, keys are counted before and after, and those that did not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ACKED
from experiments.ledger.workload_tables import ERAS
from spark_jobs.io.ledgers import Ledger

KEYED_TRIALS: Final = pa.schema(
    [
        pa.field("trial_no", pa.int32(), nullable=False),
        pa.field("text", pa.bool_(), nullable=False),
        pa.field("partitions_before", pa.int32(), nullable=False),
        # Equal to `partitions_before` if no partitions were added.
        pa.field("partitions_after", pa.int32(), nullable=False),
        # Until then no request to add partitions was sent; null: none was ever sent.
        pa.field("changed_ns", pa.int64()),
        pa.field("load_begin_ns", pa.int64(), nullable=False),
        # How many records after the first record of a pair the second one is; null: no pairs.
        pa.field("apart_records", pa.int64()),
    ]
)
"""The trials that request measures of their keys, one row per trial."""
_BEFORE, _AFTER = ERAS
_KEY: Final = ("trial_no", "key")
_HASHES: Final = ("murmur2", "crc32")

_M: Final = 0x5BD1_E995
"""Less than 2**31: its product with any 32-bit number fits a signed long."""
_SEED: Final = 0x9747_B28C
_LOW_32: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_WORD: Final = 4
_INT64_BYTES: Final = 8
_MAX_WORDS: Final = 3
"""As text a key has at most ten digits (`workload.keys` is an int), as bytes it has eight."""
_STATE: Final = "_murmur2_state"
_WORD_COLUMN: Final = "_murmur2_word"


def keyed_trials(ledgers: Sequence[Ledger], *, placement: bool) -> pa.Table:
    """Return the trials that request measures of their keys, of the schema `KEYED_TRIALS`.

    Args:
        ledgers: in the order of the trials' numbers.
        placement: return only trials that request the partitions of their keys.
    """
    rows = [
        _keyed_trial(number, ledger)
        for number, ledger in enumerate(ledgers)
        if (keying := ledger.record.keying) and (keying.placement or not placement)
    ]
    return pa.Table.from_pylist(rows, schema=KEYED_TRIALS)


def _keyed_trial(number: int, ledger: Ledger) -> dict[str, Any]:
    record, keying = ledger.record, ledger.record.keying
    has_pairs = keying is not None and keying.pairs != "none"
    return {
        "trial_no": number,
        "text": keying is not None and keying.text,
        "partitions_before": record.partitions,
        "partitions_after": max(record.partitions, len(record.end_offsets)),
        "changed_ns": record.phases.fault_begin_ns,
        "load_begin_ns": record.phases.load_begin_ns,
        "apart_records": keying.pair_apart_records if keying and has_pairs else None,
    }


# Counts of keys.


def keys(attempts: DataFrame, keyed: DataFrame) -> DataFrame:
    """Count the keys, and those in the partition of each formula.

    A producer that has sent a record to an added partition uses the new partition count from then
    on. Records sent before the request to add partitions used the old count. Records in between are
    left out.

    Args:
        attempts: trial_no, producer, seq, key, partition, sent_ns, outcome.
        keyed: of the schema `KEYED_TRIALS`.

    Returns:
        trial_no and the columns of `KEYS`.
    """
    placed = (
        _with_era(attempts, keyed)
        .groupBy(*_KEY)
        .agg(*(column for era in ERAS for column in _lowest_and_highest(era)))
    )
    compared = with_hashes(
        placed.join(
            sf.broadcast(keyed.select("trial_no", "text", "partitions_before", "partitions_after")),
            "trial_no",
        )
    )
    compared = compared.withColumns(
        {name: column for era in ERAS for name, column in _comparisons(era).items()}
    )
    known = sf.col("before_single_partition") & sf.col("after_single_partition")
    unmoved = known & (sf.col("before_low") == sf.col("after_low"))
    return _count_keys(compared.withColumns({"known": known, "unmoved": unmoved}))


def _with_era(attempts: DataFrame, keyed: DataFrame) -> DataFrame:
    """Return the acknowledged records that have a key, each with the era in which it was sent."""
    acked = attempts.where((sf.col("outcome") == ACKED) & sf.col("partition").isNotNull())
    sent = acked.join(sf.broadcast(keyed), "trial_no")
    new = (
        sent.where("partition >= partitions_before")
        .groupBy("trial_no", "producer")
        .agg(sf.min("seq").alias("first_new_seq"))
    )
    known = sent.join(sf.broadcast(new), ["trial_no", "producer"], "left")
    after = sf.col("seq") >= sf.col("first_new_seq")
    before = sf.col("first_new_seq").isNull() | (sf.col("sent_ns") < sf.col("changed_ns"))
    return (
        known.withColumn("era", sf.when(after, _AFTER).when(before, _BEFORE))
        .where("era IS NOT NULL AND key IS NOT NULL")
        .select(*_KEY, "era", "partition")
    )


def _lowest_and_highest(era: str) -> tuple[Column, Column]:
    partition = sf.when(sf.col("era") == era, sf.col("partition"))
    return sf.min(partition).alias(f"{era}_low"), sf.max(partition).alias(f"{era}_high")


def _comparisons(era: str) -> dict[str, Column]:
    """Return whether a key is in a single partition, and whether in that of each formula.

    All of them are false for a key that was not sent in this era.
    """
    low, single = (
        sf.col(f"{era}_low"),
        sf.coalesce(sf.col(f"{era}_low") == sf.col(f"{era}_high"), sf.lit(False)),
    )
    expected = {
        f"{era}_{name}": single & (low == sf.col(name) % sf.col(f"partitions_{era}"))
        for name in _HASHES
    }
    return {f"{era}_single_partition": single, **expected}


def _count_keys(compared: DataFrame) -> DataFrame:
    """Count both eras in one pass, and return one row per era.

    The second era has no row if no key was sent in it.
    """
    eras = []
    for era in ERAS:
        counts = {
            f"{name}_keys": sf.count_if(f"{era}_{name}") for name in ("single_partition", *_HASHES)
        }
        over_eras = {
            f"{name}_keys": sf.count_if(name) if era == _AFTER else sf.lit(None).cast("long")
            for name in ("known", "unmoved")
        }
        columns = {
            "era": sf.lit(era),
            "partitions": sf.first(f"partitions_{era}"),
            "keys": sf.count(f"{era}_low"),
            **counts,
            **over_eras,
        }
        eras.append(sf.struct(*(column.alias(name) for name, column in columns.items())))
    counted = compared.groupBy("trial_no").agg(sf.array(*eras).alias("eras"))
    return counted.select("trial_no", sf.inline("eras")).where(f"keys > 0 OR era = '{_BEFORE}'")


# The clients' formulas.


def with_hashes(keys: DataFrame) -> DataFrame:
    """Add the columns `murmur2` and `crc32`: modulo the partition count they are the partition.

    The computation is split into one column per step. Spark computes an expression twice that
    another one contains twice; and all mixing steps in one expression would be a method too long
    for the JVM to compile.

    Args:
        keys: key (a number, from 0 to 2**31 - 1), text (whether the key's bytes are its decimal
            digits; if not, they are a big-endian long).
    """
    key, text, state = sf.col("key"), sf.col("text"), sf.col(_STATE)
    size = sf.when(text, sf.length(key.cast("string"))).otherwise(sf.lit(_INT64_BYTES)).cast("long")
    mixed = keys.withColumn(_STATE, size.bitwiseXOR(_lit(_SEED)))
    for place in range(_MAX_WORDS):
        word = sf.when(text, _text_word(key.cast("string"), place)).otherwise(
            _int64_word(key, place)
        )
        mixed = mixed.withColumn(_WORD_COLUMN, word).withColumn(
            _STATE, _mix(state, sf.col(_WORD_COLUMN), size, place * _WORD)
        )
    folded = mixed.withColumn(_STATE, _times_m(state.bitwiseXOR(sf.shiftright(state, 13))))
    murmur2 = state.bitwiseXOR(sf.shiftright(state, 15)).bitwiseAND(_lit(_POSITIVE))
    return folded.withColumns({"murmur2": murmur2, "crc32": sf.crc32(_key_bytes(key, text))}).drop(
        _STATE, _WORD_COLUMN
    )


def _key_bytes(key: Column, text: Column) -> Column:
    return sf.when(text, sf.encode(key.cast("string"), "US-ASCII")).otherwise(
        sf.unhex(sf.lpad(sf.hex(key), 2 * _INT64_BYTES, "0"))
    )


def _mix(state: Column, word: Column, size: Column, begin: int) -> Column:
    """Mix the key's bytes from `begin` on into the state: four, or the last one to three."""
    full, rest = size >= begin + _WORD, (size > begin) & (size < begin + _WORD)
    scrambled = _times_m(word)
    scrambled = _times_m(scrambled.bitwiseXOR(sf.shiftright(scrambled, 24)))
    with_rest = state.bitwiseXOR(sf.when(rest, word).otherwise(_lit(0)))
    product = (with_rest * sf.when(size > begin, _lit(_M)).otherwise(_lit(1))).bitwiseAND(
        _lit(_LOW_32)
    )
    return product.bitwiseXOR(sf.when(full, scrambled).otherwise(_lit(0)))


def _times_m(value: Column) -> Column:
    return (value * _lit(_M)).bitwiseAND(_lit(_LOW_32))


def _text_word(digits: Column, place: int) -> Column:
    """Return four characters as a little-endian number; characters past the end are 0."""
    return _little_endian(
        [
            sf.ascii(sf.substring(digits, place * _WORD + at, 1)).cast("long")
            for at in range(1, _WORD + 1)
        ]
    )


def _int64_word(key: Column, place: int) -> Column:
    """Return bytes 4 * place and following of a big-endian long as a little-endian number.

    Bytes past the end are 0.
    """
    shifts = [8 * (_INT64_BYTES - 1 - place * _WORD - at) for at in range(_WORD)]
    return _little_endian(
        [
            sf.shiftright(key, shift).bitwiseAND(_lit(0xFF)) if shift >= 0 else _lit(0)
            for shift in shifts
        ]
    )


def _little_endian(parts: list[Column]) -> Column:
    return reduce(
        lambda one, other: one + other,
        (part * _lit(1 << (8 * at)) for at, part in enumerate(parts)),
    )


def _lit(number: int) -> Column:
    return sf.lit(number).cast("long")
