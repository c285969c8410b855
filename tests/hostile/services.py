"""`ackbench up` as a user runs it: started, asked over Airflow's API, and stopped."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from e2e.command import AckbenchCommand

from experiments.orchestration.services import services_of
from infra.errors import WaitTimeout
from infra.process.sessions import read_session_record
from infra.process.waiting import wait_until

START_TIMEOUT_S: Final = 240.0
STOP_TIMEOUT_S: Final = 120.0
RUN_TIMEOUT_S: Final = 600.0
"""No law is about time: long enough for a busy machine."""
_DAG: Final = "ackbench_sweep"
_TASK: Final = "task_id="
"""Begins the folder of a task's logs."""
_EXIT: Final = "Task exited"
"""Follows the error that ended a task."""


@dataclass(frozen=True)
class Ports:
    """The ports of the pages."""

    airflow: int
    mlflow: int

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `ackbench up` for them."""
        return ("--airflow-port", str(self.airflow), "--mlflow-port", str(self.mlflow))


@dataclass(frozen=True)
class Services:
    """The services of a home while they run, without a login."""

    bench: AckbenchCommand
    ports: Ports
    process: subprocess.Popen[str]
    """`ackbench up`."""

    def trigger(self, run_id: str, experiment: str) -> None:
        """Request a sweep of a file in the folder that is offered."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": {"experiment": experiment}}
        self.call(f"dags/{_DAG}/dagRuns", body)

    def state(self, run_id: str) -> str:
        """Return the state of a DAG run."""
        return str(self.call(f"dags/{_DAG}/dagRuns/{run_id}")["state"])

    def wait_for_run(self, run_id: str) -> str:
        """Wait until a DAG run has ended; return its state."""
        states: list[str] = []

        def has_ended() -> bool:
            if self.process.poll() is not None:
                raise WaitTimeout(f"`ackbench up` ended during {run_id}")
            with suppress(TimeoutError):  # the API server is paused, or busy
                states[:] = [self.state(run_id)]
            return bool(states) and states[0] in {"success", "failed"}

        wait_until(
            has_ended,
            awaiting=f"the end of {run_id}",
            timeout_s=RUN_TIMEOUT_S,
            every_s=1,
            seen=lambda: states,
        )
        return states[0]

    def errors_of(self, run_id: str) -> list[str]:
        """Return the errors in the logs of a run's tasks, each with its task, each once."""
        errors = []
        logs = (self.bench.home.logs / "airflow").glob(f"*/run_id={run_id}/{_TASK}*/**/*.log")
        for log in sorted(logs):
            task = next(part for part in log.parts if part.startswith(_TASK)).removeprefix(_TASK)
            for line in log.read_text().splitlines():
                with suppress(ValueError):  # the last line of a task that was killed
                    entry = json.loads(line)
                    if entry["level"] in {"error", "critical"} and entry["event"] != _EXIT:
                        causes = [detail["exc_value"] for detail in entry.get("error_detail", ())]
                        errors.append(f"{task}: {': '.join([entry['event'], *causes])}")
        return list(dict.fromkeys(errors))

    def call(
        self, path: str, body: dict[str, Any] | None = None, *, method: str | None = None
    ) -> dict[str, Any]:
        """Call Airflow's API and return its answer."""
        request = Request(
            f"http://127.0.0.1:{self.ports.airflow}/api/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urlopen(request, timeout=30) as response:  # noqa: S310 - the same
            answer: dict[str, Any] = json.load(response)
        return answer

    def pid_of(self, name: str) -> int:
        """Return the process that leads the session of a service: `scheduler`, `mlflow`, ..."""
        leaders = read_session_record(self.bench.home.root / "up.json")
        names = [service.name for service in services_of(self.bench.home, 0, 0, None)]
        return leaders[names.index(name)].pid

    def stop(self) -> tuple[str, str]:
        """Interrupt the services if they run; return the output of the command."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=STOP_TIMEOUT_S)


def start_services(bench: AckbenchCommand, experiments: Path, ports: Ports) -> Services:
    """Start the services, wait until they answer, and let the DAG run.

    Args:
        bench: the command and its home.
        experiments: the folder of YAML files that requests may name.
        ports: of the pages.

    Raises:
        WaitTimeout: they did not answer, or ended.
    """
    process = bench.start(
        *("up", "--no-login", "--as-root", "--experiments", str(experiments)), *ports.options
    )
    services = Services(bench, ports, process)

    def answers() -> bool:
        if process.poll() is not None:
            raise WaitTimeout(f"`ackbench up` ended: {process.communicate()}")
        try:
            return "dag_id" in services.call(f"dags/{_DAG}")
        except OSError:
            return False

    try:
        wait_until(answers, awaiting="the services", timeout_s=START_TIMEOUT_S, every_s=1)
        services.call(f"dags/{_DAG}", {"is_paused": False}, method="PATCH")
    except BaseException:
        process.kill()  # the guard ends the services
        raise
    return services


@contextmanager
def running_services(bench: AckbenchCommand, experiments: Path) -> Iterator[Services]:
    """Start the services with free ports, and stop them at the end."""
    services = start_services(bench, experiments, free_ports())
    try:
        yield services
    finally:
        services.stop()


def free_ports() -> Ports:
    """Return two free ports."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return Ports(first.getsockname()[1], second.getsockname()[1])
