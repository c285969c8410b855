"""A person marks a DAG run as failed on Airflow's page, and clears it later."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.command import bench_in
from e2e.services import running_services
from e2e.test_cleared_tasks import EXPERIMENT

from ackbench.infra.process.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.further, pytest.mark.timeout(900)]
_TIMEOUT_S = 600.0


def test_a_run_that_is_marked_as_failed_has_failed_and_goes_on_when_it_is_cleared(
    tmp_path: Path,
) -> None:
    """Airflow alone would call it a success. No trial is called failed: none has."""
    (tmp_path / "offered").mkdir()
    (tmp_path / "offered" / "marked.yaml").write_text(EXPERIMENT)
    with (
        bench_in(tmp_path) as bench,
        running_services(bench, "--experiments", str(tmp_path / "offered")) as api,
    ):
        api.unpause()
        run = api.trigger({"experiment": "marked.yaml"})
        wait_until(
            lambda: "flowing" in bench.event_kinds(),
            awaiting="the load of a trial",
            timeout_s=_TIMEOUT_S,
            seen=lambda: [(task["task_id"], task["state"]) for task in run.tasks()],
        )
        run.mark("failed")
        assert run.wait() == "failed"
        assert run.logged(*run.tasks("outcome")) == [
            "the run was marked as failed; clear it to go on with its sweep"
        ]
        run.clear()
        assert run.wait() == "success"
        assert len([*bench.home.sweeps.glob("*/trials/*/trial.json")]) == 2
        assert not [*bench.home.sweeps.glob("*/trials/*.failed")]
