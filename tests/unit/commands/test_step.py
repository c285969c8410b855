"""`ackbench step`: steps in processes of their own, as the tasks of a scheduler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.command_line import ackbench

from ackbench.experiments.commands.machine import step
from ackbench.infra.process.waiting import wait_until

FAKE_STEP = Path(__file__).parents[2] / "support" / "fakes" / "run_step.py"
SWEEP = "planted-20260101T000000-abcd"
RUN = {"AIRFLOW_CTX_DAG_ID": "team", "AIRFLOW_CTX_DAG_RUN_ID": "manual"}
LIMIT_S = 280


def started(
    home: Path, *arguments: str, variables: Mapping[str, str] = RUN
) -> subprocess.Popen[str]:
    """Start a step in a process of its own."""
    environment = {"ACKBENCH_HOME": str(home), "ACKBENCH_ONE_MACHINE": "1", **variables}
    return subprocess.Popen(
        [sys.executable, FAKE_STEP, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(home: Path, *arguments: str, variables: Mapping[str, str] = RUN) -> tuple[int, str, str]:
    """Run a step; return its exit code and its output."""
    with started(home, *arguments, variables=variables) as process:
        output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, errors


def test_the_steps_of_a_sweep_run_in_processes_of_their_own(tmp_path: Path) -> None:
    """A step hands on JSON, and a trial's step without a trial has an exit code of its own."""
    ended(tmp_path, "new", "1")
    code, listed, errors = ended(tmp_path, "step", "list_trials", SWEEP)
    assert code == 0, errors
    (planned,) = json.loads(listed)
    handed_on = tmp_path / "trial.json"
    trial = ("step", "trial", SWEEP, "--planned", json.dumps(planned), "--json", str(handed_on))
    assert ended(tmp_path, "step", "provision", SWEEP)[0] == 0
    code, output, errors = ended(tmp_path, *trial)
    assert (code, output) == (0, ""), errors
    assert json.loads(handed_on.read_text()) == {
        "ran": "000-abcdef",
        "label": "acks=1 number=0 (000-abcdef)",
    }
    assert ended(tmp_path, *trial)[0] == step.NOTHING_TO_RUN
    for name in ("destroy", "measure", "report", "track", "verify", "alert"):
        code, _, errors = ended(tmp_path, "step", name, SWEEP)
        assert code == 0, errors
    code, output, errors = ended(tmp_path, "step", "finish", SWEEP)
    assert code == 0, errors
    assert json.loads(output)["sweep"] == SWEEP
    assert (tmp_path / "steps").read_text().split("\n")[:3] == [
        "provision",
        "trial 000-abcdef",
        "destroy",
    ]


def test_a_killed_trial_runs_again_when_its_task_is_cleared(tmp_path: Path) -> None:
    """Until then it is locked, and the other trials run; `verify` names it."""
    ended(tmp_path, "new", "3")
    assert ended(tmp_path, "step", "trial", SWEEP)[0] == 0
    with started(tmp_path, "step", "trial", SWEEP) as killed:
        wait_until((tmp_path / "under-way").exists, awaiting="the trial", timeout_s=LIMIT_S)
        killed.kill()
    assert ended(tmp_path, "step", "trial", SWEEP)[0] == 0
    assert ended(tmp_path, "step", "trial", SWEEP)[0] == step.NOTHING_TO_RUN
    code, _, errors = ended(tmp_path, "step", "verify", SWEEP)
    assert code == 1
    assert "1 of 3 trials are missing: 001-abcdef (locked by process" in errors.splitlines()[-1]
    (tmp_path / "under-way").unlink()
    cleared = {**RUN, "AIRFLOW_CTX_TRY_NUMBER": "2"}
    with started(tmp_path, "step", "trial", SWEEP, variables=cleared) as again:
        wait_until((tmp_path / "under-way").exists, awaiting="the trial", timeout_s=LIMIT_S)
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=LIMIT_S)
    assert again.returncode == 128 + signal.SIGTERM
    # The next task would find the topic of the trial.
    assert (tmp_path / "steps").read_text().splitlines()[-2:] == ["trial 001-abcdef", "destroy"]


def test_a_trial_that_takes_too_long_has_failed_and_the_next_one_runs(tmp_path: Path) -> None:
    """Else each further task would begin with it again."""
    ended(tmp_path, "new", "3")
    assert ended(tmp_path, "step", "trial", SWEEP)[0] == 0
    limited = {**RUN, "FAKE_LIMIT_S": "1.5"}
    code, _, errors = ended(tmp_path, "step", "trial", SWEEP, variables=limited)
    assert code == 1
    assert errors.splitlines()[-1].endswith(
        "StepTimeout: trial: it took longer than its limit of 2 s"
    )
    code, output, _ = ended(tmp_path, "step", "trial", SWEEP)
    assert json.loads(output)["ran"] == "002-abcdef"


def test_steps_of_another_run_are_refused_while_one_is_under_way(tmp_path: Path) -> None:
    """Also if their scheduler names no run: then the sweep's steps are one."""
    ended(tmp_path, "new", "1")
    assert ended(tmp_path, "step", "provision", SWEEP, variables={})[0] == 0
    assert ended(tmp_path, "step", "trial", SWEEP, variables={})[0] == 0
    code, _, errors = ended(tmp_path, "step", "measure", SWEEP)
    assert code == 2
    assert "is being run by Airflow's run ackbench step/planted" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plna", "x"), "unknown step 'plna'; did you mean plan? (allowed: plan, list_trials,"),
        (
            ("measure", "x", "--acks", "1"),
            "--set, --repeats and --expect: allowed of the step plan",
        ),
        (
            ("measure", "x", "--planned", "{}"),
            "--planned: allowed of the step trial, not of measure",
        ),
        (("trial", "x", "--refused", "y"), "--refused: allowed of the step alert, not of trial"),
        (("trial", "x", "--planned", "{"), "--planned is no JSON"),
        (("trial", "x", "--planned", "[]"), "--planned is no element of what"),
        (("trial", "../x"), "a task was given '../x' as its sweep"),
        (("plan", "quikc"), "did you mean quick"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_is_no_step_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2."""
    code, output, errors = ended(tmp_path, "step", *arguments)
    assert (code, output) == (2, "")
    assert message in errors.splitlines()[-1]


def test_the_help_names_every_step() -> None:
    """In the order in which they run."""
    text = " ".join(ackbench("step", "--help").output.split())
    assert (
        f"STEP is {', '.join(step.STEPS).replace('plan', 'plan (of EXPERIMENT)', 1)}".replace(
            ", finish", " or finish"
        )
        in text
    )
