"""The ledgers of many trials as one table per kind, each row with its trial.

Tables with one row per record are Spark DataFrames. Tables with a few hundred rows per trial are
Arrow tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from experiments.ledger.record import Phases
from experiments.ledger.schema import OPTIONAL_TABLES, TABLES
from experiments.ledger.validation import optional_tables
from spark_jobs.io.ledgers import TRIAL_ID, Ledger, Ledgers

TablePlan = Callable[[], DataFrame]
"""How to compute a table: a function that returns its DataFrame, with `trial_no` as the trial."""
_SCHEMAS: Final = {**TABLES, **OPTIONAL_TABLES}
_BY_RECORD: Final = ("attempts", "log", "reads")
_BY_TRIAL: Final = ("transactions", "events", "epochs", "served")
"""A few hundred rows per trial: Arrow reads them in the time that Spark needs to plan a read."""
_TRIAL_INFO: Final = pa.schema(
    [
        TRIAL_ID,
        pa.field("trial_no", pa.int32(), nullable=False),
        pa.field("partitions", pa.int32(), nullable=False),
        *(pa.field(name, pa.int64()) for name in Phases.model_fields),
        pa.field("consumer_at_end", pa.bool_()),
        pa.field("consumer_due_ns", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Frames:
    """The tables of `experiments.ledger.schema.TABLES`, wherever their rows are stored.

    DataFrames identify the trial by `file`, a hash of the file's name, and after
    `with_trial_numbers` by `trial_no`. Arrow tables have `trial_id`.
    """

    attempts: DataFrame
    log: DataFrame
    reads: DataFrame
    transactions: pa.Table
    events: pa.Table
    epochs: pa.Table
    output: DataFrame | None = None
    sent: DataFrame | None = None
    replays: DataFrame | None = None
    served: pa.Table | None = None
    """The last four are optional tables (`OPTIONAL_TABLES`); `None`: no trial has one."""


def read_frames(spark: SparkSession, ledgers: Ledgers) -> Frames:
    """Return the ledgers of a sweep. Spark reads the tables of records only when they are queried.

    Raises:
        InvalidLedger: a file's footer is valid, but its data cannot be read.
    """
    ledgers_with = {
        name: replace(
            ledgers,
            trials=tuple(
                ledger for ledger in ledgers.trials if name in optional_tables(ledger.record)
            ),
        )
        for name in OPTIONAL_TABLES
    }
    optional = {
        name: having.read(name) if name in _BY_TRIAL else _scan(spark, having, name)
        for name, having in ledgers_with.items()
        if having.trials
    }
    return Frames(
        **{name: _scan(spark, ledgers, name) for name in _BY_RECORD},
        **{name: ledgers.read(name) for name in _BY_TRIAL if name in TABLES},
        **optional,
    )


def frames_from_tables(spark: SparkSession, tables: Mapping[str, pa.Table]) -> Frames:
    """Return ledgers that are in memory.

    Args:
        spark: the session.
        tables: each table of `TABLES`, and any of `OPTIONAL_TABLES`; each with the rows of all
            trials and `trial_id` as an additional column.
    """
    by_record = [
        name for name in (*_BY_RECORD, *OPTIONAL_TABLES) if name in tables and name not in _BY_TRIAL
    ]
    frames = {
        name: _frame(spark, name, tables[name].cast(_without_dictionaries(_SCHEMAS[name])))
        for name in by_record
    }
    return Frames(**frames, **{name: tables[name] for name in _BY_TRIAL if name in tables})


def _frame(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame.

    The table is combined into one chunk: from small tables of many chunks, Spark silently drops
    the rows of some.
    """
    return spark.createDataFrame(table.combine_chunks()).withColumn("file", _file_hash(name))


def _scan(spark: SparkSession, ledgers: Ledgers, name: str) -> DataFrame:
    """Return one table of all trials, each row with the hash of its file's name.

    One scan per table keeps the plan as small for a thousand trials as for one.
    """
    # With a recursive lookup, Spark takes no `name=value` in a path for a partition column.
    reader = spark.read.schema(from_arrow_schema(_SCHEMAS[name])).option(
        "recursiveFileLookup", "true"
    )
    trial_and_file = sf.substring_index("_metadata.file_path", "/", -2)
    return reader.parquet(*ledgers.spark_paths(name)).withColumn(
        "file", sf.xxhash64(trial_and_file)
    )


def _file_hash(name: str) -> Column:
    """Hash a trial's file name as `_scan` does.

    Every row carries it, and a text would cost three times as much. If two hashes were equal, the
    sums of `spark_jobs.trial_table.check_sums` would differ.
    """
    return sf.xxhash64(sf.concat("trial_id", sf.lit(f"/{name}.parquet")))


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Return a table's schema with `trial_id`, and plain strings: Spark takes no dictionaries."""
    plain = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema([*plain, TRIAL_ID])


@dataclass(frozen=True)
class ConsumerEnding:
    """How the concurrent consumer ended, as its `consumer_end` event reports."""

    at_ns: int
    at_end: bool
    """Whether it reached the end of every partition."""


def consumer_endings(events: pa.Table) -> dict[str, ConsumerEnding]:
    """Return how the concurrent consumer ended, by trial id.

    If a trial had several, the result holds the latest end, and whether all reached the end of
    the log. A trial without a `consumer_end` event has no entry.

    Args:
        events: trial_id, kind, at_ns, detail; the detail of `consumer_end` is a JSON object with
            `at_end`.
    """
    endings: dict[str, ConsumerEnding] = {}
    for row in events.filter(pc.field("kind") == "consumer_end").to_pylist():
        this = ConsumerEnding(row["at_ns"], json.loads(row["detail"])["at_end"])
        other = endings.get(row["trial_id"], this)
        endings[row["trial_id"]] = ConsumerEnding(
            max(this.at_ns, other.at_ns), this.at_end and other.at_end
        )
    return endings


def trial_info(
    spark: SparkSession, trials: Sequence[Ledger], endings: Mapping[str, ConsumerEnding]
) -> DataFrame:
    """Return one row per trial.

    Args:
        spark: the session.
        trials: in the order of their numbers.
        endings: of `consumer_endings`.

    Returns:
        trial_id; trial_no, the trial's number within this run; partitions, of the topic when the
        load began; the phases of `trial.json`; consumer_at_end, whether the concurrent consumer
        reached the end (null: unknown); consumer_due_ns, until when it still had records to read
        (null: unknown, or it reached the end).
    """
    rows = [
        {"trial_no": number, **_info(ledger, endings.get(ledger.record.trial_id))}
        for number, ledger in enumerate(trials)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_TRIAL_INFO))


def _info(ledger: Ledger, ending: ConsumerEnding | None) -> Mapping[str, object]:
    info = {
        "trial_id": ledger.record.trial_id,
        "partitions": ledger.record.partitions,
        **ledger.record.phases.model_dump(),
    }
    if ending is None:
        return info
    due_ns = None if ending.at_end else ending.at_ns
    return {**info, "consumer_at_end": ending.at_end, "consumer_due_ns": due_ns}


def with_trial_numbers(frames: Frames, info: DataFrame) -> Frames:
    """Replace `file` by `trial_no` in every DataFrame.

    Between the ledger and the result, a trial is a number: grouping by strings would cost more
    than all the rest.

    Args:
        frames: the ledgers' rows.
        info: of `trial_info`.
    """
    names = [
        name
        for name in (*_BY_RECORD, *OPTIONAL_TABLES)
        if name not in _BY_TRIAL and getattr(frames, name) is not None
    ]
    return replace(
        frames,
        **{
            name: getattr(frames, name).join(_numbers_by_file(info, name), "file").drop("file")
            for name in names
        },
    )


def _numbers_by_file(info: DataFrame, name: str) -> DataFrame:
    return sf.broadcast(info.select(_file_hash(name).alias("file"), "trial_no"))


def collect_with_trial_ids(rows: DataFrame, trials: Sequence[Ledger]) -> pa.Table:
    """Compute a DataFrame, and replace `trial_no` by `trial_id`.

    In Spark this would be one more join in every plan.
    """
    table = rows.toArrow()
    ids = pa.array([ledger.record.trial_id for ledger in trials], pa.string())
    return table.set_column(
        table.column_names.index("trial_no"), TRIAL_ID, ids.take(table["trial_no"])
    )
