"""`ackbench step`: one step of a sweep in this process, as a task of any scheduler.

The steps are the tasks of the DAG (`ackbench.dags.tasks`), and what one hands on to others is JSON.
Variables that Airflow sets in a task (`AIRFLOW_CTX_...`) say which task of which run this is.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ackbench.experiments.commands.run import axes_of
from ackbench.experiments.commands.setup import ensure_set_up
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_value
from ackbench.experiments.messages.terminal import echo
from ackbench.experiments.orchestration import (
    alerts,
    batches,
    runner,
    step_context,
    steps,
    sweep_links,
)
from ackbench.experiments.planning.expectations import parse_expected
from ackbench.experiments.planning.overrides import Overrides
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.trial_lock import name_own_run
from ackbench.infra.airflow.environment import process_variables
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home, keep_files_private
from ackbench.infra.process.interrupts import handled_by

NOTHING_TO_RUN: Final = 99
"""The exit code of a trial's step that has run none, as Airflow's BashOperator skips a task."""
_SCHEDULER: Final = "ackbench step"
"""Names the runs of a scheduler that names none: a sweep's steps are one run."""
_WITHOUT_AIRFLOW: Final[Mapping[str, Any]] = MappingProxyType({"dag": None})
"""The context of notifiers of Airflow, which look for a DAG."""
_LOG: Final = logging.getLogger(__name__)


class NothingToRun(Exception):
    """All trials are complete or locked."""


class StepTimeout(BaseException):
    """A step took longer than the plan allows.

    No `Exception`: what a trial does after an error is not to take it for one.
    """


@dataclass(frozen=True)
class StepRequest:
    """The arguments of the command."""

    given: str
    """The sweep; of `plan`, the experiment."""
    overrides: Sequence[str] = ()
    repeats: int | None = None
    expected: Sequence[str] = ()
    planned: str | None = None
    """Of a trial's step: an element of the list, JSON."""
    refused: str | None = None
    """Why `given`, an experiment, was not planned."""


def step(name: str, request: StepRequest, as_json: Path | None) -> int:
    """Run a step and write what it hands on; return the exit code.

    Args:
        name: the step.
        request: its arguments.
        as_json: the file to write; `None`: standard output.

    Raises:
        InputError: there is no such step, an argument is that of another one, or as the step.
        HarnessError: as the step.
    """
    run = _step_named(name, request)
    keep_files_private()
    home = Home.from_environment()
    os.environ.update(process_variables(home, os.environ))
    runner.log_to_output()
    step_context.RUN_STATE.is_command = True
    if name != "plan":
        name_own_run(_SCHEDULER, request.given)
    try:
        with handled_by(step_context.interrupt), _limit(name, request.given):
            handed_on = run(request)
    except StepTimeout as error:
        raise HarnessError(str(error)) from error
    except NothingToRun:
        return NOTHING_TO_RUN
    except KeyboardInterrupt as interrupt:
        return 128 + signal.Signals[str(interrupt)]
    if as_json:
        replace_file(as_json, f"{json.dumps(handed_on)}\n")
    elif handed_on is not None:
        echo(json.dumps(handed_on))
    return 0


@contextmanager
def _limit(name: str, sweep: str) -> Iterator[None]:
    """End a step after the time that the plan allows; a trial that it ends has failed."""
    limit_s = steps.limit_s(name, sweep) if name in steps.LIMITED else None

    def end(*_: object) -> None:
        raise StepTimeout(f"{name}: it took longer than its limit of {limit_s:,.0f} s")

    with handled_by(end, [signal.SIGALRM]):
        signal.setitimer(signal.ITIMER_REAL, limit_s or 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _step_named(name: str, request: StepRequest) -> Callable[[StepRequest], Any]:
    """Return the function of a step, once its arguments were checked.

    Raises:
        InputError: there is no such step, or an argument is that of another one.
    """
    if name not in STEPS:
        raise UnknownName(
            f"unknown step {format_value(name)}{did_you_mean(name, STEPS)} "
            f"(allowed: {', '.join(STEPS)})"
        )
    of_plan = request.overrides or request.expected or request.repeats is not None
    for option, given, owner in (
        ("--set, --repeats and --expect", of_plan, "plan"),
        ("--planned", request.planned is not None, "trial"),
        ("--refused", request.refused is not None, "alert"),
    ):
        if given and name != owner:
            raise InputError(f"{option}: allowed of the step {owner}, not of {name}")
    return STEPS[name]


def _plan(request: StepRequest) -> dict[str, Any]:
    overrides = Overrides(
        axes_of(request.overrides), request.repeats, expect=parse_expected(request.expected)
    )
    sweep = steps.plan_experiment(request.given, overrides)
    ensure_set_up(Home.from_environment(), _LOG.info)
    return {
        "sweep": sweep,
        "limits_s": {name: steps.limit_s(name, sweep) for name in steps.LIMITED},
    }


def _trial(request: StepRequest) -> dict[str, Any]:
    """Run a trial or a batch; return what was run, and its label."""
    try:
        planned = json.loads(request.planned or "{}")
    except ValueError as error:
        raise InputError(f"--planned is no JSON: {error}") from error
    if not isinstance(planned, dict):
        raise InputError("--planned is no element of what `ackbench step list_trials` hands on")
    labels: list[str] = []
    ran = batches.run_planned(request.given, {"label": "", **planned}, labels.append)
    if not ran:
        raise NothingToRun
    return {"ran": ran, "label": labels[-1]}


def _finish(request: StepRequest) -> dict[str, Any]:
    """Record that the sweep is complete; return its address, and its verdicts by cell."""
    steps.finish(request.given)
    results = read_results(step_context.sweep_named(request.given))
    cells = [
        {
            "label": cell["label"],
            "judgements": [
                {key: judged[key] for key in ("guarantee", "verdict")}
                for judged in cell["judgements"]
            ],
        }
        for cell in json.loads(results.to_json())["cells"]
    ]
    return {**sweep_links.asset_extra(request.given), "cells": cells}


def _alert(request: StepRequest) -> None:
    if request.refused is not None:
        alerts.alert_of_experiment(request.given, request.refused or None, _WITHOUT_AIRFLOW)
    else:
        alerts.alert(request.given, _WITHOUT_AIRFLOW)


def _of(run: Callable[[str], Any]) -> Callable[[StepRequest], Any]:
    """Return a step that needs the sweep alone."""
    return lambda request: run(request.given)


STEPS: Final[Mapping[str, Callable[[StepRequest], Any]]] = MappingProxyType(
    {
        "plan": _plan,
        "list_trials": _of(batches.list_batches),
        "provision": _of(steps.provision),
        "trial": _trial,
        "destroy": _of(steps.destroy),
        "measure": _of(steps.measure),
        "report": _of(steps.report),
        "track": _of(steps.track),
        "verify": _of(steps.verify),
        "alert": _alert,
        "finish": _finish,
    }
)
"""By the names of the DAG's tasks; a test compares both."""
