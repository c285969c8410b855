"""One Spark session for all tests of this folder: starting a JVM costs more than any of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from experiments.results.spark_job import JAVA_OPTIONS
from infra.jvm.runtime import spark_java_home
from infra.jvm.startup_cache import quote_java_options, spark_startup_cache
from infra.machine.home import Home
from spark_jobs.io.ledgers import open_ledgers
from spark_jobs.pipeline import measure_ledgers
from spark_jobs.planted import PlantedTrial
from spark_jobs.session import SessionRequest, spark_session

C1_ONLY = "-XX:TieredStopAtLevel=1"
"""The JVM's second compiler (C2) does not pay off for tables of a few rows."""

Measured = dict[str, pa.Table]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session of this machine's JVM, with its files in a temporary folder."""
    work = tmp_path_factory.mktemp("spark")
    cached = spark_startup_cache(Home.from_environment().cache, JAVA_OPTIONS).options
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(spark_java_home(Home(work).cache)))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_HOME", os.environ.get("SPARK_HOME", ""))
        patch.delenv("SPARK_HOME")
        with spark_session(
            SessionRequest(
                work / "work",
                work / "spark.log",
                "local[2]",
                quote_java_options([*JAVA_OPTIONS, C1_ONLY, *cached]),
            )
        ) as session:
            yield session


@pytest.fixture
def measured(spark: SparkSession, tmp_path: Path) -> Callable[..., Measured]:
    """Return a function that plants trials in a new sweep and measures them."""

    def plant_and_measure(*trials: PlantedTrial) -> Measured:
        sweep = tmp_path / "a sweep"
        for trial in trials:
            trial.plant(sweep)
        return measure_ledgers(spark, open_ledgers(str(sweep)))

    return plant_and_measure
