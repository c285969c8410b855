"""A person marks a DAG run as failed on Airflow's page, and clears it later."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.services import run_under_load
from e2e.test_cleared_tasks import EXPERIMENT

pytestmark = [pytest.mark.cluster, pytest.mark.further, pytest.mark.timeout(900)]


def test_a_run_that_is_marked_as_failed_has_failed_and_goes_on_when_it_is_cleared(
    tmp_path: Path,
) -> None:
    """Airflow alone would call it a success. No trial is called failed: none has."""
    files = {"marked.yaml": EXPERIMENT}
    with run_under_load(tmp_path, files, "marked.yaml") as (bench, run):
        run.mark("failed")
        assert run.wait() == "failed"
        assert run.logged(*run.tasks("outcome")) == [
            "the run was marked as failed; clear it to go on with its sweep"
        ]
        run.clear()
        assert run.wait() == "success"
        assert len([*bench.home.sweeps.glob("*/trials/*/trial.json")]) == 2
        assert not [*bench.home.sweeps.glob("*/trials/*.failed")]
