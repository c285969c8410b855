"""`make provider`: the provider in environments of Airflow alone, with a scheduler, over REST.

For each release of Airflow (`--airflow`; by default the locked one and the oldest of Airflow 3): an
environment with it and the provider, what the provider adds to it, and a DAG with the operator and
a Kafka connection to a cluster that this script starts.

- `stopped`: the task is marked as failed in mid-trial. Nothing of the sweep is left: no process, no
  topic; what was sealed is kept.
- `cleared`: the task is cleared, and the same sweep goes on; it is cleared again, and another sweep
  is run.
- `refused`: an invalid request, and a worker without ackbench, are one line each.

Needs the package registry. ackbench itself is this environment's.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.services import AirflowApi, free_ports
from rich.console import Console

from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.events.journal import JOURNAL_FILE
from ackbench.infra.cluster.local import provision
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.process.waiting import wait_until

PROVIDER: Final = REPOSITORY / "provider"
RELEASES: Final = ("3.3.2", "3.0.0")
_START_S, _RUN_S, _STOP_S = 300.0, 900.0, 180.0
EXPERIMENT: Final = """\
name: of-a-team
title: Of a team
question: Does our cluster lose records of a producer that crashes?
axes: {acks: all, enable.idempotence: true, replication.factor: 1, partitions: 1, fault: none}
kafka.version: 4.3.1
workload: {rate_records_per_s: 200, record_size_bytes: 100, duration_s: 8}
controls: false
repeats: 2
"""
DAGS: Final = """\
import os
from airflow_provider_ackbench.dags import sweep_dag

team = sweep_dag(
    "team", os.environ["TEAM_EXPERIMENT"], kafka_conn_id="kafka-staging", expect=["lost=0"]
)
invalid = sweep_dag("invalid", "quikc")
absent = sweep_dag("absent", "quick", environment={"ACKBENCH_PYTHON": "/absent/python"})
"""


@dataclass(frozen=True)
class Team:
    """An Airflow of a team, and what its tasks start."""

    api: AirflowApi
    home: Path
    """ackbench's."""
    servers: str
    """The team's cluster."""
    environment: Path
    """Of Airflow alone."""

    def sweeps(self) -> list[str]:
        """Return the sweeps of the home."""
        return sorted(path.parent.name for path in self.home.glob("sweeps/*/plan.json"))

    def events(self) -> str:
        """Return what trials under way have noted."""
        found = self.home.glob(f"sweeps/*/trials/*.partial/{JOURNAL_FILE}")
        return "".join(path.read_text() for path in found)

    def left(self) -> list[str]:
        """Return the processes of sweeps, and their topics."""
        started = [
            " ".join(process.info["cmdline"] or ())[:120]
            for process in psutil.process_iter(["cmdline", "environ"])
            if (process.info["environ"] or {}).get("ACKBENCH_HOME") == str(self.home)
        ]
        processes = [line for line in started if not line.startswith(str(self.environment))]
        names = topics.admin_client(self.servers).list_topics(timeout=30).topics
        return [*processes, *(name for name in names if name.startswith("ackbench"))]


def main() -> int:
    """Run the scenarios with each release; return how many failed."""
    parser = argparse.ArgumentParser(prog="make provider")
    parser.add_argument("--airflow", action="append", metavar="RELEASE")
    releases = parser.parse_args().airflow or RELEASES
    console, failed = Console(highlight=False), 0
    for release in releases:
        with tempfile.TemporaryDirectory(prefix="ackbench-provider-") as folder:
            try:
                for line in _scenarios(release, Path(folder)):
                    console.print(f"airflow {release}: {line}")
            except (AssertionError, OSError, HarnessError, subprocess.CalledProcessError) as error:
                failed += 1
                console.print(f"airflow {release}: FAILED: {error}")
    return min(failed, 1)


def _scenarios(release: str, folder: Path) -> Iterator[str]:
    environment = folder / "airflow"
    yield _made(environment, release)
    cluster = provision(
        folder / "clusters", Home.from_environment().cache, "team", ClusterSpec(nodes=1)
    )
    try:
        with _running(folder, environment, cluster.bootstrap_servers) as team:
            yield from _stopped_and_cleared(team)
            yield from _refused(team)
    finally:
        cluster.destroy()


def _made(environment: Path, release: str) -> str:
    """Make the environment; return what the provider adds to Airflow alone."""
    uv = Path(sys.executable).with_name("uv")
    _run([uv, "venv", "--quiet", "--python", sys.executable, environment])
    install = [uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python"]
    # Without its constraints a release of Airflow may get packages that it was not tried with.
    _run([*install, f"apache-airflow=={release}"])
    before = _size(environment)
    _run([*install, str(PROVIDER)])
    after = _size(environment)
    return (
        f"{before[0]} packages and {before[1]} MB without the provider, which adds "
        f"{after[0] - before[0]} and {after[1] - before[1]} MB"
    )


@contextmanager
def _running(folder: Path, environment: Path, servers: str) -> Iterator[Team]:
    """Start Airflow with its DAGs, and end it."""
    (folder / "dags").mkdir()
    (folder / "dags" / "team.py").write_text(DAGS)
    experiment = folder / "of-a-team.yaml"
    experiment.write_text(EXPERIMENT)
    port, home = free_ports().airflow, folder / "bench"
    extra = {"bootstrap.servers": servers, "group.id": "theirs"}
    address = f"http://127.0.0.1:{port}"
    variables = {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "AIRFLOW_HOME": str(folder / "airflow-home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        # Of several, uvicorn kills each that has not answered within 5 s, as while it is starting.
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
        "AIRFLOW_CONN_KAFKA-STAGING": json.dumps({"conn_type": "kafka", "extra": extra}),
        "TEAM_EXPERIMENT": str(experiment),
        "ACKBENCH_PYTHON": sys.executable,
        "ACKBENCH_HOME": str(home),
        "ACKBENCH_MACHINE_LOCK": str(folder / "lock"),
    }
    with (folder / "airflow.log").open("wb") as log:
        services = subprocess.Popen(
            [environment / "bin" / "airflow", "standalone"],
            env=variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            api = _logged_in(port)
            wait_until(
                lambda: len(api.ask("GET", "dags")["dags"]) == 3,
                awaiting="Airflow to know the DAGs",
                timeout_s=_START_S,
                every_s=1,
                seen=lambda: api.ask("GET", "importErrors")["import_errors"],
            )
            yield Team(api, home, servers, environment)
        finally:
            os.killpg(services.pid, signal.SIGTERM)
            services.wait(_STOP_S)


def _logged_in(port: int) -> AirflowApi:
    api = AirflowApi(port)

    def token() -> str | None:
        try:
            answer = api.call("GET", "/auth/token")
        except OSError:
            return None
        return str(answer.body["access_token"]) if answer.is_ok else None

    found = wait_until(token, awaiting="Airflow's API", timeout_s=_START_S, every_s=1)
    return AirflowApi(port, str(found))


def _stopped_and_cleared(team: Team) -> Iterator[str]:
    team.api.unpause("team")
    run = team.api.trigger({}, "team")
    wait_until(
        lambda: '"flowing"' in team.events(),
        awaiting="the load of a trial",
        timeout_s=_RUN_S,
        every_s=0.5,
        seen=lambda: run.states("sweep"),
    )
    run.mark_task("sweep", "failed")
    began_s = time.monotonic()
    wait_until(
        lambda: not team.left(),
        awaiting="the end of the sweep",
        timeout_s=_STOP_S,
        every_s=1,
        seen=team.left,
    )
    (first,) = team.sweeps()
    yield f"stopped: nothing was left of {first} after {time.monotonic() - began_s:.0f} s"
    run.clear("sweep")
    assert run.wait() == "success", run.tasks()
    result = run.handed_on("sweep")
    assert result["sweep"] == first, result
    assert team.sweeps() == [first]
    yield f"cleared: the task went on with it: {json.dumps(result)}"
    run.clear("sweep")
    assert run.wait() == "success", run.tasks()
    assert len(team.sweeps()) == 2
    assert run.handed_on("sweep")["sweep"] != first
    assert not team.left()
    yield "cleared again: another sweep was run, and nothing is left in the cluster"


def _refused(team: Team) -> Iterator[str]:
    for dag_id in ("invalid", "absent"):
        team.api.unpause(dag_id)
        run = team.api.trigger({}, dag_id)
        assert run.wait() == "failed"
        log = team.api.ask("GET", f"{run.path}/taskInstances/sweep/logs/1")["content"]
        details = [one for entry in log for one in entry.get("error_detail") or ()]
        assert details, "the task's log has no error"
        yield f"refused: {dag_id}: {details[-1]['exc_value']}"


def _size(environment: Path) -> tuple[int, int]:
    """Return how many distributions an environment has, and its size, MB."""
    (site,) = environment.glob("lib/python*/site-packages")
    files = (path for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    return len([*site.glob("*.dist-info")]), sum(path.stat().st_size for path in files) // 1_000_000


def _run(command: list[Any]) -> None:
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
