"""The operator that runs a sweep."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, BaseOperatorLink, Connection

from airflow_provider_ackbench import DISTRIBUTION, __version__
from airflow_provider_ackbench.connections import KafkaCluster, UnusableConnection, kafka_cluster

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 3.0
    from airflow.exceptions import AirflowException, AirflowFailException  # type: ignore[attr-defined, no-redef]

if TYPE_CHECKING:
    from airflow.sdk import Context

PYTHON_VARIABLE: Final = "ACKBENCH_PYTHON"
"""Names the interpreter of ackbench's own environment."""
SITE_VARIABLE: Final = "ACKBENCH_SITE_URL"
"""The address of the folder that `ackbench site` writes."""
NOTES: Final = Path("~/.cache/airflow-provider-ackbench")
"""Which sweep an attempt has begun, so that the next attempt goes on with it."""
_ID: Final = r"[a-z0-9][a-z0-9-]*-\d{8}T\d{6}-[0-9a-f]{4}"
_SWEEP: Final = re.compile(rf"sweep (?P<sweep>{_ID}): \d+ trials?\b")
_INVALID_REQUEST, _NOT_AS_EXPECTED = 2, 3
_PR_SET_PDEATHSIG: Final = 1
_VERSION_TIMEOUT_S: Final = 120.0
_LOOKED_AT: Final = {"VIOLATED": "violated", "UNKNOWN": "unknown"}
"""Verdicts by the names that the task's result has for them."""


class ReportLink(BaseOperatorLink):
    """The sweep's page on the site, if there is a site."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the address; Airflow calls this in the worker, after the task."""
        del ti_key
        sweep, site = getattr(operator, "sweep", None), os.environ.get(SITE_VARIABLE)
        return f"{site.rstrip('/')}/sweeps/{sweep}.html" if sweep and site else ""


class AckbenchSweepOperator(BaseOperator):
    """Runs a sweep of ackbench, and fails if it is not as expected.

    ackbench is a command of an environment of its own, and its output is the task's log. A task
    that is stopped ends the trial under way, the brokers that it started, and what it made in an
    external cluster. The next attempt runs the trials that are missing; a task that is cleared
    after it succeeded runs a new sweep.

    Args:
        experiment: a name of `ackbench list`, or the path of a YAML file.
        axes: values by axis, property or `workload.*`, as of `--set`; a list makes an axis.
        expect: bounds that each cell has to meet: `lost=0`, `unavailable_ms<5s`.
        fail_on: `violated`, `unknown`.
        repeats: trials per cell; `None`: as the experiment says.
        store: where to publish sealed trials and results, a URI; `None`: `ACKBENCH_STORE`.
        kafka_conn_id: a connection of type Kafka, as the experiment's external cluster; then
            `experiment` is a file.
        command: how ackbench is started; empty: the interpreter that `ACKBENCH_PYTHON` names, or
            `ackbench` on the PATH.
        home: ackbench's home; `None`: `ACKBENCH_HOME`, or its default.
        options: further options of `ackbench run`.
        environment: further variables, secrets of `security` among them.
        stop_timeout_s: how long a stopped sweep may take to end, before it is killed.

    The task returns the sweep's id and, by guarantee, the cells whose verdict is violated or
    unknown: `{"sweep": ..., "violated": {...}, "unknown": {...}}`.
    """

    template_fields = (
        "experiment",
        "axes",
        "expect",
        "fail_on",
        "store",
        "kafka_conn_id",
        "command",
        "home",
        "options",
        "environment",
    )
    template_fields_renderers = {"axes": "json", "environment": "json"}  # noqa: RUF012 - as Airflow's
    operator_extra_links = (ReportLink(),)
    ui_color = "#dbe7f3"

    def __init__(
        self,
        *,
        experiment: str,
        axes: Mapping[str, Any] | None = None,
        expect: Sequence[str] = (),
        fail_on: Sequence[str] = (),
        repeats: int | None = None,
        store: str | None = None,
        kafka_conn_id: str | None = None,
        command: Sequence[str] = (),
        home: str | None = None,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        stop_timeout_s: float = 120.0,
        **of_airflow: Any,
    ) -> None:
        super().__init__(**of_airflow)
        self.experiment = experiment
        self.axes = dict(axes or {})
        self.expect = list(expect)
        self.fail_on = list(fail_on)
        self.repeats = repeats
        self.store = store
        self.kafka_conn_id = kafka_conn_id
        self.command = list(command)
        self.home = home
        self.options = list(options)
        self.environment = dict(environment or {})
        self.stop_timeout_s = stop_timeout_s
        self.sweep: str | None = None
        self._last_line = ""
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the sweep, or what an earlier attempt of this task has left of one.

        Raises:
            AirflowFailException: the request is invalid, ackbench is not there or of another
                version, or a cell is not as expected. Another attempt would end the same way.
            AirflowException: the sweep failed.
        """
        if getattr(context.get("dag_run"), "run_type", None) == "backfill":
            raise AirflowFailException(
                "a backfill would test the Kafka of today once for each day of the past: trigger "
                "the DAG instead"
            )
        command, note = self._command(), self._note(context)
        self._require_same_version(command)
        with tempfile.TemporaryDirectory(prefix="ackbench-") as folder:
            results = Path(folder) / "results.json"
            code = self._resume(command, note, results)
            if code is None:
                request, variables = self._request(Path(folder))
                code = self._run([*command, *request, "--json", str(results)], variables, note)
            found = _results(results)
        if code == _INVALID_REQUEST:
            raise AirflowFailException(self._last_line or "the request is invalid")
        if code not in {0, _NOT_AS_EXPECTED}:
            raise AirflowException(
                f"sweep {self.sweep or self.experiment} failed (exit code {code}): "
                f"{self._last_line}; another attempt runs what is missing"
            )
        note.unlink(missing_ok=True)
        if code == _NOT_AS_EXPECTED:
            raise AirflowFailException(f"sweep {self.sweep} is not as expected; see the log")
        return {"sweep": self.sweep, **found}

    def on_kill(self) -> None:
        """End the sweep: the trial under way, its brokers, what it has in an external cluster."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.log.info("stopping the sweep; its sealed trials are kept")
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.stop_timeout_s)
                return

    def _command(self) -> list[str]:
        if self.command:
            return self.command
        python = self._variables().get(PYTHON_VARIABLE)
        if python:
            return [python, "-m", "ackbench"]
        found = shutil.which("ackbench", path=self._variables().get("PATH"))
        if found:
            return [found]
        raise AirflowFailException(
            f"ackbench is not on this worker: install it into an environment of its own, and set "
            f"{PYTHON_VARIABLE} to its interpreter"
        )

    def _require_same_version(self, command: Sequence[str]) -> None:
        """Check that ackbench is of this provider's release series."""
        try:
            ran = subprocess.run(
                [*command, "--version"],
                capture_output=True,
                text=True,
                timeout=_VERSION_TIMEOUT_S,
                env=self._variables(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AirflowFailException(f"ackbench cannot be started: {error}") from error
        found = re.search(r"\b(\d+\.\d+)\.\d+", ran.stdout)
        if ran.returncode or found is None:
            last = (ran.stderr.strip() or ran.stdout.strip() or "no output").splitlines()[-1]
            raise AirflowFailException(f"ackbench cannot be started: {last}")
        if not __version__.startswith(f"{found[1]}."):
            raise AirflowFailException(
                f"ackbench {ran.stdout.split()[-1]} and {DISTRIBUTION} {__version__}: install the "
                "same release of both"
            )

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
        code = self._run([*command, *request], self._variables() | self._secrets(), note)
        if code != _INVALID_REQUEST:
            return code
        note.unlink()
        self.sweep = None
        return None

    def _request(self, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return the arguments of a new sweep, and the variables that it needs."""
        experiment, variables = self.experiment, self._variables()
        if self.kafka_conn_id:
            source, cluster = Path(self.experiment), self._cluster(self.kafka_conn_id)
            try:
                text = cluster.experiment(source.read_text())
            except (OSError, UnusableConnection) as error:
                raise AirflowFailException(str(error)) from error
            path = folder / source.name
            path.write_text(text)
            experiment, variables = str(path), {**variables, **cluster.variables}
        axes = [f"{name}={_values(value)}" for name, value in self.axes.items()]
        request = ["run", experiment, *(part for axis in axes for part in ("--set", axis))]
        if self.repeats is not None:
            request += ["--repeats", str(self.repeats)]
        if self.store:
            request += ["--store", self.store]
        request += [part for one in self.expect for part in ("--expect", one)]
        return [*request, *self._failures, *self.options], variables

    @property
    def _failures(self) -> list[str]:
        return [part for one in self.fail_on for part in ("--fail-on", one)]

    def _variables(self) -> dict[str, str]:
        home = {"ACKBENCH_HOME": self.home} if self.home else {}
        return {**os.environ, **home, **self.environment}

    def _secrets(self) -> dict[str, str]:
        """Return the secrets of the connection: an earlier attempt's plan has their names."""
        if not self.kafka_conn_id:
            return {}
        return dict(self._cluster(self.kafka_conn_id).variables)

    @staticmethod
    def _cluster(conn_id: str) -> KafkaCluster:
        try:
            return kafka_cluster(conn_id, Connection.get(conn_id).extra)
        except UnusableConnection as error:
            raise AirflowFailException(str(error)) from error

    def _run(self, command: Sequence[str], variables: Mapping[str, str], note: Path) -> int:
        """Run ackbench with its output in the log, and note the sweep; return its exit code."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**variables},
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - the child calls prctl(2) alone
        )
        with self._process as process:
            try:
                for line in process.stdout or ():
                    self.log.info("%s", line.rstrip())
                    self._last_line = line.strip() or self._last_line
                    if self.sweep is None and (found := _SWEEP.search(line)):
                        self.sweep = found["sweep"]
                        _write_note(note, self.sweep)
            except BaseException:
                self.on_kill()
                raise
            return process.wait()

    def _note(self, context: Context) -> Path:
        task = context["ti"]
        place = (task.dag_id, task.task_id, task.run_id, task.map_index)
        name = hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]
        return NOTES.expanduser() / f"{name}.txt"


def _end_with_parent() -> None:
    """Have the kernel interrupt this process when the task's process is killed (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _write_note(note: Path, sweep: str) -> None:
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.write_text(sweep)


def _values(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_values, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _results(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the labels of the cells with a verdict that is to be looked at, by guarantee."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in _LOOKED_AT.values()}
    if path.is_file():
        for cell in json.loads(path.read_text())["cells"]:
            for judged in cell["judgements"]:
                if judged["verdict"] in _LOOKED_AT:
                    by_guarantee = found[_LOOKED_AT[judged["verdict"]]]
                    by_guarantee.setdefault(judged["guarantee"], []).append(cell["label"])
    return found
