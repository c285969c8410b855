"""A sweep's ledgers as DataFrames: one scan a table for all trials, each row with the trial it belongs to."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from experiments.ledger.record import Phases
from experiments.ledger.schema import TABLES
from spark_jobs.ledgers import Ledgers

_PHASES = pa.schema([pa.field("trial_id", pa.string()), pa.field("trial_no", pa.int32()), *(pa.field(name, pa.int64()) for name in Phases.model_fields)])


def table(spark: SparkSession, ledgers: Ledgers, name: str) -> DataFrame:
    """Return one table of all trials, with `trial_id`: the folder that the file lies in.

    A scan a table keeps the plan as small for a thousand trials as for one; taking the id from the path costs 0.1 us a row.
    """
    scan = spark.read.schema(from_arrow_schema(TABLES[name])).option("recursiveFileLookup", "true")  # no `name=value` in a path is a column
    folder = sf.substring_index(sf.substring_index("_metadata.file_path", "/", -2), "/", 1)
    return scan.parquet(*ledgers.spark_paths(name)).withColumn("trial_id", folder)


def phases(spark: SparkSession, ledgers: Ledgers) -> DataFrame:
    """Return trial_id, trial_no (a number for it within this run) and the marks of `trial.json`, a row a trial."""
    rows = [{"trial_id": ledger.record.trial_id, "trial_no": number, **ledger.record.phases.model_dump()} for number, ledger in enumerate(ledgers.trials)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_PHASES))
