"""The operator of the provider, with a program in the place of ackbench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow_provider_ackbench import __version__, get_provider_info

from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

SWEEP = "quick-20260102T030405-ab12"
CONTEXT: Any = {"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1)}
RESULTS = {
    "cells": [
        {
            "label": "acks=1",
            "judgements": [
                {"guarantee": "no-acked-loss", "verdict": "VIOLATED"},
                {"guarantee": "order", "verdict": "UNKNOWN"},
                {"guarantee": "no-duplicates", "verdict": "HELD"},
            ],
        }
    ]
}
PROGRAM = f"""\
import json, os, pathlib, sys, time
words, here = sys.argv[1:], pathlib.Path(__file__).parent
if words == ["--version"]:
    print("ackbench", (here / "version").read_text())
    sys.exit()
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([words, dict(os.environ)]) + "\\n")
plan = json.loads((here / "plan").read_text())
code, last = plan.pop(0)
(here / "plan").write_text(json.dumps(plan))
if code != 2:
    print("16:40:47 sweep {SWEEP}: 14 trials", flush=True)
if code == "wait":
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        (here / "ended").touch()
        sys.exit(130)
if code in (0, 3):
    path = pathlib.Path(words[words.index("--json") + 1])
    path.write_text({json.dumps(RESULTS)!r})
print(last, flush=True)
sys.exit(code)
"""


@pytest.fixture
def operators(airflow: Home) -> Any:
    """Return the provider's module, imported in Airflow's environment."""
    del airflow
    from airflow_provider_ackbench import operators

    return operators


@pytest.fixture
def bench(operators: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes the program, which ends with these codes and last lines, one per call."""
    monkeypatch.setattr(operators, "NOTES", tmp_path / "notes")
    folder = tmp_path / "bench"
    folder.mkdir()

    def write(*plan: tuple[int | str, str], release: str = __version__) -> Path:
        program = folder / "ackbench.py"
        program.write_text(PROGRAM)
        (folder / "version").write_text(release)
        (folder / "plan").write_text(json.dumps(plan))
        return program

    return write


def calls_of(program: Path) -> list[list[str]]:
    """Return the arguments of each call, without the path of the results."""
    lines = (program.parent / "calls").read_text().splitlines()
    return [words[: words.index("--json")] for words, _ in map(json.loads, lines)]


def variables_of(program: Path) -> dict[str, str]:
    """Return the variables of the last call."""
    lines = (program.parent / "calls").read_text().splitlines()
    found: dict[str, str] = json.loads(lines[-1])[1]
    return found


def test_a_backfill_starts_nothing(operators: Any, bench: Callable[..., Path]) -> None:
    """Each of its runs would test the Kafka of today."""
    program = bench((0, "done"))
    operator = operators.AckbenchSweepOperator(
        task_id="t", experiment="quick", command=[sys.executable, str(program)]
    )
    with pytest.raises(operators.AirflowFailException, match=r"would test the Kafka of today once"):
        operator.execute({**CONTEXT, "dag_run": SimpleNamespace(run_type="backfill")})
    assert not (program.parent / "calls").exists()


def test_the_provider_and_ackbench_have_one_version() -> None:
    """The operator refuses another release series."""
    assert __version__ == version("ackbench")
    assert get_provider_info()["versions"] == [__version__]


def test_a_sweep_is_run_with_its_axes_and_returns_what_is_to_be_looked_at(
    operators: Any, bench: Callable[..., Path]
) -> None:
    """Values that are lists are axes; booleans are written as Kafka writes them."""
    program = bench((0, "done"))
    operator = operators.AckbenchSweepOperator(
        task_id="t",
        experiment="quick",
        axes={"acks": [1, "all"], "enable.idempotence": False},
        repeats=2,
        expect=["lost=0"],
        fail_on=["violated"],
        store="s3://bench",
        command=[sys.executable, str(program)],
        home="/data/bench",
        options=["--no-live"],
    )
    assert operator.execute(CONTEXT) == {
        "sweep": SWEEP,
        "violated": {"no-acked-loss": ["acks=1"]},
        "unknown": {"order": ["acks=1"]},
    }
    axes = ["--set", "acks=1,all", "--set", "enable.idempotence=false"]
    conditions = ["--expect", "lost=0", "--fail-on", "violated"]
    assert calls_of(program) == [
        ["run", "quick", *axes, "--repeats", "2", *conditions, "--no-live"]
    ]
    assert variables_of(program)["ACKBENCH_STORE"] == "s3://bench"
    assert variables_of(program)["ACKBENCH_HOME"] == "/data/bench"


def test_the_next_attempt_goes_on_with_the_sweep_and_a_cleared_task_runs_another(
    operators: Any, bench: Callable[..., Path]
) -> None:
    """Also where a sweep cannot go on, as its home has lost it."""
    program = bench((1, "a trial failed"), (0, ""), (0, ""), (1, ""), (2, "no sweep"), (0, ""))
    arguments: Any = {
        "task_id": "t",
        "experiment": "quick",
        "command": [sys.executable, str(program)],
        "expect": ["lost=0"],
        "fail_on": ["violated"],
    }
    with pytest.raises(
        operators.AirflowException, match=r"exit code 1\): a trial failed; another attempt"
    ):
        operators.AckbenchSweepOperator(**arguments).execute(CONTEXT)
    for _ in range(2):
        operators.AckbenchSweepOperator(**arguments).execute(CONTEXT)
    with pytest.raises(operators.AirflowException):
        operators.AckbenchSweepOperator(**arguments).execute(CONTEXT)
    assert operators.AckbenchSweepOperator(**arguments).execute(CONTEXT)["sweep"] == SWEEP
    fails = ["--fail-on", "violated"]
    new, resumed = (
        ["run", "quick", "--expect", "lost=0", *fails],
        ["run", "--resume", SWEEP, *fails],
    )
    assert calls_of(program) == [new, resumed, new, new, resumed, new]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ((2, "ackbench: unknown experiment 'quikc'"), "unknown experiment 'quikc'"),
        ((3, "gate: failed"), f"sweep {SWEEP} is not as expected"),
    ],
    ids=["invalid", "not as expected"],
)
def test_what_another_attempt_would_not_change_fails_for_good(
    operators: Any, bench: Callable[..., Path], plan: tuple[int, str], message: str
) -> None:
    """Without another attempt, and with the reason."""
    program = bench(plan)
    operator = operators.AckbenchSweepOperator(
        task_id="t", experiment="quikc", command=[sys.executable, str(program)]
    )
    with pytest.raises(operators.AirflowFailException, match=message):
        operator.execute(CONTEXT)
    assert not list(operators.NOTES.glob("*"))


def test_another_release_of_ackbench_is_refused(operators: Any, bench: Callable[..., Path]) -> None:
    """Before anything is run."""
    program = bench(release="7.3.1")
    operator = operators.AckbenchSweepOperator(
        task_id="t", experiment="quick", command=[sys.executable, str(program)]
    )
    with pytest.raises(
        operators.AirflowFailException, match=r"ackbench 7\.3\.1 .* install the same release"
    ):
        operator.execute(CONTEXT)
    assert not (program.parent / "calls").exists()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ACKBENCH_PYTHON": "/absent/python"}, "cannot be started: .*/absent/python"),
        ({"PATH": "/absent"}, "not on this worker: .* set ACKBENCH_PYTHON to its interpreter"),
        ({"ACKBENCH_PYTHON": "/bin/false"}, "cannot be started: no output"),
    ],
    ids=["no interpreter", "nothing", "fails"],
)
def test_a_worker_without_ackbench_is_one_line(
    operators: Any, variables: dict[str, str], message: str
) -> None:
    """It names the variable that is to be set."""
    operator = operators.AckbenchSweepOperator(
        task_id="t", experiment="quick", environment=variables
    )
    with pytest.raises(operators.AirflowFailException, match=message):
        operator.execute(CONTEXT)


def test_a_task_that_is_stopped_ends_its_sweep(operators: Any, bench: Callable[..., Path]) -> None:
    """As Ctrl-C does; the note stays, so that the next attempt goes on."""
    program = bench(("wait", ""))
    operator = operators.AckbenchSweepOperator(
        task_id="t", experiment="quick", command=[sys.executable, str(program)]
    )

    def stop() -> None:
        wait_until(lambda: operator.sweep is not None, awaiting="the sweep", timeout_s=60)
        operator.on_kill()

    stopped = threading.Thread(target=stop)
    stopped.start()
    with pytest.raises(operators.AirflowException, match="exit code 130"):
        operator.execute(CONTEXT)
    stopped.join()
    assert (program.parent / "ended").exists()
    assert [path.read_text() for path in operators.NOTES.glob("*")] == [SWEEP]


def test_a_task_whose_process_is_killed_ends_its_sweep(
    operators: Any, bench: Callable[..., Path], tmp_path: Path
) -> None:
    """As a worker does that runs out of memory: nobody calls `on_kill`."""
    program = bench(("wait", ""))
    task = tmp_path / "task.py"
    task.write_text(
        "import sys, types\n"
        "from airflow_provider_ackbench.operators import AckbenchSweepOperator\n"
        "ti = types.SimpleNamespace(dag_id='d', task_id='t', run_id='r', map_index=-1)\n"
        "AckbenchSweepOperator(task_id='t', experiment='quick', command=sys.argv[1:])"
        ".execute({'ti': ti})\n"
    )
    paths = {"PYTHONPATH": str(Path(operators.__file__).parents[1]), "HOME": str(tmp_path)}
    paths["TMPDIR"] = str(tmp_path)  # what a killed process cannot delete
    with subprocess.Popen(
        [sys.executable, task, sys.executable, program],
        env={**os.environ, **paths},
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_until(
            lambda: list(tmp_path.glob(".cache/*/*.txt")), awaiting="the sweep", timeout_s=60
        )
        process.kill()
    wait_until((program.parent / "ended").exists, awaiting="the end of the sweep", timeout_s=60)


PASSWORD = "ACKBENCH_CONNECTION_SASL_PASSWORD"  # noqa: S105 - its variable's name
EXTRA = {
    "bootstrap.servers": "kafka-1:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "bench",
    "sasl.password": "$ecret",
    "ssl.key.password": "other",
    "enable.ssl.certificate.verification": False,
    "group.id": "theirs",
}


def test_a_connection_is_the_external_cluster_of_a_file_and_its_secrets_are_in_no_file(
    operators: Any, bench: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the next attempt, whose plan has the names of the variables."""
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\ncluster: local\naxes: {acks: all}\n")
    written: list[str] = []
    run = operators.AckbenchSweepOperator._run

    def reading(operator: Any, command: list[str], *more: Any) -> int:
        written.extend(Path(word).read_text() for word in command if word.endswith("mine.yaml"))
        return int(run(operator, command, *more))

    monkeypatch.setattr(operators.AckbenchSweepOperator, "_run", reading)
    from airflow.sdk import Connection

    monkeypatch.setattr(
        Connection,
        "get",
        lambda name: Connection(conn_id=name, conn_type="kafka", extra=json.dumps(EXTRA)),
    )
    program = bench((1, ""), (0, ""))
    arguments: Any = {
        "task_id": "t",
        "experiment": str(file),
        "kafka_conn_id": "kafka-staging",
        "command": [sys.executable, str(program)],
    }
    with pytest.raises(operators.AirflowException):
        operators.AckbenchSweepOperator(**arguments).execute(CONTEXT)
    assert variables_of(program)[PASSWORD] == "$ecret"
    operators.AckbenchSweepOperator(**arguments).execute(CONTEXT)
    assert variables_of(program)[PASSWORD] == "$ecret"
    assert [yaml.safe_load(text) for text in written] == [
        {
            "name": "mine",
            "cluster": "external",
            "axes": {"acks": "all"},
            "bootstrap.servers": "kafka-1:9093",
            "security": {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "bench",
                "sasl.password": f"${PASSWORD}",
                "ssl.key.password": "$ACKBENCH_CONNECTION_SSL_KEY_PASSWORD",
                "enable.ssl.certificate.verification": "false",
            },
        }
    ]


def test_a_dag_has_the_sweep_alone_and_none_for_the_past(airflow: Home) -> None:
    """Its operator's fields can be templates."""
    del airflow
    from airflow_provider_ackbench.dags import sweep_dag

    made = sweep_dag("nightly", "{{ var.value.file }}", schedule="0 2 * * *", retries=2)
    assert [task.task_id for task in made.tasks] == ["sweep"]
    assert not made.catchup
    assert made.max_active_runs == 1
    assert "experiment" in made.get_task("sweep").template_fields
    assert made.get_task("sweep").retries == 2
