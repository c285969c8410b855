"""Where each key went: into one partition or several, and the one that a client's formula says; and who moved when partitions were added."""

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

# ---------- Which partition a key belongs to by the formulas of the two clients, as Spark's columns: 32-bit arithmetic in longs, which never overflows.
#
# - Java (`BuiltInPartitioner.partitionForKey`): `(murmur2(key) & 0x7fffffff) % partitions`; librdkafka's `murmur2` and `murmur2_random` are the same.
# - librdkafka's `consistent` and `consistent_random`, its default: `crc32(key) % partitions`.


_M: Final = 0x5BD1_E995
"""Below 2**31: with any 32-bit number the product fits a signed long."""
_SEED: Final = 0x9747_B28C
_LOW_32: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_WORD: Final = 4
_INT64_BYTES: Final = 8
_MOST_WORDS: Final = 3
"""A key's number has ten digits at most (`workload.keys` is an int), and as bytes eight."""
_STATE: Final = "_murmur2_state"
_WORD_OF: Final = "_murmur2_word"


def with_hashes(keys: DataFrame) -> DataFrame:
    """Add what each formula takes the rest of, when divided by the number of partitions: `murmur2` and `crc32`, from 0 up.

    It is done in steps, each a column: an expression that holds another one twice has Spark compute that twice, and the four mixings in one would
    be a method too long for the JVM to compile.

    Args:
        keys: key (a number, from 0 to 2**31 - 1), text (whether its bytes are its decimal digits; else they are 8, the highest first).
    """
    key, text, state = sf.col("key"), sf.col("text"), sf.col(_STATE)
    size = sf.when(text, sf.length(key.cast("string"))).otherwise(sf.lit(_INT64_BYTES)).cast("long")
    mixed = keys.withColumn(_STATE, size.bitwiseXOR(_lit(_SEED)))
    for place in range(_MOST_WORDS):
        word = sf.when(text, _text_word(key.cast("string"), place)).otherwise(
            _int64_word(key, place)
        )
        mixed = mixed.withColumn(_WORD_OF, word).withColumn(
            _STATE, _mixed(state, sf.col(_WORD_OF), size, place * _WORD)
        )
    folded = mixed.withColumn(_STATE, _times(state.bitwiseXOR(sf.shiftright(state, 13))))
    murmur2 = state.bitwiseXOR(sf.shiftright(state, 15)).bitwiseAND(_lit(_POSITIVE))
    return folded.withColumns({"murmur2": murmur2, "crc32": sf.crc32(_key_bytes(key, text))}).drop(
        _STATE, _WORD_OF
    )


def _key_bytes(key: Column, text: Column) -> Column:
    """Return a key's bytes."""
    return sf.when(text, sf.encode(key.cast("string"), "US-ASCII")).otherwise(
        sf.unhex(sf.lpad(sf.hex(key), 2 * _INT64_BYTES, "0"))
    )


def _mixed(state: Column, word: Column, size: Column, begin: int) -> Column:
    """Mix four bytes in, or the one to three that are left, or none."""
    whole, rest = size >= begin + _WORD, (size > begin) & (size < begin + _WORD)
    scrambled = _times(word)
    scrambled = _times(scrambled.bitwiseXOR(sf.shiftright(scrambled, 24)))
    tailed = state.bitwiseXOR(sf.when(rest, word).otherwise(_lit(0)))
    grown = (tailed * sf.when(size > begin, _lit(_M)).otherwise(_lit(1))).bitwiseAND(_lit(_LOW_32))
    return grown.bitwiseXOR(sf.when(whole, scrambled).otherwise(_lit(0)))


def _times(value: Column) -> Column:
    return (value * _lit(_M)).bitwiseAND(_lit(_LOW_32))


def _text_word(digits: Column, place: int) -> Column:
    """Return four characters as a number, the first one lowest; what is past the end is 0."""
    return _little_endian(
        [
            sf.ascii(sf.substring(digits, place * _WORD + at, 1)).cast("long")
            for at in range(1, _WORD + 1)
        ]
    )


def _int64_word(key: Column, place: int) -> Column:
    """Return the four bytes of a big-endian long that begin at 4 * place, the first one lowest; past its end 0."""
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


_BEFORE, _AFTER = ERAS
KEYINGS: Final = pa.schema(
    [
        pa.field("trial_no", pa.int32(), nullable=False),
        pa.field("text", pa.bool_(), nullable=False),
        pa.field("partitions_before", pa.int32(), nullable=False),
        pa.field(
            "partitions_after", pa.int32(), nullable=False
        ),  # of a topic that kept them: the same
        pa.field(
            "changed_ns", pa.int64()
        ),  # before this, nobody had asked for more; null: nobody did
        pa.field("load_begin_ns", pa.int64(), nullable=False),
        pa.field(
            "apart_records", pa.int64()
        ),  # of pairs, by how many records the second one is behind the first; null: there are none
    ]
)
"""What is asked of keys, a row a trial; a trial of which nothing is asked has none."""
_KEY: Final = ("trial_no", "key")


def keyings(ledgers: Sequence[Ledger], *, placement: bool) -> pa.Table:
    """Return what is asked of the trials' keys.

    Args:
        ledgers: in the order of the trials' numbers.
        placement: whether those alone are wanted of which it is asked where each key went.
    """
    asked = (
        _asked(number, ledger)
        for number, ledger in enumerate(ledgers)
        if (of := ledger.record.keying) and (of.placement or not placement)
    )
    return pa.Table.from_pylist(list(asked), schema=KEYINGS)


def _asked(number: int, ledger: Ledger) -> dict[str, Any]:
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


def keys(attempts: DataFrame, asked: DataFrame) -> DataFrame:
    """Count the keys, and those that are where a formula says.

    A producer that has put a record into a partition that was not there at first goes by the new count from then on; what was sent before more were asked
    for went by the old one. What lies between the two is left out.

    Args:
        attempts: trial_no, producer, seq, key, partition, sent_ns, outcome.
        asked: of the schema `KEYINGS`.

    Returns:
        trial_no and the columns of `KEYS`.
    """
    placed = (
        _of_eras(attempts, asked)
        .groupBy(*_KEY)
        .agg(*(one for era in ERAS for one in _extremes(era)))
    )
    judged = with_hashes(
        placed.join(
            sf.broadcast(asked.select("trial_no", "text", "partitions_before", "partitions_after")),
            "trial_no",
        )
    )
    judged = judged.withColumns(
        {name: column for era in ERAS for name, column in _judged(era).items()}
    )
    known = sf.col("before_settled") & sf.col("after_settled")
    stayed = known & (sf.col("before_low") == sf.col("after_low"))
    return _counted(judged.withColumns({"known": known, "stayed": stayed}))


def _of_eras(attempts: DataFrame, asked: DataFrame) -> DataFrame:
    """Return the acknowledged records that have a key, each with the era in which it was sent."""
    acked = attempts.where((sf.col("outcome") == ACKED) & sf.col("partition").isNotNull())
    sent = acked.join(sf.broadcast(asked), "trial_no")
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


def _extremes(era: str) -> tuple[Column, Column]:
    partition = sf.when(sf.col("era") == era, sf.col("partition"))
    return sf.min(partition).alias(f"{era}_low"), sf.max(partition).alias(f"{era}_high")


def _judged(era: str) -> dict[str, Column]:
    """Say of each key whether it is there, in one partition, and in which formula's; false where it is not there."""
    low, settled = (
        sf.col(f"{era}_low"),
        sf.coalesce(sf.col(f"{era}_low") == sf.col(f"{era}_high"), sf.lit(False)),
    )
    expected = {
        name: settled & (low == sf.col(name) % sf.col(f"partitions_{era}"))
        for name in ("murmur2", "crc32")
    }
    return {f"{era}_{name}": column for name, column in {"settled": settled, **expected}.items()}


def _counted(judged: DataFrame) -> DataFrame:
    """Count both eras in one pass, and return a row for each; none for an era without a key, where it is not the first."""
    nothing, eras = sf.lit(None).cast("long"), []
    for era in ERAS:
        names = {
            f"{name}_keys": sf.count_if(f"{era}_{name}") for name in ("settled", "murmur2", "crc32")
        }
        moved = {
            f"{name}_keys": sf.count_if(name) if era == _AFTER else nothing
            for name in ("known", "stayed")
        }
        counts = {"keys": sf.count(f"{era}_low"), **names, **moved}
        told = {"era": sf.lit(era), "partitions": sf.first(f"partitions_{era}")}
        eras.append(sf.struct(*(column.alias(name) for name, column in {**told, **counts}.items())))
    counted = judged.groupBy("trial_no").agg(sf.array(*eras).alias("eras"))
    return counted.select("trial_no", sf.inline("eras")).where(f"keys > 0 OR era = '{_BEFORE}'")
