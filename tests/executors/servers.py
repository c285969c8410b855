"""The servers that the hosts share, on the first host: PostgreSQL, Redis, MLflow and Airflow.

PostgreSQL and Redis are Debian's (`apt-get install redis-server postgresql`). They are started as
processes of the host, with data in its folder; the system's own services are not used.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from executors.hosts import Host, kill_group

from ackbench.infra.airflow.environment import DAGS_FOLDER, MACHINE_POOL
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

PACKAGES: Final = (
    "apache-airflow-providers-celery",
    "celery<5.7",  # the provider imports `retry` of `celery.backends.database`, which 5.7 lacks
    "kombu<5.7",
    "redis",
    "psycopg2-binary",
    "asyncpg",
)
DAG: Final = "ackbench_sweep"
DATABASE: Final = "airflow"
_PASSWORD: Final = "ackbench-redis"  # noqa: S105 - of a server that lives as long as one test
_POSTGRES_USER: Final = "postgres"
"""PostgreSQL refuses to run as root."""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_START_S: Final = 240.0
_SLOTS: Final = "one batch at a time on each host"
_HEARTBEAT_S: Final = 45
"""After how long without a heartbeat the scheduler fails a task; 300 s by default."""


@dataclass
class Airflow:
    """An installation of Airflow: its database, its settings and its services, on one host."""

    host: Host
    python: Path
    executor: str
    further: Mapping[str, str] = field(default_factory=dict)
    """Variables of all of its processes, the workers' too."""
    keys: Mapping[str, str] = field(
        default_factory=lambda: {
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            "AIRFLOW__CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
    )
    _scheduler: subprocess.Popen[Any] = field(init=False)

    @property
    def address(self) -> str:
        """The address of the page and the API."""
        return f"http://{self.host.address}:8080"

    def environment(self, host: Host, home: Home) -> dict[str, str]:
        """Return the environment of its processes on a host, as docs/running.md has it.

        Args:
            host: the host.
            home: ackbench's home on it.
        """
        database = f"postgresql+psycopg2://airflow@{self.host.address}/{DATABASE}"
        return {
            "PATH": f"{self.python.parent}:{_PATH}",
            "HOME": str(host.folder),
            "LANG": "C.UTF-8",
            "AIRFLOW_HOME": str(host.folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": self.executor,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__CELERY__BROKER_URL": f"redis://:{_PASSWORD}@{self.host.address}:6379/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(_HEARTBEAT_S),
            # 5 s, the default, is too short on a busy machine: the task fails before it starts.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
            # The DAGs do not change, and the machine has other work.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            "ACKBENCH_HOME": str(home.root),
            "MLFLOW_TRACKING_URI": f"http://{self.host.address}:5000",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            **self.keys,
            **self.further,
        }

    def command(self, *arguments: str) -> list[str | Path]:
        """Return a command of Airflow's."""
        return [self.python, "-P", "-m", "airflow", *arguments]

    def start(self, home: Home, slots: int) -> None:
        """Create the database and the pool, and start the services; wait until they answer."""
        variables = self.environment(self.host, home)
        pool = ("pools", "set", MACHINE_POOL, str(slots), _SLOTS)
        for arguments in (("db", "migrate"), pool):
            ran = self.host.run(self.command(*arguments), variables)
            _require(f"airflow {arguments[0]}", ran)
        for service in ("api-server", "dag-processor"):
            self.host.start(service, self.command(service), variables)
        self._scheduler = self.host.start("scheduler", self.command("scheduler"), variables)
        wait_until(
            self._knows_the_dag,
            awaiting=f"Airflow to know the DAG, see the logs in {self.host.folder}",
            timeout_s=_START_S,
            every_s=1,
        )

    def restart_scheduler(self, home: Home, further: Mapping[str, str]) -> None:
        """Start the scheduler again, with further variables for it and its tasks."""
        kill_group(self._scheduler)
        variables = {**self.environment(self.host, home), **further}
        self._scheduler = self.host.start("scheduler", self.command("scheduler"), variables)

    def start_worker(self, host: Host, home: Home) -> subprocess.Popen[Any]:
        """Start the Celery worker of a host; it runs one task at a time."""
        return host.start(
            "worker",
            self.command("celery", "worker", "--concurrency", "1"),
            self.environment(host, home),
        )

    def trigger(self, conf: Mapping[str, Any]) -> str:
        """Start a run of the DAG and return its id."""
        body = {"logical_date": None, "conf": dict(conf)}
        return str(self.request(f"dags/{DAG}/dagRuns", body)["dag_run_id"])

    def wait(self, run: str, timeout_s: float) -> str:
        """Wait until a run has ended; return its state."""

        def ended() -> str | None:
            state = str(self.request(f"dags/{DAG}/dagRuns/{run}")["state"])
            return state if state in {"success", "failed"} else None

        return wait_until(
            ended,
            awaiting=f"the run {run}",
            timeout_s=timeout_s,
            every_s=2,
            seen=lambda: [(one["task_id"], one["state"]) for one in self.tasks(run)],
        )

    def tasks(self, run: str) -> Sequence[Mapping[str, Any]]:
        """Return the task instances of a run."""
        path = f"dags/{DAG}/dagRuns/{run}/taskInstances?limit=200"
        return list(self.request(path)["task_instances"])

    def error(self, run: str, task: Mapping[str, Any]) -> str:
        """Return the first error in the log of a task, which its worker serves."""
        path = f"dags/{DAG}/dagRuns/{run}/taskInstances/{task['task_id']}/logs/1"
        query = f"?full_content=true&map_index={task['map_index']}"
        lines = self.request(path + query)["content"]
        errors = (one["event"] for one in lines if one.get("level") == "error")
        return next(errors, f"no error in {[one.get('event') for one in lines]}")

    def sweep(self, run: str) -> str:
        """Return the id or the URI of a run's sweep, once it is planned; empty before that."""
        path = f"dags/{DAG}/dagRuns/{run}/taskInstances/plan/xcomEntries/return_value"
        try:
            return str(self.request(path)["value"])
        except HTTPError:
            return ""

    def request(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request to the API and return the answer."""
        request = Request(  # noqa: S310 - an address of a host
            f"{self.address}/api/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
            found: dict[str, Any] = json.load(answer)
        return found

    def _knows_the_dag(self) -> bool:
        try:
            return bool(self.request(f"dags/{DAG}"))
        except (URLError, OSError):
            return False


def _require(what: str, ran: subprocess.CompletedProcess[str]) -> None:
    if ran.returncode != 0:
        raise SystemExit(f"{what}: exit status {ran.returncode}: {ran.stdout}{ran.stderr}")


def start_postgres(host: Host) -> None:
    """Start PostgreSQL on a host, with Airflow's user and database."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise SystemExit("PostgreSQL not found: apt-get install postgresql")
    data, variables = host.folder / "postgres", {"PATH": _PATH, "LANG": "C.UTF-8"}
    data.mkdir()
    shutil.chown(data, _POSTGRES_USER, _POSTGRES_USER)
    as_user: tuple[str | Path, ...] = ("runuser", "-u", _POSTGRES_USER, "--")
    init = (programs[-1] / "initdb", "-D", data, "--auth=trust", "--locale=C.UTF-8", "--no-sync")
    _require("initdb", host.run([*as_user, *init], variables))
    with (data / "pg_hba.conf").open("a") as file:
        file.write("host all all 10.77.0.0/24 trust\n")
    server = (programs[-1] / "postgres", "-D", data, "-k", data, "-h", host.address)
    host.start("postgres", [*as_user, *server, "-c", "max_connections=200"], variables)
    client = ["psql", "-h", host.address, "-U", _POSTGRES_USER, "-q", "-c"]
    wait_until(
        lambda: host.run([*client, "select 1"], variables).returncode == 0,
        awaiting=f"PostgreSQL, see {host.log('postgres')}",
        timeout_s=_START_S,
        every_s=0.5,
    )
    for statement in ("create user airflow", f"create database {DATABASE} owner airflow"):
        _require(statement, host.run([*client, statement], variables))


def start_redis(host: Host) -> None:
    """Start Redis on a host."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("Redis not found: apt-get install redis-server")
    options = ["--bind", host.address, "--requirepass", _PASSWORD, "--save", "", "--dir"]
    host.start("redis", [program, *options, host.folder], {"LANG": "C.UTF-8"})


def start_mlflow(host: Host) -> None:
    """Start MLflow's server on a host, and wait until it answers."""
    store = ("--backend-store-uri", f"sqlite:///{host.folder}/mlflow.db")
    artifacts = ("--artifacts-destination", str(host.folder / "artifacts"))
    served = ("--host", host.address, "--workers", "1", "--allowed-hosts", "*")
    host.start(
        "mlflow",
        [Path(sys.executable).with_name("mlflow"), "server", *store, *artifacts, *served],
        {
            "PATH": f"{Path(sys.executable).parent}:{_PATH}",
            "HOME": str(host.folder),
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )

    def answers() -> bool:
        try:
            with urlopen(f"http://{host.address}:5000/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    wait_until(
        answers, awaiting=f"MLflow, see {host.log('mlflow')}", timeout_s=_START_S, every_s=0.5
    )
