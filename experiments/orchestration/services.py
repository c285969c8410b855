"""`ackbench up`: Airflow's scheduler and page, and MLflow's page, on loopback, until interrupted.

Three of Airflow's four processes are needed: no task is deferred, so there is no triggerer.
`airflow standalone` is not used, because SIGTERM to it leaves orphans. Each service leads a session
of its own. A guard process outside of these sessions ends all of them if this process is killed.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from ackbench.experiments.orchestration.tracking import store as tracking
from ackbench.experiments.pages.live.process import reader_command, reader_environment
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import is_in_progress, record_path, runs, scheduler_variables
from ackbench.infra.airflow.environment import airflow_environment, ensure_database
from ackbench.infra.cluster import cleaning
from ackbench.infra.errors import HarnessError, MachineError
from ackbench.infra.machine.files import is_locked, try_lock
from ackbench.infra.machine.home import HeldHome, Home, HomeMoved
from ackbench.infra.machine.loopback import LOOPBACK, SERVED_HOSTS, require_free_port
from ackbench.infra.process.interrupts import handled_by
from ackbench.infra.process.log_tail import last_lines
from ackbench.infra.process.processes import ProcessIdentity, spawn_dying_with_parent
from ackbench.infra.process.sessions import (
    end_sessions,
    guard_sessions,
    read_session_record,
    write_session_record,
)
from ackbench.infra.process.waiting import wait_until

AIRFLOW_PORT: Final = 8080
HEALTHY_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 5.0
"""How long a service may take to stop cleanly. A running trial is not waited for."""
PLUGINS: Final = Path(__file__).with_name("airflow_plugins")
"""The folder of the API server's plugin."""
USER: Final = "ackbench"
"""The only user of Airflow's page."""
ROLE: Final = "user"
"""The user's role: it runs DAGs, and may not touch Variables, Connections, pools or assets."""
_PASSWORD_BYTES: Final = 18
_SECRET_BYTES: Final = 32
_LAST_LINES: Final = 8
_BIN: Final = Path(sys.executable).parent
_DIRECTLY: Final = build_opener(ProxyHandler({}))
"""Opens addresses of this machine, which a proxy does not reach."""


@dataclass(frozen=True)
class Service:
    """A server or daemon: how it starts, and when it is healthy."""

    name: str
    command: tuple[str, ...]
    healthy: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    required: bool = True
    """Whether the others end when it does; else it is a page, which no sweep needs."""


def up(
    home: Home,
    airflow_port: int = AIRFLOW_PORT,
    mlflow_port: int = tracking.MLFLOW_PORT,
    say: Callable[[str], None] = print,
    *,
    login: bool = True,
    metrics_port: int | None = None,
) -> None:
    """Run the services until SIGINT (Ctrl-C), SIGTERM or SIGHUP; print their addresses.

    Args:
        home: what they serve, and where their logs go.
        airflow_port: the port of Airflow's page and API.
        mlflow_port: the port of MLflow's page and API; unused if `MLFLOW_TRACKING_URI` is set.
        say: called with each line for the user.
        login: whether Airflow's page and API ask for a name and a password.
        metrics_port: the port of OpenMetrics; `None`: they are not served.

    Raises:
        MachineError: a port is taken, or the services of this home already run; nothing was
            started.
        HarnessError: a service did not become healthy, or exited; the message ends with the last
            lines of its log.
    """
    _require_ports(home, {"airflow": airflow_port, "mlflow": mlflow_port, "metrics": metrics_port})
    home.ensure_writable()
    with _only_services(home) as stop:
        password = ensure_password(home, say) if login else None
        services = services_of(home, airflow_port, mlflow_port, password, metrics_port)
        ensure_database(home, say)
        if tracking.tracking_uri(home) == tracking.embedded_uri(home):
            tracking.ensure_store(home, say)
        say(f"starting {', '.join(service.name for service in services)} (about 20 seconds)")
        _serve(
            home,
            services,
            stop,
            lambda: _print_addresses(home, airflow_port, mlflow_port, metrics_port, say),
            say,
        )


def serve_mlflow(
    home: Home, port: int, on_ready: Callable[[], None], say: Callable[[str], None] = print
) -> None:
    """Run MLflow's page alone until SIGINT (Ctrl-C), SIGTERM or SIGHUP.

    Args:
        home: what it serves, and where its log goes.
        port: the port of the page.
        on_ready: called once, when the page can be opened.
        say: called with each line for the user.

    Raises:
        MachineError: as `up`.
        HarnessError: as `up`.
    """
    require_free_port("MLflow", port)
    home.ensure_writable()
    home.airflow.mkdir(parents=True, exist_ok=True)  # services start there
    with _only_services(home) as stop:
        tracking.ensure_store(home, say)
        tracking.record_server_address(home, f"http://{LOOPBACK}:{port}")
        say("starting MLflow's page (about 10 seconds)")
        _serve(home, (replace(mlflow_service(home, port), required=True),), stop, on_ready, say)


def _serve(
    home: Home,
    services: Sequence[Service],
    stop: _StopRequest,
    on_ready: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Run the services until a signal requests the stop; call `on_ready` when all are healthy.

    Raises:
        HarnessError: as `up`.
        HomeMoved: the home was moved meanwhile; the services and their runs have ended.
    """
    with HeldHome(home) as held:
        try:
            with _running(home, services) as processes:
                if _wait_until_healthy(home, services, processes, stop):
                    on_ready()
                    _wait_for_end(home, services, processes, lambda: _stops(held, stop), say)
                needed = [service for service in services if service.required]
                _raise_if_exited(home, needed, processes)
                say("stopping")
        except HomeMoved as error:
            _end_runs(error.moved)
            raise
    say("stopped")


def _stops(held: HeldHome, stop: _StopRequest) -> bool:
    held.require_unmoved()
    return stop.requested


def _wait_for_end(
    home: Home,
    services: Sequence[Service],
    processes: _Processes,
    stops: Callable[[], bool],
    say: Callable[[str], None],
) -> None:
    """Wait until a required service has exited or the services are to stop; name other exits."""
    required = {service.name for service in services if service.required}
    pages = {service.name for service in services} - required

    def has_ended() -> bool:
        for name in sorted(pages & _exited(processes)):
            pages.remove(name)
            say(
                f"{name} exited with status {processes[name].returncode}, and the others go on; "
                f"its log is {home.service_log(name)}; to have it back, start the services again"
            )
        return stops() or not required.isdisjoint(_exited(processes))

    wait_until(has_ended, awaiting="an interrupt", timeout_s=float("inf"), every_s=0.2)


_PORT_NAMES: Final = {"airflow": "Airflow", "mlflow": "MLflow", "metrics": "metrics"}


def _require_ports(home: Home, ports: Mapping[str, int | None]) -> None:
    """Check the ports before anything is made; the ports of the home's own services are taken.

    Args:
        home: the home.
        ports: by the beginning of the option that names it; `None`: not used.

    Raises:
        MachineError: a port is taken, or two are the same.
    """
    if is_up(home):
        return  # `_exclusive` has the better message
    used: dict[int, str] = {}
    for name, port in ports.items():
        if port is None:
            continue
        if port in used:
            raise MachineError(
                f"--{used[port]}-port and --{name}-port are both {port}: name two ports"
            )
        used[port] = name
    for port, name in used.items():
        require_free_port(_PORT_NAMES[name], port)


def ensure_password(home: Home, say: Callable[[str], None]) -> str:
    """Return the password of Airflow's only user; generate and show it the first time.

    The file is the one of Airflow's SimpleAuthManager, which would log a password that it generates
    itself. It is this user's alone.
    """
    path = password_file(home)
    try:
        return str(json.loads(path.read_bytes())[USER])
    except (FileNotFoundError, ValueError, KeyError):
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        json.dump({USER: password}, file)
    say(f"login:   user {USER}, password {password} (shown once; kept in {path})")
    return password


def password_file(home: Home) -> Path:
    """Return the file with the password of Airflow's page."""
    return home.airflow / "simple_auth_manager_passwords.json"


def _login_settings(home: Home, password: str | None) -> dict[str, str]:
    if password is None:
        return {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True"}
    return {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:{ROLE}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(password_file(home)),
    }


def services_of(
    home: Home,
    airflow_port: int,
    mlflow_port: int,
    password: str | None,
    metrics_port: int | None = None,
) -> tuple[Service, ...]:
    """Return the services that `up` starts, in this order.

    Args:
        home: what they serve.
        airflow_port: the port of Airflow's page and API.
        mlflow_port: the port of MLflow's page and API.
        password: of Airflow's user; `None`: everybody who reaches the port is an administrator.
        metrics_port: the port of OpenMetrics; `None`: they are not served.
    """
    airflow = f"http://{LOOPBACK}:{airflow_port}"
    environment = {
        **airflow_environment(home),
        **_login_settings(home, password),
        "AIRFLOW__API__PORT": str(airflow_port),
        "AIRFLOW__API__BASE_URL": airflow,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow}/execution/",
        # Without a configuration file each service would make a secret of its own, and the API
        # server would refuse the tokens of the scheduler's tasks.
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(_SECRET_BYTES),
        **scheduler_variables(),
    }
    program = str(_BIN / "airflow")
    return (
        Service(
            "api-server",
            (program, "api-server", "--port", str(airflow_port)),
            lambda: _answers(f"{airflow}/api/v2/version"),
            # The plugin checks the Host header; only the API server needs it.
            {**environment, "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS)},
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
            lambda: _answers(f"{airflow}/api/v2/dags/ackbench_sweep", _token(airflow, password)),
            environment,
        ),
        Service(
            "live",
            tuple(reader_command(None, metrics_port)),
            lambda: True,
            reader_environment(home),
            required=False,
        ),
        *(
            [mlflow_service(home, mlflow_port)]
            if tracking.tracking_uri(home) == tracking.embedded_uri(home)
            else []
        ),
    )


def mlflow_service(home: Home, port: int) -> Service:
    """Return the server of the embedded store, with its page."""
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
            # Tracking only: `experiments/orchestration/tracking/server.py`.
            "--app-name",
            "ackbench",
            *store,
            "--host",
            LOOPBACK,
            "--port",
            str(port),
            "--workers",
            "1",
            # Artifacts are read from the folder; nothing uploads or deletes through the server.
            "--no-serve-artifacts",
            # MLflow's default also allows names such as 10.example.org, of which a foreign page
            # can make an address of this machine (DNS rebinding).
            "--allowed-hosts",
            ",".join(f"{host}:{port}" for host in SERVED_HOSTS),
        ),
        lambda: _answers(f"http://{LOOPBACK}:{port}/health"),
        {**airflow_environment(home), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        required=False,
    )


def is_up(home: Home) -> bool:
    """Return whether the services of a home run."""
    return is_locked(_lock_file(home))


@contextmanager
def _exclusive(home: Home) -> Iterator[None]:
    """Refuse a second `up`: two schedulers on one SQLite file would take each other's tasks."""
    lock = try_lock(_lock_file(home))
    if lock is None:
        raise MachineError(
            f"`ackbench up` already runs for {home.root}: "
            "use it, or set ACKBENCH_HOME to another folder"
        )
    with lock:
        yield


@contextmanager
def _only_services(home: Home) -> Iterator[_StopRequest]:
    """Be the only services of a home, until a signal requests the stop."""
    with _exclusive(home), _stop_on_signals() as stop:
        # Left behind if the guard was killed too.
        end_sessions(read_session_record(_record(home)), grace_s=0)
        yield stop


@dataclass
class _StopRequest:
    requested: bool = False


@contextmanager
def _stop_on_signals() -> Iterator[_StopRequest]:
    stop = _StopRequest()

    def request(_number: int, _frame: FrameType | None) -> None:
        stop.requested = True

    with handled_by(request):
        yield stop


_Processes = Mapping[str, "subprocess.Popen[Any]"]


@contextmanager
def _running(home: Home, services: Sequence[Service]) -> Iterator[_Processes]:
    """Run the services; afterwards end them, their forks, and the clusters of their tasks."""
    processes: dict[str, subprocess.Popen[Any]] = {}
    leaders: list[ProcessIdentity] = []
    with ExitStack() as stack:
        stack.callback(_end_runs, home)
        stack.callback(lambda: [process.wait() for process in processes.values()])
        stack.callback(_end_in_order, leaders)
        guard = guard_sessions(_record(home))
        stack.callback(guard.wait)
        stack.callback(guard.kill)
        for service in services:
            processes[service.name] = _start(home, service)
            leaders.append(ProcessIdentity.of(processes[service.name].pid))
            write_session_record(_record(home), leaders)
        yield processes
    _record(home).unlink(missing_ok=True)


def _end_runs(home: Home) -> None:
    """Remove the clusters of the runs whose tasks ended with the services, and their records."""
    own, running, ended = ProcessIdentity.own(), set[str](), set[str]()
    for sweep_id, record in runs(home).items():
        if record and record.machine.is_own and record.scheduler == own:
            ended.add(sweep_id)
            record_path(home, sweep_id).unlink(missing_ok=True)
        elif is_in_progress(SweepFolder(home.sweeps / sweep_id), record):
            running.add(sweep_id)
    cleaning.clean(home.clusters, running=running, ended=ended)


def _end_in_order(leaders: Sequence[ProcessIdentity]) -> None:
    """End the API server, which started first, last: the scheduler reports to it until it ends."""
    end_sessions(leaders[1:], grace_s=STOP_TIMEOUT_S)
    end_sessions(leaders[:1], grace_s=STOP_TIMEOUT_S)


def _start(home: Home, service: Service) -> subprocess.Popen[Any]:
    log = home.service_log(service.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    with log.open("ab") as output:  # to append, so that pruning may cut it meanwhile (`cut_log`)
        return spawn_dying_with_parent(
            service.command,
            env=dict(service.environment),
            cwd=home.airflow,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_until_healthy(
    home: Home, services: Sequence[Service], processes: _Processes, stop: _StopRequest
) -> bool:
    """Wait until every service is healthy; return False if a signal requested the stop first."""
    waiting = list(services)

    def all_healthy() -> bool:
        needed = [one for one in services if one.required or one in waiting]
        _raise_if_exited(home, needed, processes)
        waiting[:] = [service for service in waiting if not service.healthy()]
        return not waiting or stop.requested

    def seen() -> str:
        names = ", ".join(service.name for service in waiting)
        return f"no healthy answer from {names}; logs: {home.service_logs}"

    wait_until(
        all_healthy,
        awaiting="the services to be healthy",
        timeout_s=HEALTHY_TIMEOUT_S,
        every_s=0.25,
        seen=seen,
    )
    return not stop.requested


def _exited(processes: _Processes) -> set[str]:
    return {name for name, process in processes.items() if process.poll() is not None}


def _raise_if_exited(home: Home, needed: Sequence[Service], processes: _Processes) -> None:
    exited = _exited(processes)
    for name in (service.name for service in needed if service.name in exited):
        last = "\n".join(last_lines(home.service_log(name), _LAST_LINES))
        raise HarnessError(
            f"{name} exited with status {processes[name].returncode}; "
            f"its log is {home.service_log(name)}, and ends:\n{last}"
        )


def _print_addresses(
    home: Home,
    airflow_port: int,
    mlflow_port: int,
    metrics_port: int | None,
    say: Callable[[str], None],
) -> None:
    say(
        f"Airflow: http://{LOOPBACK}:{airflow_port}/dags/ackbench_sweep "
        "(Trigger runs an experiment; scheduled DAGs are paused until you unpause them)"
    )
    if tracking.tracking_uri(home) == tracking.embedded_uri(home):
        address = f"http://{LOOPBACK}:{mlflow_port}"
        tracking.record_server_address(home, address)
        newest = tracking.newest_tracked(home)
        say(f"MLflow:  {tracking.answer_link(address, newest) if newest else address}")
    else:
        server = tracking.without_credentials(tracking.tracking_uri(home))
        say(f"MLflow:  {server} (MLFLOW_TRACKING_URI)")
    say(f"live:    http://{LOOPBACK}:{airflow_port}/ackbench/live/ (the trial under way)")
    if metrics_port:
        say(f"metrics: http://{LOOPBACK}:{metrics_port}/metrics")
    say(f"logs:    {home.service_logs}\nCtrl-C stops the services")


def _token(airflow: str, password: str | None) -> str | None:
    """Return a token of Airflow's API; `None`: none is needed, or it does not answer yet."""
    if password is None:
        return None
    body = json.dumps({"username": USER, "password": password}).encode()
    request = Request(  # noqa: S310 - an address of this machine
        f"{airflow}/auth/token", body, {"Content-Type": "application/json"}
    )
    try:
        with _DIRECTLY.open(request, timeout=5) as response:
            return str(json.load(response)["access_token"])
    except (URLError, OSError):
        return None


def _answers(address: str, token: str | None = None) -> bool:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with _DIRECTLY.open(Request(address, headers=headers), timeout=5) as response:  # noqa: S310 - an address of this machine
            return bool(response.status == 200)  # noqa: PLR2004 - HTTP's OK
    except (URLError, OSError):
        return False


def _is_healthy(airflow: str, component: str) -> bool:
    try:
        address = f"{airflow}/api/v2/monitor/health"
        with _DIRECTLY.open(address, timeout=5) as response:
            return bool(json.load(response)[component]["status"] == "healthy")
    except (URLError, OSError):
        return False


def _lock_file(home: Home) -> Path:
    return home.root / "up.lock"


def _record(home: Home) -> Path:
    return home.root / "up.json"
