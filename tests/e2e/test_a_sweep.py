"""A sweep from start to finish, with real brokers, Airflow, Spark and MLflow; and interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from e2e.command import AckbenchCommand, bench_in, write_experiment
from e2e.services import free_ports

from ackbench.infra.process.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
SECRET = "a-password-that-no-file-may-have"  # noqa: S105 - it protects nothing
SECTIONS = ("broker", "producer", "consumer")


def complete_trials(bench: AckbenchCommand) -> list[Path]:
    """Return the trials that are sealed or void."""
    return [
        path.parent
        for path in bench.home.sweeps.glob("*/trials/*/trial.json")
        if not path.parent.suffix
    ]


def second_trial_runs(bench: AckbenchCommand) -> bool:
    """Return whether one trial is complete and the clients of another one run."""
    return bool(complete_trials(bench)) and any(
        bench.home.sweeps.glob("*/trials/*.partial/clients/producer-0.attempts")
    )


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckbenchCommand]:
    """Run a sweep of one cell without a fault, with its control and its positive control.

    Brokers and clients have a password each. No listener needs it, so it only has to stay secret.
    """
    folder = tmp_path_factory.mktemp("complete")
    sections = "".join(f"{name}: {{ssl.key.password: $SECRET}}\n" for name in SECTIONS)
    with bench_in(folder, {"SECRET": SECRET}) as bench:
        ran = bench.run(
            "run", write_experiment(folder, "none", acks="1", controls=True, sections=sections)
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        yield bench


def test_without_a_fault_no_record_is_lost_or_duplicated(complete: AckbenchCommand) -> None:
    """Every record was acknowledged, is in the log once, and was read; MLflow has the trials."""
    trials = complete.show()["trials"]
    assert [trial["status"] for trial in trials] == ["sealed"] * 3
    for trial in trials:
        if trial["role"] == "positive-control":
            continue
        assert (trial["attempted"], trial["acked"], trial["lost"], trial["duplicates"]) == (
            8000,
            8000,
            [0, 0],
            0,
        )
        assert trial["latency_ms"]["end_to_end"]["records"] == 8000
    assert tracked(complete) == {trial["trial_id"] for trial in trials}


def test_the_controls_of_a_sweep_validate_its_results(complete: AckbenchCommand) -> None:
    """The control loses nothing, the positive control loses, and the cell has a verdict."""
    results_json = complete.show()
    assert (
        results_json["harness"]["control_clean"],
        results_json["harness"]["positive_control_lost"],
    ) == (True, True)
    assert sorted(cell["role"] for cell in results_json["cells"]) == [
        "cell",
        "control",
        "positive-control",
    ]
    own = next(cell for cell in results_json["cells"] if not cell["added"])
    loss = own["judgements"][0]
    assert (loss["guarantee"], loss["verdict"], loss["share"]["seen"], loss["share"]["of"]) == (
        "no-acked-loss",
        "HELD",
        0,
        1,
    )


def test_the_runs_open_in_mlflow_until_ctrl_c(complete: AckbenchCommand) -> None:
    """In a home in which Airflow never ran."""
    command = complete.start("open", "mlflow", "--port", str(free_ports().mlflow))
    assert command.stdout
    link = next(line for line in command.stdout if line.startswith("http://"))
    with urlopen(link.partition("#")[0], timeout=60) as page:  # noqa: S310 - this machine
        assert b"<title>MLflow" in page.read()
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=60)
    assert (command.returncode, errors, complete.processes()) == (0, "", [])


@pytest.mark.further
def test_measuring_again_gives_the_same_bytes(complete: AckbenchCommand) -> None:
    """The results depend only on the ledgers."""
    before = results(complete)
    assert complete.run("measure", next(complete.home.sweeps.iterdir()).name).returncode == 0
    assert results(complete) == before


def test_no_file_of_the_home_has_a_password_of_the_sweep(complete: AckbenchCommand) -> None:
    """Plan, ledgers, results, report, logs, MLflow's store, and the files of the brokers."""
    files = [path for path in complete.home.root.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    references = [path.name for path in files if b"$SECRET" in path.read_bytes()]
    assert {"plan.json", "trial.json"} <= set(references)


@pytest.mark.further
def test_ctrl_c_leaves_no_process_and_names_the_command_to_resume(
    bench: AckbenchCommand, experiment: Callable[..., str]
) -> None:
    """The sealed trial is kept, and resuming runs only the missing one."""
    command = bench.start("run", experiment("none"))
    wait_until(lambda: second_trial_runs(bench), awaiting="the second trial", timeout_s=180)
    sealed = {path: (path / "trial.json").read_bytes() for path in complete_trials(bench)}
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=60)
    assert command.returncode == 128 + signal.SIGINT
    assert "resume with: ackbench run --resume" in errors
    assert bench.processes() == []
    resumed = bench.run("run", "--resume", next(bench.home.sweeps.iterdir()).name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert {path: (path / "trial.json").read_bytes() for path in sealed} == sealed
    assert len(complete_trials(bench)) == 2


@pytest.mark.further
def test_kill_9_in_mid_trial_leaves_nothing_after_clean(
    bench: AckbenchCommand, experiment: Callable[..., str]
) -> None:
    """No process is left, and the sealed trials can be measured."""
    command = bench.start("run", experiment("leader-crash", duration_s=9))
    wait_until(lambda: second_trial_runs(bench), awaiting="the second trial", timeout_s=180)
    command.kill()
    command.communicate(timeout=60)
    assert bench.run("clean").returncode == 0
    assert bench.processes() == []
    assert bench.run("measure", next(bench.home.sweeps.iterdir()).name).returncode == 0
    assert [trial["lost"] for trial in bench.show()["trials"] if trial["status"] == "sealed"] == [
        [0, 0]
    ]


def results(bench: AckbenchCommand) -> dict[str, bytes]:
    """Return the bytes of each result file of the only sweep."""
    return {
        path.name: path.read_bytes()
        for path in sorted(bench.home.sweeps.glob("*/results/*.parquet"))
    }


def tracked(bench: AckbenchCommand) -> set[str]:
    """Return the ids of the trials in MLflow's embedded store."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{bench.home.mlflow / 'mlflow.db'}")
    runs = client.search_runs(
        [e.experiment_id for e in client.search_experiments()], "tags.kind = 'trial'"
    )
    return {run.data.tags["trial_id"] for run in runs}
