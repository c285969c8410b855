"""The job with many anomalies, without memory, and with a JVM that does not answer.

It ends in each case, with results or with a reason, and leaves nothing that keeps the next one from
measuring at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench
from support.measured import measure_planted

from ackbench.experiments.ledger.result_terms import ANOMALY_ROWS
from ackbench.experiments.ledger.schema import ATTEMPTS
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.messages.errors import SparkError
from ackbench.experiments.results import spark_job
from ackbench.experiments.results.rows import read_table
from ackbench.experiments.results.spark_job import measure
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.spark_master import MASTER_VARIABLE, SETTINGS_VARIABLE
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until
from ackbench.spark_jobs import distribution
from ackbench.spark_jobs.distribution import measure_ledgers
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

LOST = 3_500_000
"""A trial that is one unit; the rows of all its anomalies do not fit into the driver's heap."""
SMALL = PlantedTrial("000-planted", [PlantedAttempt(0, 0)])


@pytest.fixture
def home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home of the commands, without settings of Spark."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # of fake jobs
    for variable in (MASTER_VARIABLE, SETTINGS_VARIABLE):
        monkeypatch.setenv(variable, "")
    return home


def plant_lost_records(sweep: SweepFolder, records: int) -> None:
    """Write a trial whose every record was acknowledged and lost."""
    every: dict[str, Any] = {"producer": 0, "outcome": "acked", "error": 0, "partition": 0}
    columns = {
        field.name: pa.array([every.get(field.name)], field.type).take(
            pa.array(np.zeros(records, np.int32))
        )
        for field in ATTEMPTS
    }
    numbers = ("seq", "intended_ns", "sent_ns", "settled_ns", "offset")
    columns |= dict.fromkeys(numbers, pa.array(np.arange(records, dtype=np.int64)))
    trial = PlantedTrial("000-lost", [PlantedAttempt(0, 0)])
    record = trial.record(sweep.sweep_id)
    (producer,) = record.producers
    partial_folder = sweep.partial(trial.trial_id)
    partial_folder.mkdir(parents=True)
    seal(
        partial_folder,
        sweep.trial(trial.trial_id),
        record.model_copy(
            update={"producers": (producer.model_copy(update={"records": records}),)}
        ),
        {**trial.tables(), "attempts": pa.table(columns, schema=ATTEMPTS)},
    )


@pytest.mark.further
def test_a_trial_with_millions_of_anomalies_is_measured_entire_and_in_units(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are counted and the first are named, the same in both measurements."""
    sweep = SweepFolder(tmp_path / "sweep")
    plant_lost_records(sweep, LOST)
    measure(sweep, home)
    anomalies, attribution = (read_table(sweep, name) for name in ("anomalies", "attribution"))
    assert anomalies["seq"].to_pylist() == list(range(ANOMALY_ROWS))
    assert [(row["kind"], row["records"]) for row in attribution.to_pylist()] == [("LOST", LOST)]
    assert read_table(sweep, "trials")["lost_low_records"].to_pylist() == [LOST]
    entire = {path.name: path.read_bytes() for path in sweep.results.iterdir()}
    monkeypatch.setenv(SETTINGS_VARIABLE, "spark.ackbench.unitRecords=1000000")
    measure(sweep, home)
    assert {path.name: path.read_bytes() for path in sweep.results.iterdir()} == entire


@pytest.mark.further
def test_large_tables_are_fetched_a_few_trials_at_a_time(
    spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials of one unit and of several, with large and with small tables."""
    trials = [
        PlantedTrial(
            f"{number:03d}-planted",
            [PlantedAttempt(0, seq, offset=seq * 7919 % 10007, settled_ns=seq**2) for seq in seqs],
        )
        for number, seqs in enumerate(map(range, (9_000, 1, 20_000, 9_001, 2)))
    ]
    for trial in trials:
        trial.plant(tmp_path)
    jobs: list[list[int]] = []
    run_job = SparkContext.runJob

    def run(context: SparkContext, rdd: Any, function: Any, partitions: list[int]) -> Any:
        jobs.append(partitions)
        return run_job(context, rdd, function, partitions)

    monkeypatch.setattr(SparkContext, "runJob", run)
    monkeypatch.setattr(distribution, "FETCHED_BYTES", 1)
    found = measure_ledgers(spark, open_ledgers(str(tmp_path)), unit_records=10_000)
    assert [len(partitions) for partitions in jobs] == [1, 1, 1]
    expected = measure_planted(*trials)
    for name, table in expected.items():
        order = [(column, "ascending") for column in table.column_names]
        assert found[name].sort_by(order).equals(table.sort_by(order)), name


def run_instead(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Have a fake module run in place of the job's."""
    job = spark_job._job
    monkeypatch.setattr(spark_job, "_job", lambda _, *given, **named: job(module, *given, **named))


def processes_of(home: Home, java_class: str | None = None) -> list[psutil.Process]:
    """Return the processes of jobs of a home: its folder has their temporary files.

    Args:
        home: the home.
        java_class: only JVMs that run this class of Spark.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(str(home.root)) and (
                java_class is None or java_class == main_class(process)
            ):
                found.append(process)
    return found


def main_class(process: psutil.Process) -> str | None:
    """Return the class of Spark that a JVM runs; others that its command names are arguments."""
    words = (word for word in process.cmdline() if word.startswith("org.apache.spark."))
    return next(words, None) if process.name() == "java" else None


@pytest.mark.further
def test_a_driver_without_memory_ends_the_job_with_the_setting_that_gives_it_more(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread than the one that the job waits for had none; the next job measures."""
    sweep = SweepFolder(tmp_path / "sweep")
    SMALL.plant(sweep.root)
    reason = (
        r"^Spark's driver ran out of memory \(java.lang.OutOfMemoryError, heap of [\d,]+ MB\): "
        r"give it more with --conf spark.driver.memory=2g$"
    )
    with monkeypatch.context() as patch:
        run_instead(patch, "support.fakes.starved_job")
        with pytest.raises(SparkError, match=reason):
            measure(sweep, home)
    assert not sweep.results.exists()
    wait_until(lambda: not processes_of(home), awaiting="the end of all processes", timeout_s=30)
    measure(sweep, home)
    assert pq.read_table(sweep.results / "trials.parquet").num_rows == 1


@contextmanager
def stopped(home: Home, java_class: str) -> Iterator[None]:
    """Stop the JVM that runs a class, of the job that is started within the context."""

    def stop() -> None:
        (jvm,) = wait_until(
            lambda: processes_of(home, java_class),
            awaiting=f"a JVM that runs {java_class}",
            timeout_s=120,
            every_s=0.01,
        )
        jvm.send_signal(signal.SIGSTOP)

    thread = threading.Thread(target=stop)
    thread.start()
    yield
    thread.join()


@pytest.mark.further
@pytest.mark.parametrize(
    "java_class", ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
)
def test_a_job_whose_jvm_does_not_answer_ends_and_the_next_one_measures(
    home: Home, java_class: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep is not in use any more, and no process is left."""
    sweep = measured_sweep_folder(home, "quick", [a_spec()], lambda _: {})
    limit = "spark.ackbench.stepLimitSeconds"
    with stopped(home, java_class):
        refused = ackbench("measure", sweep.sweep_id, "--conf", f"{limit}=10")
    assert refused.exit_code == 2
    assert f" was not done after 10 s, its limit ({limit}): " in refused.output
    assert len(refused.output.splitlines()) == 1
    wait_until(lambda: not processes_of(home), awaiting="the end of all processes", timeout_s=30)
    monkeypatch.setenv(SETTINGS_VARIABLE, "")
    assert ackbench("measure", sweep.sweep_id).exit_code == 0
