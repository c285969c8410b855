"""`ackbench up` as a user starts it, and Airflow's API as this user calls it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from e2e.command import AckbenchCommand, bench_in

from ackbench.experiments.orchestration.services import USER, password_file
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

SWEEP_DAG: Final = "ackbench_sweep"
_ERRORS: Final = frozenset({"error", "critical"})
_EXIT: Final = "Task exited"
"""Follows the error that ended a task."""
ENDED: Final = frozenset({"success", "failed"})
"""The states of a DAG run that has ended."""
_START_TIMEOUT_S: Final = 600.0
_RUN_TIMEOUT_S: Final = 900.0
_STOP_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Answer:
    """An answer of Airflow."""

    status: int
    body: Any
    """Parsed JSON; a text if it is none."""

    @property
    def is_ok(self) -> bool:
        """Return whether the request succeeded."""
        return self.status < 400


@dataclass(frozen=True)
class AirflowApi:
    """Airflow's public API under `ackbench up`."""

    port: int
    token: str | None = None
    """Of the user who has logged in."""
    timeout_s: float = 60.0
    """Of a request."""

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request, and return the answer, also if it is a refusal.

        Raises:
            OSError: nobody answered.
        """
        login = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", **login},
            method=method,
        )
        try:
            with urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310 - the same
                return Answer(response.status, _parsed(response.read()))
        except HTTPError as refusal:
            return Answer(refusal.code, _parsed(refusal.read()))

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request below `/api/v2/`, and return the body of the answer.

        Raises:
            OSError: it was refused, or nobody answered.
        """
        answer = self.call(method, f"/api/v2/{path}", body)
        if not answer.is_ok:
            raise OSError(f"{method} {path}: {answer.status}: {answer.body}")
        return answer.body

    def unpause(self, dag_id: str = SWEEP_DAG) -> None:
        """Let a DAG's runs start."""
        self.ask("PATCH", f"dags/{dag_id}", {"is_paused": False})

    def trigger(
        self, conf: Mapping[str, object], dag_id: str = SWEEP_DAG, run_id: str | None = None
    ) -> DagRun:
        """Request a run of a DAG."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        made = self.ask("POST", f"dags/{dag_id}/dagRuns", body)
        return DagRun(self, dag_id, made["dag_run_id"])


@dataclass(frozen=True)
class DagRun:
    """A run of a DAG, as the API has it."""

    api: AirflowApi
    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        """Return the path of the run, below `/api/v2/`."""
        return f"dags/{self.dag_id}/dagRuns/{self.run_id}"

    @property
    def state(self) -> str:
        """Return the state of the run."""
        return str(self.api.ask("GET", self.path)["state"])

    def tasks(self, task_id: str | None = None) -> list[dict[str, Any]]:
        """Return the task instances of the run, or those of a task in the order of their index."""
        found = self.api.ask("GET", f"{self.path}/taskInstances?limit=100")["task_instances"]
        chosen = [one for one in found if task_id in {None, one["task_id"]}]
        return sorted(chosen, key=lambda one: (str(one["task_id"]), int(one["map_index"])))

    def states(self, task_id: str) -> list[str | None]:
        """Return the states of the instances of a task."""
        return [task["state"] for task in self.tasks(task_id)]

    def handed_on(self, task_id: str) -> Any:
        """Return what a task handed on (its XCom)."""
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.api.ask("GET", path)["value"]

    def hand_on(self, task_id: str, value: object) -> None:
        """Replace what a task handed on (its XCom)."""
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries"
        answer = self.api.call("PATCH", f"/api/v2/{path}/return_value", {"value": value})
        if not answer.is_ok:
            self.api.ask("POST", path, {"key": "return_value", "value": value})

    def mark(self, state: str) -> None:
        """Mark the run, and all of its tasks, as successful or failed."""
        self.api.ask("PATCH", self.path, {"state": state})

    def mark_task(self, task_id: str, state: str) -> None:
        """Mark a task as successful, failed or skipped."""
        self.api.ask("PATCH", f"{self.path}/taskInstances/{task_id}", {"new_state": state})

    def logged(self, task: Mapping[str, Any]) -> list[str]:
        """Return the errors in the log of the last try of a task instance, as its page has them."""
        tries, index = max(1, task["try_number"]), task["map_index"]
        where = f"{self.path}/taskInstances/{task['task_id']}/logs/{tries}?map_index={index}"
        entries = self.api.ask("GET", where)["content"]
        errors = [entry["event"] for entry in entries if entry.get("level") in _ERRORS]
        return [error for error in errors if not error.startswith(_EXIT)]

    def clear(self, *task_ids: str | tuple[str, int], downstream: bool = False) -> None:
        """Clear tasks as a person does; without ids, the whole run."""
        everything = {"dry_run": False, "only_failed": False}
        if not task_ids:
            self.api.ask("POST", f"{self.path}/clear", everything)
            return
        chosen = {"dag_run_id": self.run_id, "task_ids": task_ids, "include_downstream": downstream}
        path = f"dags/{self.dag_id}/clearTaskInstances"
        self.api.ask("POST", path, {**everything, **chosen})

    def wait(self) -> str:
        """Wait for the end of the run, and return its state.

        Raises:
            WaitTimeout: it did not end.
        """
        return wait_until(
            lambda: state if (state := self.state) in ENDED else None,
            awaiting=f"the end of {self.run_id}",
            timeout_s=_RUN_TIMEOUT_S,
            every_s=1,
            seen=lambda: [(one["task_id"], one["state"]) for one in self.tasks()],
        )


@dataclass(frozen=True)
class Ports:
    """The ports of the pages."""

    airflow: int
    mlflow: int

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `ackbench up` for them."""
        return ("--airflow-port", str(self.airflow), "--mlflow-port", str(self.mlflow))


def free_ports() -> Ports:
    """Return two free ports."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return Ports(first.getsockname()[1], second.getsockname()[1])


def start_services(
    bench: AckbenchCommand,
    ports: Ports,
    *options: str,
    login: bool = True,
    timeout_s: float = _START_TIMEOUT_S,
) -> tuple[subprocess.Popen[str], AirflowApi]:
    """Start the services of a home; return their process and API once they serve the DAGs.

    Args:
        bench: the command and its home.
        ports: of the pages.
        options: further options of `ackbench up`.
        login: whether the API asks for the password; the API that is returned has it.
        timeout_s: how long they may take.

    Raises:
        WaitTimeout: the services did not become ready, or ended; the message has their output.
    """
    services = bench.start(
        *("up", "--as-root", *options, *([] if login else ["--no-login"])), *ports.options
    )

    def ready() -> AirflowApi | None:
        if services.poll() is not None:
            raise WaitTimeout(f"`ackbench up` ended: {services.communicate()}")
        try:
            api = _logged_in(bench, ports.airflow) if login else AirflowApi(ports.airflow)
            return api if api.call("GET", f"/api/v2/dags/{SWEEP_DAG}").is_ok else None
        except (OSError, KeyError, TypeError, ValueError):
            return None  # no server yet, or no password

    try:
        api = wait_until(ready, awaiting="the services", timeout_s=timeout_s, every_s=1)
    except BaseException:
        services.kill()  # the guard ends the services
        raise
    return services, api


@contextmanager
def running_services(bench: AckbenchCommand, *options: str) -> Iterator[AirflowApi]:
    """Yield the API of the services of a home to the user who has logged in; stop them afterwards.

    Raises:
        WaitTimeout: as `start_services`.
    """
    services, api = start_services(bench, free_ports(), *options)
    try:
        yield api
    finally:
        if services.poll() is None:
            services.send_signal(signal.SIGINT)
            try:
                services.communicate(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                services.kill()  # its guard ends the services
                raise


@contextmanager
def run_under_load(
    folder: Path, experiments: Mapping[str, str], requested: str
) -> Iterator[tuple[AckbenchCommand, DagRun]]:
    """Start the services and a sweep; yield the command and the DAG run once a trial's load flows.

    Args:
        folder: of the home and of the experiments.
        experiments: the files that the form offers, by name.
        requested: the name of the one that is run.
    """
    offered = folder / "offered"
    offered.mkdir()
    for name, text in experiments.items():
        (offered / name).write_text(text)
    with bench_in(folder) as bench, running_services(bench, "--experiments", str(offered)) as api:
        api.unpause()
        run = api.trigger({"experiment": requested})
        wait_until(
            lambda: "flowing" in bench.event_kinds(),
            awaiting="the load of a trial",
            timeout_s=_START_TIMEOUT_S,
            seen=lambda: [(task["task_id"], task["state"]) for task in run.tasks()],
        )
        yield bench, run


def _logged_in(bench: AckbenchCommand, port: int) -> AirflowApi:
    password = json.loads(password_file(bench.home).read_bytes())[USER]
    login = {"username": USER, "password": password}
    answer = AirflowApi(port).call("POST", "/auth/token", login)
    return AirflowApi(port, answer.body["access_token"])


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
