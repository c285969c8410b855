"""One Spark context for all tests of this folder: starting a JVM costs more than any of them."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext
from support.leftovers import set_variables
from support.set_up_home import SET_UP

from ackbench.experiments.results.spark_job import JAVA_OPTIONS
from ackbench.infra.jvm.runtime import spark_java_home
from ackbench.infra.jvm.startup_cache import quote_java_options, spark_startup_cache
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.configuration import ContextRequest
from ackbench.spark_jobs.distribution import measure_ledgers
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.planted import PlantedTrial
from ackbench.spark_jobs.session import spark_context

Measured = dict[str, pa.Table]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """Yield a context in this machine's JVM, with its files in a temporary folder."""
    work = tmp_path_factory.mktemp("spark")
    cached = spark_startup_cache(SET_UP.cache, JAVA_OPTIONS).options
    others, path, interrupt = dict(os.environ), list(sys.path), signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(spark_java_home(Home(work).cache)))
        patch.delenv("SPARK_HOME", raising=False)
        patch.setenv("SPARK_CONF_DIR", str(work))  # the user's configuration is not under test
        options = quote_java_options([*JAVA_OPTIONS, *cached])
        request = ContextRequest(work / "work", work / "spark.log", "local[2]", options)
        with spark_context(request) as context:
            # It expects a process of its own; this one is that of other tests too.
            own = dict(os.environ)
            set_variables(others)
            sys.path[:] = path
            signal.signal(signal.SIGINT, interrupt)
            yield context
            set_variables(own)
        set_variables(others)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new home with the start-up caches only: a JVM starts in half of the CPU time."""
    home = Home(tmp_path / "a home")
    home.cache.mkdir(parents=True)
    (home.cache / "startup").symlink_to(SET_UP.cache / "startup")
    return home


@pytest.fixture
def measured(spark: SparkContext, tmp_path: Path) -> Callable[..., Measured]:
    """Return a function that plants trials in a new sweep and measures them."""

    def plant_and_measure(*trials: PlantedTrial) -> Measured:
        sweep = tmp_path / "a sweep"
        for trial in trials:
            trial.plant(sweep)
        return measure_ledgers(spark, open_ledgers(str(sweep)))

    return plant_and_measure
