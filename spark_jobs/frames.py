"""The ledgers of many trials as DataFrames: one a table for all trials, each row with the trial it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from experiments.ledger.record import Phases
from experiments.ledger.schema import TABLES
from spark_jobs.ledgers import Ledger, Ledgers

_TRIAL_ID: Final = pa.field("trial_id", pa.string(), nullable=False)
_MARKS: Final = pa.schema(
    [
        _TRIAL_ID,
        pa.field("trial_no", pa.int32(), nullable=False),
        *(pa.field(name, pa.int64()) for name in Phases.model_fields),
        pa.field("reader_at_end", pa.bool_()),
        pa.field("reader_due_ns", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Frames:
    """The tables of `experiments.ledger.schema.TABLES`, each with `trial_id` besides; where their rows lie is nobody's business."""

    attempts: DataFrame
    log: DataFrame
    reads: DataFrame
    events: DataFrame
    epochs: DataFrame


def stored(spark: SparkSession, ledgers: Ledgers) -> Frames:
    """Return a sweep's ledgers, which are read when something is asked of them."""
    return Frames(**{name: _scan(spark, ledgers, name) for name in TABLES})


def in_memory(spark: SparkSession, tables: Mapping[str, pa.Table]) -> Frames:
    """Return ledgers that lie in no file: each table of `TABLES`, all trials' rows in one, and `trial_id` as one more column."""
    return Frames(**{name: _frame(spark, tables[name].cast(_plain(schema))) for name, schema in TABLES.items()})


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame: in one piece, for of small tables in many pieces Spark keeps the rows of some and drops the others without a word."""
    return spark.createDataFrame(table.combine_chunks())


def _scan(spark: SparkSession, ledgers: Ledgers, name: str) -> DataFrame:
    """Return one table of all trials, with `trial_id`: the folder that the file lies in.

    A scan a table keeps the plan as small for a thousand trials as for one; taking the id from the path costs 0.1 us a row.
    """
    scan = spark.read.schema(from_arrow_schema(TABLES[name])).option("recursiveFileLookup", "true")  # no `name=value` in a path is a column
    folder = sf.substring_index(sf.substring_index("_metadata.file_path", "/", -2), "/", 1)
    return scan.parquet(*ledgers.spark_paths(name)).withColumn("trial_id", folder)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a table's schema with `trial_id`, its texts not as a dictionary: Spark wants them so."""
    texts = [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema]
    return pa.schema([*texts, _TRIAL_ID])


@dataclass(frozen=True)
class Ending:
    """How the reader along ended, as its event tells."""

    at_ns: int
    at_end: bool
    """It came to the end of every partition."""


def endings(events: DataFrame) -> dict[str, Ending]:
    """Return how the readers of each trial ended: the last of them, and whether all came to the end; a trial without such an event is not in it.

    Args:
        events: trial_id, kind, at_ns, detail; that of `reader` is a JSON object with `at_end`.
    """
    came = sf.coalesce(sf.get_json_object("detail", "$.at_end") == "true", sf.lit(False))
    ended = events.where("kind = 'reader'").groupBy("trial_id").agg(sf.max("at_ns").alias("at_ns"), sf.bool_and(came).alias("at_end"))
    return {row.pop("trial_id"): Ending(**row) for row in ended.toArrow().to_pylist()}


def marks(spark: SparkSession, trials: Sequence[Ledger], ended: Mapping[str, Ending]) -> DataFrame:
    """Return a row a trial with what is known of it as a whole.

    Returns:
        trial_id; trial_no, a number for it within this run; the marks of `trial.json`; reader_at_end (null: nobody says) and reader_due_ns, until
        when the reader along still had to read (null: nobody says, or it came to the end and had nothing more to read).
    """
    rows = [{"trial_no": number, **_marks(ledger, ended.get(ledger.record.trial_id))} for number, ledger in enumerate(trials)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_MARKS))


def _marks(ledger: Ledger, ending: Ending | None) -> Mapping[str, object]:
    read_on = {"reader_at_end": ending.at_end, "reader_due_ns": None if ending.at_end else ending.at_ns} if ending else {}
    return {"trial_id": ledger.record.trial_id, **ledger.record.phases.model_dump(), **read_on}


def numbered(frames: Frames, marks: DataFrame) -> Frames:
    """Add `trial_no` to every table: between the ledger and the result a trial is a number, for a key of texts would cost more than all the rest."""
    numbers = sf.broadcast(marks.select("trial_id", "trial_no"))
    return Frames(**{name: getattr(frames, name).join(numbers, "trial_id") for name in TABLES})


def named(found: DataFrame, marks: DataFrame) -> DataFrame:
    """Give trials their names again: `trial_no` becomes `trial_id`, and stays in its place as the first column."""
    names = sf.broadcast(marks.select("trial_id", "trial_no"))
    return found.join(names, "trial_no").select("trial_id", *(name for name in found.columns if name != "trial_no"))
