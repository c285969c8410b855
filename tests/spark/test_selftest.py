"""The self-test with the real Spark job: it finds exactly the planted faults."""

from pathlib import Path

import pytest
from pyspark import SparkContext
from support.builders.sweep_folders import TRIAL, plant_sweep, realistic_trial

from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.selftest.check import BREAKAGES, check
from ackbench.experiments.results.selftest.ledger_copy import LedgerCopy
from ackbench.experiments.results.selftest.plants import PLANTS, undisturbed_records
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.distribution import measure_ledgers
from ackbench.spark_jobs.io.ledgers import InvalidLedger, open_ledgers
from ackbench.spark_jobs.io.writer import write_results


def test_each_planted_fault_is_found_exactly(
    spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs in this process instead of a separate one."""

    def measured(sweep: SweepFolder, _: Home) -> None:
        try:
            ledgers = open_ledgers(str(sweep.root))
            tables = measure_ledgers(spark, ledgers)
        except InvalidLedger as error:
            raise LedgerError(str(error)) from error
        write_results(ledgers.files, ledgers.root, tables)

    monkeypatch.setattr("ackbench.experiments.results.selftest.check.measure", measured)
    home = Home(tmp_path / "a home")
    ledger = LedgerCopy.read(plant_sweep(home, realistic_trial()).trial(TRIAL))
    results = list(check(ledger, undisturbed_records(ledger), tmp_path, home, seed=3))
    assert ([result for result in results if not result.ok], len(results)) == (
        [],
        len(PLANTS) + len(BREAKAGES),
    )
