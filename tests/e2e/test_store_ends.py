"""The store dies while a trial runs: nothing is lost, and what is missing in it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.command import AckbenchCommand
from support.object_store import object_store

from ackbench.infra.process.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.further]


def in_second_load(bench: AckbenchCommand) -> bool:
    """Return whether one trial is sealed and the load of the next has begun."""
    sealed = list(bench.home.sweeps.glob("*/trials/*/trial.json"))
    return len(sealed) == 1 and "load_begin" in bench.event_kinds()


def test_a_store_that_dies_in_a_trial_loses_nothing_and_gets_everything_later(
    bench: AckbenchCommand, experiment: Callable[..., str], tmp_path: Path
) -> None:
    """The sweep runs to its end; one line says what to do, and that works on a new store."""
    with object_store(tmp_path / "store") as store:
        writing = replace(bench, variables=store.environment)
        run = writing.start("run", experiment("none", duration_s=3), "--store", store.uri)
        wait_until(
            lambda: in_second_load(bench) or run.poll() is not None,
            awaiting="the load of the second trial",
            timeout_s=300,
        )
        store.kill()
        output, errors = run.communicate(timeout=300)
    (folder,) = bench.home.sweeps.iterdir()
    said = " ".join((output + errors).split())
    assert run.returncode == 1, said
    assert f"ackbench publish {folder.name}" in said
    assert "Traceback" not in said
    assert [trial["status"] for trial in bench.show()["trials"]] == ["sealed", "sealed"]
    assert bench.processes() == []

    with object_store(tmp_path / "another") as store:
        reading = replace(bench, variables=store.environment)
        resumed = reading.run("run", "--resume", folder.name)
        assert resumed.returncode == 0, resumed.stderr
        (bench.home.root / "sweeps").rename(tmp_path / "elsewhere")
        shown = reading.show(f"{store.uri}/{folder.name}")
        assert [trial["status"] for trial in shown["trials"]] == ["sealed", "sealed"]
