"""The whole path, as a user walks it: real brokers, the real DAG, Spark, MLflow; and what is left when it is cut short."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command import Bench

from infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster


def whole_trials(bench: Bench) -> list[Path]:
    """Return the trials that are sealed or void."""
    return [
        path.parent
        for path in bench.home.sweeps.glob("*/trials/*/trial.json")
        if not path.parent.suffix
    ]


def under_way(bench: Bench) -> bool:
    """Whether one trial is whole and another one has its clients up."""
    return bool(whole_trials(bench)) and any(
        bench.home.sweeps.glob("*/trials/*.partial/clients/producer-0.attempts")
    )


def test_a_calm_sweep_loses_and_repeats_nothing(
    bench: Bench, experiment: Callable[..., str]
) -> None:
    """Every record of the schedule was acknowledged, is in the log once, and was read; MLflow holds the trials."""
    ran = bench.run("run", experiment("none"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    trials = bench.shown()["trials"]
    assert [trial["status"] for trial in trials] == ["sealed", "sealed"]
    for trial in trials:
        assert (trial["attempted"], trial["acked"], trial["lost"], trial["duplicates"]) == (
            8000,
            8000,
            [0, 0],
            0,
        )
        assert trial["latency_ms"]["end_to_end"]["records"] == 8000
    assert tracked(bench) == {trial["trial_id"] for trial in trials}


def test_a_sweeps_own_controls_say_that_its_figures_can_be_believed(
    bench: Bench, experiment: Callable[..., str]
) -> None:
    """The calm one is clean, the one that must lose does; what was promised to the cell in between has its verdict, with the bound of one trial."""
    ran = bench.run("run", experiment("none", acks="1", controls=True))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = bench.shown()
    assert (shown["harness"]["control_clean"], shown["harness"]["positive_control_lost"]) == (
        True,
        True,
    )
    assert sorted(cell["role"] for cell in shown["cells"]) == [
        "cell",
        "control",
        "positive-control",
    ]
    own = next(cell for cell in shown["cells"] if not cell["added"])
    loss = own["judgements"][0]
    assert (loss["guarantee"], loss["verdict"], loss["share"]["seen"], loss["share"]["of"]) == (
        "no-acked-loss",
        "HELD",
        0,
        1,
    )


def test_measuring_again_gives_the_same_bytes(bench: Bench, experiment: Callable[..., str]) -> None:
    """Results are a function of the ledgers alone."""
    assert bench.run("run", experiment("none", acks="[1]", duration_s=2)).returncode == 0
    before = results(bench)
    assert bench.run("measure", next(bench.home.sweeps.iterdir()).name).returncode == 0
    assert results(bench) == before


def test_ctrl_c_leaves_no_process_and_says_how_to_go_on(
    bench: Bench, experiment: Callable[..., str]
) -> None:
    """The sealed trial is kept, and going on runs only what is missing."""
    command = bench.start("run", experiment("none"))
    wait_until(lambda: under_way(bench), awaiting="the second trial", timeout_s=180)
    sealed = {path: (path / "trial.json").read_bytes() for path in whole_trials(bench)}
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 128 + signal.SIGINT
    assert "resume with: ackbench run --resume" in said
    assert bench.processes() == []
    went_on = bench.run("run", "--resume", next(bench.home.sweeps.iterdir()).name)
    assert went_on.returncode == 0, went_on.stdout + went_on.stderr
    assert {path: (path / "trial.json").read_bytes() for path in sealed} == sealed
    assert len(whole_trials(bench)) == 2


def test_kill_9_in_mid_trial_leaves_nothing_after_clean(
    bench: Bench, experiment: Callable[..., str]
) -> None:
    """No process is left, and what was sealed measures as before."""
    command = bench.start("run", experiment("leader-crash", duration_s=9))
    wait_until(lambda: under_way(bench), awaiting="the second trial", timeout_s=180)
    command.kill()
    command.communicate(timeout=60)
    assert bench.run("clean").returncode == 0
    assert bench.processes() == []
    assert bench.run("measure", next(bench.home.sweeps.iterdir()).name).returncode == 0
    assert [trial["lost"] for trial in bench.shown()["trials"] if trial["status"] == "sealed"] == [
        [0, 0]
    ]


def results(bench: Bench) -> dict[str, bytes]:
    """Return the bytes of every result of the only sweep."""
    return {
        path.name: path.read_bytes()
        for path in sorted(bench.home.sweeps.glob("*/results/*.parquet"))
    }


def tracked(bench: Bench) -> set[str]:
    """Return the trials that MLflow's embedded store holds."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{bench.home.mlflow / 'mlflow.db'}")
    runs = client.search_runs(
        [e.experiment_id for e in client.search_experiments()], "tags.kind = 'trial'"
    )
    return {run.data.tags["trial_id"] for run in runs}
