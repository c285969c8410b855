"""`ackbench up`: Airflow's scheduler and page, and MLflow's page, on this machine only, until they are asked to end.

Airflow's four processes are three here: nothing is deferred, so there is no triggerer; `airflow standalone` is not used because
SIGTERM to it leaves orphans. Each is the leader of a session of its own; a guard outside of them ends all of them when this
process is killed.
"""

from __future__ import annotations

import fcntl
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from experiments.orchestration.environment import LOOPBACK, airflow_environment, ensure_database
from experiments.tracking import store as tracking
from infra.cluster import cleaning
from infra.errors import HarnessError, MachineError
from infra.machine.home import REPOSITORY, Home
from infra.process.log_tail import last_lines
from infra.process.processes import ProcessIdentity, spawn_dying_with_parent
from infra.process.sessions import end_sessions, read_session_record, write_session_record
from infra.process.waiting import wait_until

AIRFLOW_PORT: Final = 8080
HEALTHY_TIMEOUT_S: Final = 180.0
PATIENCE_S: Final = 5.0
"""How long a service may take to end in good order; a trial under way is not waited for."""
_LAST_LINES: Final = 8
_BIN: Final = Path(sys.executable).parent


@dataclass(frozen=True)
class Service:
    """A server or daemon: how it is started, and when it is healthy."""

    name: str
    command: tuple[str, ...]
    healthy: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)


def up(
    home: Home,
    airflow_port: int = AIRFLOW_PORT,
    mlflow_port: int = tracking.MLFLOW_PORT,
    say: Callable[[str], None] = print,
) -> None:
    """Start the services, say where they are, and return once they have ended: on Ctrl-C, SIGTERM or SIGHUP.

    Args:
        home: what they serve, and where their logs go.
        airflow_port: Airflow's page and API.
        mlflow_port: MLflow's page and API; unused where `MLFLOW_TRACKING_URI` names a server.
        say: told what is going on, a line at a time.

    Raises:
        MachineError: a port is taken, or the services of this home are up already; nothing was started.
        HarnessError: a service did not become healthy, or ended by itself; the text ends with its last lines.
    """
    home.ensure_writable()
    with _only_once(home), _asked_to_end() as asked:
        end_sessions(
            read_session_record(_record(home)), grace_s=0
        )  # a guard that was killed too leaves them behind
        services = services_of(home, airflow_port, mlflow_port)
        for name, port in (("Airflow", airflow_port), ("MLflow", mlflow_port)):
            require_free(name, port)
        ensure_database(home)
        with _running(home, services) as processes:
            say(f"starting {', '.join(service.name for service in services)} (about 20 seconds)")
            if _healthy(home, services, processes, asked):
                _tell_addresses(home, airflow_port, mlflow_port, say)
                wait_until(
                    lambda: asked.is_set or _dead(processes),
                    awaiting="the end",
                    timeout_s=float("inf"),
                    every_s=0.2,
                )
            _raise_for_dead(home, processes)
            say("stopping")
    say("stopped")


def services_of(home: Home, airflow_port: int, mlflow_port: int) -> tuple[Service, ...]:
    """Return what `up` starts, in order."""
    airflow = f"http://{LOOPBACK}:{airflow_port}"
    environment = {
        **airflow_environment(home),
        "AIRFLOW__API__PORT": str(airflow_port),
        "AIRFLOW__API__BASE_URL": airflow,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow}/execution/",
    }
    program = str(_BIN / "airflow")
    return (
        Service(
            "api-server",
            (program, "api-server", "--port", str(airflow_port)),
            lambda: _answers(f"{airflow}/api/v2/version"),
            environment,
        ),
        Service(
            "scheduler",
            (program, "scheduler", "--skip-serve-logs"),
            lambda: _is_healthy(airflow, "scheduler"),
            environment,
        ),
        Service(
            "dag-processor",
            (program, "dag-processor"),
            lambda: _answers(f"{airflow}/api/v2/dags/ackbench_sweep"),
            environment,
        ),
        *(
            [_mlflow(home, mlflow_port)]
            if tracking.tracking_uri(home) == tracking.embedded_uri(home)
            else []
        ),
    )


def _mlflow(home: Home, port: int) -> Service:
    store = (
        "--backend-store-uri",
        tracking.embedded_uri(home),
        "--default-artifact-root",
        (home.mlflow / "artifacts").as_uri(),
    )
    home.mlflow.mkdir(parents=True, exist_ok=True)
    return Service(
        "mlflow",
        (
            str(_BIN / "mlflow"),
            "server",
            *store,
            "--host",
            LOOPBACK,
            "--port",
            str(port),
            "--workers",
            "1",
        ),
        lambda: _answers(f"http://{LOOPBACK}:{port}/health"),
        {**airflow_environment(home), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
    )


def require_free(name: str, port: int) -> None:
    """See that nobody listens on a port of this machine.

    Raises:
        MachineError: somebody does.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise MachineError(
                f"port {port} of {LOOPBACK}, for {name}, cannot be had ({error.strerror}): name another with --{name.lower()}-port"
            ) from error


@contextmanager
def _only_once(home: Home) -> Iterator[None]:
    """Two schedulers on one SQLite file would take each other's tasks."""
    with (home.root / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MachineError(
                f"`ackbench up` runs already for {home.root}: use it, or set ACKBENCH_HOME to another folder"
            ) from error
        yield


@dataclass
class _Asked:
    """Whether somebody asked for the end."""

    is_set: bool = False


@contextmanager
def _asked_to_end() -> Iterator[_Asked]:
    asked = _Asked()

    def note(_number: int, _frame: FrameType | None) -> None:
        asked.is_set = True

    before = {
        heard: signal.signal(heard, note)
        for heard in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield asked
    finally:
        for heard, handler in before.items():
            signal.signal(heard, handler)


_Processes = Mapping[str, "subprocess.Popen[Any]"]


@contextmanager
def _running(home: Home, services: Sequence[Service]) -> Iterator[_Processes]:
    """Run the services; on the way out end them, all they forked, and the clusters their tasks used; whom others need goes last."""
    processes: dict[str, subprocess.Popen[Any]] = {}
    leaders: list[ProcessIdentity] = []
    with ExitStack() as ending:
        ending.callback(cleaning.clean, home.clusters)
        ending.callback(lambda: [process.wait() for process in processes.values()])
        ending.callback(_end_in_order, leaders)
        guard = _guard(home)
        ending.callback(guard.wait)
        ending.callback(guard.kill)
        for service in services:
            processes[service.name] = _start(home, service)
            leaders.append(ProcessIdentity.of(processes[service.name].pid))
            write_session_record(_record(home), leaders)
        yield processes
    _record(home).unlink(missing_ok=True)


def _end_in_order(leaders: Sequence[ProcessIdentity]) -> None:
    """The API server, which was started first, goes last: the scheduler reports to it until it has ended."""
    end_sessions(leaders[1:], grace_s=PATIENCE_S)
    end_sessions(leaders[:1], grace_s=PATIENCE_S)


def _start(home: Home, service: Service) -> subprocess.Popen[Any]:
    log = _log(home, service.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as chatter:
        return spawn_dying_with_parent(
            service.command,
            env=dict(service.environment),
            cwd=home.airflow,
            stdin=subprocess.DEVNULL,
            stdout=chatter,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _guard(home: Home) -> subprocess.Popen[Any]:
    """Start the process that ends the sessions when this one is killed; itself it is in no way bound to this one."""
    own = ProcessIdentity.own()
    command = [
        sys.executable,
        "-m",
        "infra.process.sessions",
        str(own.pid),
        str(own.start_ticks),
        str(_record(home)),
    ]
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, start_new_session=True
    )


def _healthy(home: Home, services: Sequence[Service], processes: _Processes, asked: _Asked) -> bool:
    """Wait until every service is healthy; return False when the end was asked for meanwhile."""
    waiting = list(services)

    def all_healthy() -> bool:
        _raise_for_dead(home, processes)
        waiting[:] = [service for service in waiting if not service.healthy()]
        return not waiting or asked.is_set

    def seen() -> str:
        return f"no answer of {', '.join(service.name for service in waiting)}; logs: {_log(home, '').parent}"

    wait_until(
        all_healthy,
        awaiting="the services to be healthy",
        timeout_s=HEALTHY_TIMEOUT_S,
        every_s=0.25,
        seen=seen,
    )
    return not asked.is_set


def _dead(processes: _Processes) -> list[str]:
    return [name for name, process in processes.items() if process.poll() is not None]


def _raise_for_dead(home: Home, processes: _Processes) -> None:
    for name in _dead(processes):
        last = "\n".join(last_lines(_log(home, name), _LAST_LINES))
        raise HarnessError(
            f"{name} ended by itself with status {processes[name].returncode}; its log is {_log(home, name)}, and ends:\n{last}"
        )


def _tell_addresses(
    home: Home, airflow_port: int, mlflow_port: int, say: Callable[[str], None]
) -> None:
    say(
        f"Airflow: http://{LOOPBACK}:{airflow_port}/dags/ackbench_sweep (Trigger asks for an experiment; scheduled ones are paused until switched on)"
    )
    if tracking.tracking_uri(home) == tracking.embedded_uri(home):
        address = f"http://{LOOPBACK}:{mlflow_port}"
        tracking.serve_at(home, address)
        say(f"MLflow:  {address}/#/experiments")
    else:
        say(f"MLflow:  {tracking.shown(tracking.tracking_uri(home))} (MLFLOW_TRACKING_URI)")
    say(f"logs:    {_log(home, '').parent}\nCtrl-C stops them")


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=5) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP's OK
    except (URLError, OSError):
        return False


def _is_healthy(airflow: str, part: str) -> bool:
    try:
        with urlopen(f"{airflow}/api/v2/monitor/health", timeout=5) as answer:  # noqa: S310 - our own address
            return bool(json.load(answer)[part]["status"] == "healthy")
    except (URLError, OSError):
        return False


def _record(home: Home) -> Path:
    return home.root / "up.json"


def _log(home: Home, name: str) -> Path:
    return home.logs / "up" / f"{name}.log"
