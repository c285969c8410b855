"""`ackbench up` as a user runs it: started, asked over Airflow's API, and stopped."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand
from e2e.services import ENDED, SWEEP_DAG, AirflowApi, DagRun, Ports, free_ports
from e2e.services import start_services as start

from ackbench.experiments.orchestration.services import services_of
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.sessions import read_session_record
from ackbench.infra.process.waiting import wait_until

START_TIMEOUT_S: Final = 240.0
STOP_TIMEOUT_S: Final = 120.0
RUN_TIMEOUT_S: Final = 600.0
"""No law is about time: long enough for a busy machine."""
_REQUEST_TIMEOUT_S: Final = 30.0
_TASK: Final = "task_id="
"""Begins the folder of a task's logs."""
_EXIT: Final = "Task exited"
"""Follows the error that ended a task."""


@dataclass(frozen=True)
class Services:
    """The services of a home while they run, without a login."""

    bench: AckbenchCommand
    ports: Ports
    process: subprocess.Popen[str]
    """`ackbench up`."""
    api: AirflowApi

    def trigger(self, run_id: str, experiment: str) -> None:
        """Request a sweep of a file in the folder that is offered."""
        self.api.trigger({"experiment": experiment}, run_id=run_id)

    def wait_for_run(self, run_id: str) -> str:
        """Wait until a DAG run has ended; return its state."""
        run, states = DagRun(self.api, SWEEP_DAG, run_id), list[str]()

        def has_ended() -> bool:
            if self.process.poll() is not None:
                raise WaitTimeout(f"`ackbench up` ended during {run_id}")
            with suppress(TimeoutError):  # the API server is paused, or busy
                states[:] = [run.state]
            return bool(states) and states[0] in ENDED

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
    process, api = start(
        *(bench, ports, "--experiments", str(experiments)), login=False, timeout_s=START_TIMEOUT_S
    )
    try:
        api.unpause()
    except BaseException:
        process.kill()  # the guard ends the services
        raise
    return Services(bench, ports, process, replace(api, timeout_s=_REQUEST_TIMEOUT_S))


@contextmanager
def running_services(bench: AckbenchCommand, experiments: Path) -> Iterator[Services]:
    """Start the services with free ports, and stop them at the end."""
    services = start_services(bench, experiments, free_ports())
    try:
        yield services
    finally:
        services.stop()
