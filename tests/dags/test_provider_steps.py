"""The provider's DAG with a task per step: the graph of ackbench's own, and what its tasks do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow_provider_ackbench import __version__

from ackbench.infra.machine.home import Home

SWEEP = "quick-20260102T030405-ab12"
PLANNED: Any = {"sweep": SWEEP, "limits_s": {"trial": 600.0, "measure": 60.0}}
PROGRAM = """\
import json, os, pathlib, sys
words, here = sys.argv[1:], pathlib.Path(__file__).parent
if words == ["--version"]:
    print("ackbench", (here / "version").read_text())
    sys.exit()
(here / "call").write_text(json.dumps([words[: words.index("--json")], dict(os.environ)]))
code, handed_on, last = json.loads((here / "answer").read_text())
if not code:
    pathlib.Path(words[words.index("--json") + 1]).write_text(json.dumps(handed_on))
print(last)
sys.exit(code)
"""


class TaskInstance(SimpleNamespace):
    """The task, and what other tasks have handed on."""

    def xcom_push(self, key: str, value: object) -> None:
        """Keep a value."""
        self.xcoms[key] = value

    def xcom_pull(self, *, task_ids: str, key: str) -> object:
        """Return a value of `plan`."""
        assert task_ids == "plan"
        return self.xcoms.get(key)


def context(index: int = -1, try_number: int = 1, **xcoms: object) -> dict[str, Any]:
    """Return the context of a task."""
    task = TaskInstance(
        dag_id="d",
        task_id="t",
        run_id="r",
        map_index=index,
        try_number=try_number,
        xcoms=dict(xcoms),
    )
    return {"ti": task}


@pytest.fixture
def operators(airflow: Home) -> Any:
    """Return the provider's module, imported in Airflow's environment."""
    del airflow
    from airflow_provider_ackbench import operators

    return operators


@pytest.fixture
def answers(tmp_path: Path) -> Callable[..., list[str]]:
    """Return what makes the program of an answer, and returns the command that starts it."""

    def write(
        code: int, handed_on: object = None, last: str = "", release: str = __version__
    ) -> list[str]:
        (tmp_path / "ackbench.py").write_text(PROGRAM)
        (tmp_path / "version").write_text(release)
        (tmp_path / "answer").write_text(json.dumps([code, handed_on, last]))
        return [sys.executable, str(tmp_path / "ackbench.py")]

    return write


@pytest.fixture
def execute(operators: Any) -> Callable[..., Any]:
    """Return what executes a step as Airflow does."""

    def run(of: dict[str, Any], **arguments: Any) -> Any:
        operator = operators.AckbenchStepOperator(task_id="t", **arguments)
        operator.pre_execute(of)
        return operator.execute(of)

    return run


def call_of(folder: Path) -> tuple[list[str], Mapping[str, str]]:
    """Return arguments and variables of the call."""
    words, variables = json.loads((folder / "call").read_text())
    return words, variables


def shape(dag: Any) -> dict[str, dict[str, Any]]:
    """Return what decides of each task when it runs, and how often."""
    return {
        task.task_id: {
            "downstream": sorted(task.downstream_task_ids),
            "trigger_rule": str(task.trigger_rule),
            "is_mapped": task.is_mapped,
            "is_setup": task.is_setup,
            "is_teardown": task.is_teardown,
            "on_failure_fail_dagrun": task.on_failure_fail_dagrun,
            "retries": task.retries,
            "retry_delay": task.retry_delay,
            "retry_exponential_backoff": task.retry_exponential_backoff,
            "execution_timeout": task.execution_timeout,
            "pool": task.pool,
            "priority_weight": task.priority_weight,
            "weight_rule": str(task.weight_rule),
            "outlets": [(asset.name, asset.uri) for asset in task.outlets],
        }
        for task in dag.tasks
    }


def test_the_graph_is_that_of_ackbench_s_own_dag(dags: Any) -> None:
    """Tasks, edges, trigger rules, setup and teardown, retries, pool and priorities."""
    from airflow_provider_ackbench.dags import step_dag

    from ackbench.dags.tasks import sweep_dag

    del dags
    own = sweep_dag("team", experiment="quick", doc="")
    provided = step_dag("team", "quick")
    assert shape(provided) == shape(own)
    for name in ("catchup", "max_active_runs"):
        assert getattr(provided, name) == getattr(own, name)


def test_plan_gets_the_request_and_returns_the_sweep_with_its_limits(
    execute: Any, answers: Any, tmp_path: Path
) -> None:
    """And the step knows which attempt of which task it is."""
    found = execute(
        context(try_number=2),
        step="plan",
        experiment="quick",
        axes={"acks": [1, "all"]},
        repeats=2,
        expect=["lost=0"],
        command=answers(0, PLANNED),
    )
    assert found == PLANNED
    words, variables = call_of(tmp_path)
    options = ["--set", "acks=1,all", "--repeats", "2", "--expect", "lost=0"]
    assert words == ["step", "plan", "quick", *options]
    names = ("DAG_ID", "DAG_RUN_ID", "TASK_ID", "TRY_NUMBER")
    assert [variables[f"AIRFLOW_CTX_{name}"] for name in names] == ["d", "r", "t", "2"]
    assert "ACKBENCH_TASK_INDEX" not in variables


def test_a_trial_is_limited_by_the_plan_and_named_by_what_it_ran(
    operators: Any, answers: Any, tmp_path: Path
) -> None:
    """The operator's own limit is a little longer than that of the step."""
    planned = {"label": "acks=1", "trials": []}
    ran = answers(0, {"ran": "000-abcdef", "label": "acks=1 (000-abcdef)"})
    operator = operators.AckbenchStepOperator(
        task_id="t", step="trial", sweep=PLANNED, planned=planned, command=ran
    )
    of = context(3)
    operator.pre_execute(of)
    assert operator.execution_timeout == timedelta(seconds=600 + 240)
    assert operator.execute(of) == "000-abcdef"
    assert of["trial"] == "acks=1 (000-abcdef)"
    words, variables = call_of(tmp_path)
    assert words == ["step", "trial", SWEEP, "--planned", json.dumps(planned)]
    assert variables["ACKBENCH_TASK_INDEX"] == "3"


def test_finish_says_what_is_to_be_looked_at_and_updates_the_asset(
    execute: Any, answers: Any
) -> None:
    """With the keys of ackbench's own DAG."""
    from airflow_provider_ackbench.lineage import finished_sweeps

    judged = [{"guarantee": "no-acked-loss", "verdict": "VIOLATED"}]
    extra = {"sweep": SWEEP, "experiment": "quick", "report": "http://site"}
    cells = [{"label": "acks=1", "judgements": judged}]
    asset = finished_sweeps("team")
    events = {asset: SimpleNamespace(extra={})}
    of = {**context(), "outlets": [asset], "outlet_events": events}
    found = execute(of, step="finish", sweep=PLANNED, command=answers(0, {**extra, "cells": cells}))
    violated = {"no-acked-loss": ["acks=1"]}
    assert found == {"sweep": SWEEP, "violated": violated, "unknown": {}}
    assert events[asset].extra == extra


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (99, "AirflowSkipException", "no trial was run"),
        (1, "AirflowException", "^ackbench: node 3 died$"),
        (2, "AirflowException", "^ackbench: node 3 died$"),
        (-9, "AirflowException", r"the step trial was killed \(SIGKILL\); clear the task"),
        (143, "AirflowException", r"the step trial was interrupted \(SIGTERM\); clear the task"),
    ],
)
def test_a_step_that_does_not_succeed_says_why(
    operators: Any, execute: Any, answers: Any, code: int, error: str, message: str
) -> None:
    """The last line of the output."""
    program = answers(code, last="ackbench: node 3 died")
    if code < 0:
        path = Path(program[1])
        dies = "sys.stdout.flush(); os.kill(os.getpid(), -code)"
        path.write_text(path.read_text().replace("sys.exit(code)", dies))
    with pytest.raises(getattr(operators, error), match=message):
        execute(context(), step="trial", sweep=SWEEP, command=program)


def test_without_a_sweep_nothing_is_run_but_the_alert(
    operators: Any, execute: Any, answers: Any, tmp_path: Path
) -> None:
    """Which says why there is none."""
    refused = context()
    with pytest.raises(operators.AirflowException):
        execute(refused, step="plan", experiment="quikc", command=answers(2, last="unknown"))
    for name in ("measure", "verify"):
        with pytest.raises(operators.AirflowSkipException, match="no sweep was planned"):
            execute(refused, step=name, command=answers(0))
    execute(refused, step="alert", experiment="quikc", command=answers(0))
    assert call_of(tmp_path)[0] == ["step", "alert", "quikc", "--refused", "unknown"]


def test_another_release_and_a_backfill_run_no_step(
    operators: Any, execute: Any, answers: Any, tmp_path: Path
) -> None:
    """One line each, without another attempt."""
    other = answers(0, release="7.3.1")
    with pytest.raises(operators.AirflowFailException, match=r"ackbench 7\.3\.1 .* same release"):
        execute(context(), step="provision", sweep=SWEEP, command=other)
    of = {**context(), "dag_run": SimpleNamespace(run_type="backfill")}
    with pytest.raises(operators.AirflowFailException, match="once for each day of the past"):
        execute(of, step="plan", experiment="quick", command=answers(0, PLANNED))
    assert not (tmp_path / "call").exists()
