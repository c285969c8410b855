"""The operators: one runs a sweep as one task, the other one step of a sweep."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ackbench.base import (
    INVALID_REQUEST,
    AckbenchOperator,
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    report_address,
)
from airflow_provider_ackbench.lineage import update_outlets

if TYPE_CHECKING:
    from airflow.sdk import Context

NOTES: Final = Path("~/.cache/airflow-provider-ackbench")
"""Which sweep an attempt has begun, so that the next attempt goes on with it."""
REASON_KEY: Final = "reason"
"""The XCom in which `plan` leaves why it has failed, for `alert`."""
_ID: Final = r"[a-z0-9][a-z0-9-]*-\d{8}T\d{6}-[0-9a-f]{4}"
_SWEEP: Final = re.compile(rf"sweep (?P<sweep>{_ID}): \d+ trials?\b")
_NOT_AS_EXPECTED, _NOTHING_TO_RUN, _SIGNALS = 3, 99, 128
_LOOKED_AT: Final = {"VIOLATED": "violated", "UNKNOWN": "unknown"}
"""Verdicts by the names that the task's result has for them."""
_TASK_INDEX: Final = "ACKBENCH_TASK_INDEX"
"""Tells a step which of the mapped tasks it is."""
_LINEAGE: Final = ("trial", "measure", "finish")
"""The steps that read topics or write the ledger's folder."""


class AckbenchSweepOperator(AckbenchOperator):
    """Runs a sweep of ackbench, and fails if it is not as expected.

    A task that is stopped ends the trial under way, the brokers that it started, and what it made
    in an external cluster. The next attempt runs the trials that are missing; a task that is
    cleared after it succeeded runs a new sweep.

    Args:
        experiment: a name of `ackbench list`, or the path of a YAML file.
        axes: values by axis, property or `workload.*`, as of `--set`; a list makes an axis.
        expect: bounds that each cell has to meet: `lost=0`, `unavailable_ms<5s`.
        fail_on: `violated`, `unknown`.
        repeats: trials per cell; `None`: as the experiment says.
        options: further options of `ackbench run`.
        of_base: as of `AckbenchOperator`, and of Airflow.

    The task returns the sweep's id and, by guarantee, the cells whose verdict is violated or
    unknown: `{"sweep": ..., "violated": {...}, "unknown": {...}}`.
    """

    template_fields = (
        *AckbenchOperator.template_fields,
        "experiment",
        "axes",
        "expect",
        "fail_on",
        "options",
    )
    template_fields_renderers = {"axes": "json", "environment": "json"}  # noqa: RUF012 - as Airflow's
    _interrupt = staticmethod(os.killpg)  # with a program that `command` starts it by

    def __init__(
        self,
        *,
        experiment: str,
        axes: Mapping[str, Any] | None = None,
        expect: Sequence[str] = (),
        fail_on: Sequence[str] = (),
        repeats: int | None = None,
        options: Sequence[str] = (),
        **of_base: Any,
    ) -> None:
        super().__init__(**of_base)
        self.experiment = experiment
        self.axes = dict(axes or {})
        self.expect = list(expect)
        self.fail_on = list(fail_on)
        self.repeats = repeats
        self.options = list(options)
        self.sweep: str | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the sweep, or what an earlier attempt of this task has left of one.

        Raises:
            AirflowFailException: the request is invalid, ackbench is not there or of another
                version, or a cell is not as expected. Another attempt would end the same way.
            AirflowException: the sweep failed.
        """
        self._refuse_backfill(context)
        command, note = self._command(), self._note(context)
        self._require_same_version(command)
        with tempfile.TemporaryDirectory(prefix="ackbench-") as folder:
            results = Path(folder) / "results.json"
            code = self._resume(command, note, results)
            if code is None:
                request = self._request(Path(folder), results)
                code = self._run_noting([*command, *request], note)
            cells = _cells(results)
        if code == INVALID_REQUEST:
            raise AirflowFailException(self._last_line or "the request is invalid")
        if code not in {0, _NOT_AS_EXPECTED}:
            raise AirflowException(
                f"sweep {self.sweep or self.experiment} failed (exit code {code}): "
                f"{self._last_line}; another attempt runs what is missing"
            )
        note.unlink(missing_ok=True)
        if self.sweep:
            self._lineage = self._lineage_of(self.sweep, cells=tuple(cells))
        if code == _NOT_AS_EXPECTED:
            raise AirflowFailException(f"sweep {self.sweep} is not as expected; see the log")
        update_outlets(context, _extra(self.sweep))
        return {"sweep": self.sweep, **_to_look_at(cells)}

    def _resume(self, command: Sequence[str], note: Path, results: Path) -> int | None:
        """Go on with the sweep that an earlier attempt on this worker has begun.

        Returns:
            The exit code; `None`: there is none, or it cannot go on here.
        """
        with suppress(OSError):
            noted = re.fullmatch(_ID, note.read_text())
            self.sweep = noted[0] if noted else None
        if self.sweep is None:
            return None
        self.log.info("going on with sweep %s, which an earlier attempt began", self.sweep)
        # What it expects is in its plan.
        request = ["run", "--resume", self.sweep, *self._failures, "--json", str(results)]
        code = self._run_noting([*command, *request], note)
        if code != INVALID_REQUEST:
            return code
        note.unlink()
        self.sweep = None
        return None

    def _request(self, folder: Path, results: Path) -> list[str]:
        """Return the arguments of a new sweep."""
        return [
            "run",
            self._experiment_in(folder, self.experiment),
            *request_options(self.axes, self.repeats, self.expect),
            *self._failures,
            *self.options,
            "--json",
            str(results),
        ]

    @property
    def _failures(self) -> list[str]:
        return [part for one in self.fail_on for part in ("--fail-on", one)]

    def _run_noting(self, command: Sequence[str], note: Path) -> int:
        """Run ackbench, and note the sweep that it names; return the exit code."""

        def follow(line: str) -> None:
            if self.sweep is None and (found := _SWEEP.search(line)):
                self.sweep = found["sweep"]
                _write_note(note, self.sweep)

        return self._run(command, self._variables() | self._secrets(), follow)

    def _note(self, context: Context) -> Path:
        task = context["ti"]
        place = (task.dag_id, task.task_id, task.run_id, task.map_index)
        name = hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]
        return NOTES.expanduser() / f"{name}.txt"


class AckbenchStepOperator(AckbenchOperator):
    """Runs one step of a sweep (`ackbench step`), as a task of a DAG that has the others.

    `airflow_provider_ackbench.dags.step_dag` has such a DAG. A step fails if the harness failed; a
    trial that finds nothing to run is skipped.

    Args:
        step: the step's name: `plan`, `list_trials`, `provision`, ...
        sweep: what the step `plan` has returned, or a sweep's id; of `plan`: none.
        experiment: of `plan` and `alert`: a name of `ackbench list`, or the path of a YAML file.
        axes: of `plan`: values by axis, property or `workload.*`; a list makes an axis.
        expect: of `plan`: bounds that each cell has to meet.
        repeats: of `plan`: trials per cell; `None`: as the experiment says.
        planned: of `trial`: an element of what `list_trials` has returned.
        of_base: as of `AckbenchOperator`, and of Airflow.

    The task returns what the step hands on; `plan` `{"sweep": ..., "limits_s": {...}}`, from which
    the other tasks have their time limits.
    """

    template_fields = (
        *AckbenchOperator.template_fields,
        "sweep",
        "experiment",
        "axes",
        "expect",
        "planned",
    )
    template_fields_renderers = {"axes": "json", "environment": "json"}  # noqa: RUF012 - as Airflow's

    def __init__(
        self,
        *,
        step: str,
        sweep: Any = None,
        experiment: str | None = None,
        axes: Mapping[str, Any] | None = None,
        expect: Sequence[str] = (),
        repeats: int | None = None,
        planned: Any = None,
        **of_base: Any,
    ) -> None:
        super().__init__(**of_base)
        self.step = step
        self.sweep = sweep
        self.experiment = experiment
        self.axes = dict(axes or {})
        self.expect = list(expect)
        self.repeats = repeats
        self.planned = planned

    def pre_execute(self, context: Any) -> None:
        """Limit the time of the task by the plan; the step ends itself before that."""
        del context
        if isinstance(self.sweep, Mapping):
            limit_s = self.sweep["limits_s"].get(self.step)
            if limit_s:
                self.execution_timeout = timedelta(seconds=limit_s + 2 * self.stop_timeout_s)
            self.sweep = self.sweep["sweep"]

    def execute(self, context: Context) -> Any:
        """Run the step, and return what it hands on.

        Raises:
            AirflowSkipException: there is no trial to run, or no sweep.
            AirflowFailException: ackbench is not there or of another version, or the run is a
                backfill.
            AirflowException: the step failed, or the request is invalid.
        """
        self._refuse_backfill(context)
        reason = context["ti"].xcom_pull(task_ids="plan", key=REASON_KEY) if self._unplanned else ""
        if self._unplanned and self.step != "alert":
            raise AirflowSkipException(f"nothing to {self.step}: no sweep was planned")
        try:
            return self._step(context, reason)
        except AirflowException as error:
            if self.step == "plan":
                context["ti"].xcom_push(REASON_KEY, str(error))
            raise

    @property
    def _unplanned(self) -> bool:
        return self.sweep is None and self.step != "plan"

    def _step(self, context: Context, reason: str | None) -> Any:
        command = self._command()
        self._require_same_version(command)
        with tempfile.TemporaryDirectory(prefix="ackbench-") as folder:
            handed_on = Path(folder) / "handed-on.json"
            request = ["step", self.step, *self._request(Path(folder), reason or "")]
            code = self._run(
                [*command, *request, "--json", str(handed_on)],
                {**self._variables(), **self._secrets(), **_task_variables(context)},
            )
            if code == _NOTHING_TO_RUN:
                raise AirflowSkipException("no trial was run: all are complete or locked")
            if code:
                raise AirflowException(self._why_failed(code))
            return self._handed_on(context, json.loads(handed_on.read_text()))

    def _why_failed(self, code: int) -> str:
        """Return why the step failed: the last line of its output, or the signal that ended it."""
        number = -code if code < 0 else code - _SIGNALS
        if number <= 0:
            return self._last_line or f"the step {self.step} ended with exit code {code}"
        how = "was killed" if code < 0 else "was interrupted"
        return f"the step {self.step} {how} ({signal.Signals(number).name}); clear the task"

    def _request(self, folder: Path, reason: str) -> list[str]:
        """Return the arguments of the step."""
        if self.step == "plan":
            options = request_options(self.axes, self.repeats, self.expect)
            return [self._experiment_in(folder, str(self.experiment)), *options]
        if self._unplanned:
            return [str(self.experiment), "--refused", reason]
        planned = ["--planned", json.dumps(self.planned)] if self.planned is not None else []
        return [str(self.sweep), *planned]

    def _handed_on(self, context: Any, value: Any) -> Any:
        """Return what the task returns, and note what it has read and written."""
        if self.step == "plan":
            self.sweep = value["sweep"]
        if self.step in _LINEAGE:
            cells = value["cells"] if self.step == "finish" else ()
            self._lineage = self._lineage_of(str(self.sweep), cells=tuple(cells))
        if self.step == "trial":
            context["trial"] = value["label"]  # the name of the mapped task on Airflow's page
            return value["ran"]
        if self.step == "finish":
            update_outlets(context, {name: value[name] for name in _extra(None)})
            return {"sweep": value["sweep"], **_to_look_at(value["cells"])}
        return value


def _task_variables(context: Any) -> dict[str, str]:
    """Return the variables by which a step knows its task; of those, Airflow sets the first four.

    Each attempt has another number, also of a task that was cleared.
    """
    task = context["ti"]
    return {
        "AIRFLOW_CTX_DAG_ID": task.dag_id,
        "AIRFLOW_CTX_DAG_RUN_ID": task.run_id,
        "AIRFLOW_CTX_TASK_ID": task.task_id,
        "AIRFLOW_CTX_TRY_NUMBER": str(task.try_number),
        **({_TASK_INDEX: str(task.map_index)} if task.map_index >= 0 else {}),
    }


def request_options(
    axes: Mapping[str, Any], repeats: int | None, expect: Sequence[str]
) -> list[str]:
    """Return the options of `ackbench run` and of the step `plan`."""
    sets = [f"{name}={_values(value)}" for name, value in axes.items()]
    return [
        *(part for one in sets for part in ("--set", one)),
        *(("--repeats", str(repeats)) if repeats is not None else ()),
        *(part for one in expect for part in ("--expect", one)),
    ]


def _extra(sweep: str | None) -> dict[str, str | None]:
    """Return what the event of a complete sweep tells the DAGs that follow it."""
    experiment = sweep.rsplit("-", 2)[0] if sweep else None
    return {"sweep": sweep, "experiment": experiment, "report": report_address(sweep)}


def _write_note(note: Path, sweep: str) -> None:
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.write_text(sweep)


def _values(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_values, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cells(path: Path) -> list[dict[str, Any]]:
    """Return the cells of the file that `--json` has written; none if it is not there."""
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"] if path.is_file() else []
    return cells


def _to_look_at(cells: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return the labels of the cells with a verdict that is to be looked at, by guarantee."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in _LOOKED_AT.values()}
    for cell in cells:
        for judged in cell["judgements"]:
            if judged["verdict"] in _LOOKED_AT:
                by_guarantee = found[_LOOKED_AT[judged["verdict"]]]
                by_guarantee.setdefault(judged["guarantee"], []).append(cell["label"])
    return found
