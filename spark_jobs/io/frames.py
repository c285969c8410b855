"""The ledgers of many trials: one table for all trials, each row with the trial it belongs to. What has a row a record is a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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

_SCHEMAS: Final = {**TABLES, **OPTIONAL_TABLES}
_BY_RECORD: Final = ("attempts", "log", "reads")
_BY_TRIAL: Final = ("transactions", "events", "epochs", "served")
"""A few hundred rows a trial, which Arrow reads in the time in which Spark plans to."""
_MARKS: Final = pa.schema(
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
    """The tables of `experiments.ledger.schema.TABLES`; where their rows lie is nobody's business.

    Those that Spark reads have `file` besides, a number for the file of a trial, and the others `trial_id`.
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
    """The last four are of `experiments.ledger.schema.OPTIONAL_TABLES`; `None`: no trial has one."""


def read_frames(spark: SparkSession, ledgers: Ledgers) -> Frames:
    """Return a sweep's ledgers; the rows of records are read when something is asked of them.

    Raises:
        UnfitLedger: a file's data cannot be read though its footer can.
    """
    having = {
        name: replace(
            ledgers,
            trials=tuple(one for one in ledgers.trials if name in optional_tables(one.record)),
        )
        for name in OPTIONAL_TABLES
    }
    besides = {
        name: those.read(name) if name in _BY_TRIAL else _scan(spark, those, name)
        for name, those in having.items()
        if those.trials
    }
    return Frames(
        **{name: _scan(spark, ledgers, name) for name in _BY_RECORD},
        **{name: ledgers.read(name) for name in _BY_TRIAL if name in TABLES},
        **besides,
    )


def frames_from_tables(spark: SparkSession, tables: Mapping[str, pa.Table]) -> Frames:
    """Return ledgers that lie in no file: each table of `TABLES`, all trials' rows in one, and `trial_id` as one more column; of `OF_SOME` what there is."""
    there = [
        name for name in (*_BY_RECORD, *OPTIONAL_TABLES) if name in tables and name not in _BY_TRIAL
    ]
    frames = {
        name: _frame(spark, name, tables[name].cast(_plain(_SCHEMAS[name]))) for name in there
    }
    return Frames(**frames, **{name: tables[name] for name in _BY_TRIAL if name in tables})


def _frame(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame: in one piece, for of small tables in many pieces Spark keeps the rows of some and drops the others without a word."""
    return spark.createDataFrame(table.combine_chunks()).withColumn("file", _file(name))


def _scan(spark: SparkSession, ledgers: Ledgers, name: str) -> DataFrame:
    """Return one table of all trials, with the number of the file that a row lies in.

    A scan a table keeps the plan as small for a thousand trials as for one.
    """
    scan = spark.read.schema(from_arrow_schema(_SCHEMAS[name])).option(
        "recursiveFileLookup", "true"
    )  # no `name=value` in a path is a column
    place = sf.substring_index("_metadata.file_path", "/", -2)
    return scan.parquet(*ledgers.spark_paths(name)).withColumn("file", sf.xxhash64(place))


def _file(name: str) -> Column:
    """Number a trial's file as `_scan` does. Every row is asked for it, and a text would cost three times as much; were two alike, no sum would hold."""
    return sf.xxhash64(sf.concat("trial_id", sf.lit(f"/{name}.parquet")))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a table's schema with `trial_id`, its texts not as a dictionary: Spark wants them so."""
    texts = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema([*texts, TRIAL_ID])


@dataclass(frozen=True)
class ConsumerEnding:
    """How the reader along ended, as its event tells."""

    at_ns: int
    at_end: bool
    """It came to the end of every partition."""


def consumer_endings(events: pa.Table) -> dict[str, ConsumerEnding]:
    """Return how the readers of each trial ended: the last of them, and whether all came to the end; a trial without such an event is not in it.

    Args:
        events: trial_id, kind, at_ns, detail; that of `reader` is a JSON object with `at_end`.
    """
    ended: dict[str, ConsumerEnding] = {}
    for row in events.filter(pc.field("kind") == "reader").to_pylist():
        this = ConsumerEnding(row["at_ns"], json.loads(row["detail"])["at_end"])
        other = ended.get(row["trial_id"], this)
        ended[row["trial_id"]] = ConsumerEnding(
            max(this.at_ns, other.at_ns), this.at_end and other.at_end
        )
    return ended


def trial_info(
    spark: SparkSession, trials: Sequence[Ledger], ended: Mapping[str, ConsumerEnding]
) -> DataFrame:
    """Return a row a trial with what is known of it as a whole.

    Returns:
        trial_id; trial_no, a number for it within this run; partitions, when the load began; the marks of `trial.json`; consumer_at_end (null: nobody
        says) and consumer_due_ns, until when the reader along still had to read (null: nobody says, or it came to the end and had nothing more to read).
    """
    rows = [
        {"trial_no": number, **_marks(ledger, ended.get(ledger.record.trial_id))}
        for number, ledger in enumerate(trials)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_MARKS))


def _marks(ledger: Ledger, ending: ConsumerEnding | None) -> Mapping[str, object]:
    read_on = (
        {
            "consumer_at_end": ending.at_end,
            "consumer_due_ns": None if ending.at_end else ending.at_ns,
        }
        if ending
        else {}
    )
    return {
        "trial_id": ledger.record.trial_id,
        "partitions": ledger.record.partitions,
        **ledger.record.phases.model_dump(),
        **read_on,
    }


def with_trial_numbers(frames: Frames, marks: DataFrame) -> Frames:
    """Add `trial_no` to every table: between the ledger and the result a trial is a number, for a key of texts would cost more than all the rest."""
    names = [
        name
        for name in (*_BY_RECORD, *OPTIONAL_TABLES)
        if name not in _BY_TRIAL and getattr(frames, name) is not None
    ]
    return replace(
        frames,
        **{
            name: getattr(frames, name).join(_numbers(marks, name), "file").drop("file")
            for name in names
        },
    )


def _numbers(marks: DataFrame, name: str) -> DataFrame:
    return sf.broadcast(marks.select(_file(name).alias("file"), "trial_no"))


def collect_with_trial_ids(found: DataFrame, trials: Sequence[Ledger]) -> pa.Table:
    """Compute a table, and give trials their names again: `trial_no` becomes `trial_id`. For Spark that would be one more join in every plan."""
    table = found.toArrow()
    ids = pa.array([ledger.record.trial_id for ledger in trials], pa.string())
    return table.set_column(
        table.column_names.index("trial_no"), TRIAL_ID, ids.take(table["trial_no"])
    )
