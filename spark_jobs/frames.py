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
_PHASES: Final = pa.schema([pa.field("trial_id", pa.string()), pa.field("trial_no", pa.int32()), *(pa.field(name, pa.int64()) for name in Phases.model_fields)])


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


def phases(spark: SparkSession, trials: Sequence[Ledger]) -> DataFrame:
    """Return trial_id, trial_no (a number for it within this run) and the marks of `trial.json`, a row a trial."""
    rows = [{"trial_id": ledger.record.trial_id, "trial_no": number, **ledger.record.phases.model_dump()} for number, ledger in enumerate(trials)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_PHASES))
