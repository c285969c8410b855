"""`make provider`: the provider in environments of Airflow alone, with a scheduler, over REST.

For each release of Airflow (`--airflow`; by default the locked one and the oldest of Airflow 3): an
environment with it and the provider, what the provider adds to it, and a DAG with the operator and
a Kafka connection to a cluster that this script starts.

- `stopped`: the task is marked as failed in mid-trial. Nothing of the sweep is left: no process, no
  topic; what was sealed is kept.
- `cleared`: the task is cleared, and the same sweep goes on; it is cleared again, and another sweep
  is run.
- `steps`: the same as a DAG with a task per step. The process of a trial is killed: its task fails,
  the others run, and `verify` names the trial. The trial is cleared with the tasks after it, and
  runs. The whole run is cleared, and the same sweep is measured again. In another run the process
  of the task is killed, which interrupts the trial.
- `refused`: an invalid request, a worker without ackbench, and another release of it are one line
  each.
- `lineage`: what Airflow's listener for OpenLineage has written of the tasks.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.services import AirflowApi, DagRun, free_ports
from rich.console import Console

from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.events.journal import JOURNAL_FILE
from ackbench.infra.cluster.local import provision
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.process.waiting import wait_until

PROVIDER: Final = REPOSITORY / "provider"
RELEASES: Final = {"3.3.2": None, "3.0.0": "2025-05-15"}
"""Releases of Airflow, and until when packages are of their time: 3.0.0's API server does not start
with a FastAPI of today. Airflow's own constraints are in no package registry."""
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
from airflow_provider_ackbench.dags import step_dag, sweep_dag

team = sweep_dag(
    "team", os.environ["TEAM_EXPERIMENT"], kafka_conn_id="kafka-staging", expect=["lost=0"]
)
steps = step_dag(
    "steps",
    os.environ["TEAM_EXPERIMENT"],
    kafka_conn_id="kafka-staging",
    environment={"ACKBENCH_ONE_MACHINE": "1"},
)
invalid = sweep_dag("invalid", "quikc")
invalid_steps = step_dag("invalid_steps", "quikc")
absent = sweep_dag("absent", "quick", environment={"ACKBENCH_PYTHON": "/absent/python"})
other = sweep_dag("other", "quick", command=["/bin/sh", "-c", "echo ackbench 7.3.1"])
"""
ASSET: Final = """\
from airflow.providers.common.compat.openlineage.utils.utils import translate_airflow_asset
from airflow.sdk import Asset

found = translate_airflow_asset(Asset("ackbench_sweep_finished", "ackbench://ackbench_sweep"), None)
print(found.namespace, found.name)
"""
"""Prints the dataset of an asset of complete sweeps."""
POOL: Final = "ackbench_machine"
OPENLINEAGE: Final = "apache-airflow-providers-openlineage"


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
    lineage: Path
    """The events of OpenLineage, one per line."""

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
            yield from _steps(team)
            yield from _refused(team)
            yield from _lineage(team)
    finally:
        cluster.destroy()


def _made(environment: Path, release: str) -> str:
    """Make the environment; return what the provider adds to Airflow alone."""
    uv = Path(sys.executable).with_name("uv")
    _run([uv, "venv", "--quiet", "--python", sys.executable, environment])
    install = [uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python"]
    if until := RELEASES.get(release):
        install += ["--exclude-newer", until]
    _run([*install, f"apache-airflow=={release}"])
    before = _size(environment)
    _run([*install, str(PROVIDER)])
    after = _size(environment)
    # Tried with it, not part of it.
    _run([*install, OPENLINEAGE, f"apache-airflow=={release}"])
    return (
        f"{before[0]} packages and {before[1] / 1e6:.1f} MB without the provider, which adds "
        f"{after[0] - before[0]} and {(after[1] - before[1]) / 1e6:.2f} MB"
    )


@contextmanager
def _running(folder: Path, environment: Path, servers: str) -> Iterator[Team]:
    """Start Airflow with its DAGs, and end it."""
    (folder / "dags").mkdir()
    (folder / "dags" / "team.py").write_text(DAGS)
    experiment = folder / "of-a-team.yaml"
    experiment.write_text(EXPERIMENT)
    port, home = free_ports().airflow, folder / "bench"
    lineage = folder / "lineage.jsonl"
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
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(lineage), "append": True}
        ),
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
                lambda: len(api.ask("GET", "dags")["dags"]) == DAGS.count("_dag("),
                awaiting="Airflow to know the DAGs",
                timeout_s=_START_S,
                every_s=1,
                seen=lambda: api.ask("GET", "importErrors")["import_errors"],
            )
            pool = {"name": POOL, "slots": 1, "description": "one trial at a time"}
            api.ask("POST", "pools", {**pool, "include_deferred": False})
            yield Team(api, home, servers, environment, lineage)
        finally:
            os.killpg(services.pid, signal.SIGTERM)
            services.wait(_STOP_S)
            with suppress(ProcessLookupError):  # Airflow 3.0 may leave its API server
                os.killpg(services.pid, signal.SIGKILL)


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


def _steps(team: Team) -> Iterator[str]:
    before = team.sweeps()
    team.api.unpause("steps")
    run = team.api.trigger({}, "steps")
    yield from _killed_and_cleared(team, run, "the step", lambda step: step)
    sweep = run.handed_on("plan")["sweep"]
    run.clear()
    assert run.wait() == "success", run.tasks()
    assert run.handed_on("plan")["sweep"] == sweep
    assert {*team.sweeps()} == {*before, sweep}
    yield f"steps: the run was cleared: {_states(run)}: the same sweep"
    other = team.api.trigger({}, "steps")
    yield from _killed_and_cleared(team, other, "the task", lambda step: step.parent())
    wait_until(
        lambda: not team.left(),
        awaiting="the end of what the tasks started",
        timeout_s=_STOP_S,
        every_s=1,
        seen=team.left,
    )


def _killed_and_cleared(
    team: Team, run: DagRun, which: str, victim: Callable[[psutil.Process], psutil.Process | None]
) -> Iterator[str]:
    """Kill a process of a trial under way, then clear the task and those after it."""
    step = wait_until(
        lambda: _trial_under_way(team),
        awaiting="the load of a trial",
        timeout_s=_RUN_S,
        every_s=0.5,
        seen=lambda: [(one["task_id"], one["state"]) for one in run.tasks()],
    )
    killed = victim(step)
    assert killed
    killed.kill()
    assert run.wait() == "failed", run.tasks()
    yield f"steps: {which} was killed: {_states(run)}"
    failed = [one["map_index"] for one in run.tasks("trial") if one["state"] == "failed"]
    for index in failed:
        yield f"steps: {which} was killed: trial[{index}] said: {_error(run, 'trial', index)}"
    assert len(failed) == 1, failed
    yield f"steps: {which} was killed: verify said: {_error(run, 'verify')}"
    sweep = run.handed_on("plan")["sweep"]
    run.clear(("trial", failed[0]), downstream=True)
    assert run.wait() == "success", run.tasks()
    finished = run.handed_on("finish")
    yield f"steps: cleared: {_states(run)}; finish said: {json.dumps(finished)}"
    assert finished["sweep"] == sweep == run.handed_on("plan")["sweep"]


def _trial_under_way(team: Team) -> psutil.Process | None:
    """Return the process of the step that runs a trial, once its load flows."""
    if '"flowing"' not in team.events():
        return None
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = process.info["cmdline"] or ()
        home = (process.info["environ"] or {}).get("ACKBENCH_HOME")
        if home == str(team.home) and [*words[2:5]] == ["ackbench", "step", "trial"]:
            return process
    return None


def _states(run: DagRun) -> str:
    """Return how the tasks of a run ended."""
    ended: dict[str, list[str]] = {}
    for task in run.tasks():
        ended.setdefault(task["task_id"], []).append(str(task["state"]))
    return ", ".join(f"{name} {'/'.join(states)}" for name, states in ended.items())


def _error(run: DagRun, task_id: str, index: int = -1) -> str:
    """Return the error that ended the last attempt of a task."""
    (tries,) = (one["try_number"] for one in run.tasks(task_id) if one["map_index"] == index)
    path = f"{run.path}/taskInstances/{task_id}/logs/{tries}?map_index={index}"
    log = run.api.ask("GET", path)["content"]
    details = [one for entry in log for one in entry.get("error_detail") or ()]
    if not details:  # Airflow's supervisor has ended it
        return "; ".join(str(entry["event"]) for entry in log if entry.get("level") == "error")
    return str(details[0]["exc_value"])


def _refused(team: Team) -> Iterator[str]:
    for dag_id in ("invalid", "invalid_steps", "absent", "other"):
        team.api.unpause(dag_id)
        run = team.api.trigger({}, dag_id)
        assert run.wait() == "failed"
        task = "plan" if dag_id == "invalid_steps" else "sweep"
        yield f"refused: {dag_id}: {_error(run, task)}"
        if task == "plan":
            yield f"refused: {dag_id}: {_states(run)}"


def _lineage(team: Team) -> Iterator[str]:
    dataset = _asset(team)
    assert dataset == "ackbench ackbench_sweep", dataset
    yield f"lineage: the asset of complete sweeps: {dataset}"
    events = [json.loads(line) for line in team.lineage.read_text().splitlines()]
    for job in ("team.sweep", "steps.trial", "steps.finish"):
        complete = [
            event
            for event in events
            if event["eventType"] == "COMPLETE" and event["job"]["name"] == job
        ]
        assert complete, f"no event of {job}"
        (source,), (target,) = complete[-1]["inputs"], complete[-1]["outputs"]
        assert source["namespace"] == f"kafka://{team.servers.split(',')[0]}", source
        assert target["namespace"] == "file", target
        facet = source.get("inputFacets", {}).get("dataQualityAssertions", {})
        assertions = facet.get("assertions", [])
        assert bool(assertions) == (job != "steps.trial")
        first = f", as {json.dumps(assertions[0])}" if assertions else ""
        yield (
            f"lineage: {job}: {source['namespace']} {source['name']} -> {target['name']}; "
            f"{len(assertions)} assertions{first}"
        )


def _asset(team: Team) -> str:
    """Return the dataset that Airflow's listener makes of an asset of complete sweeps."""
    python = team.environment / "bin" / "python"
    variables = {"PATH": os.environ["PATH"], "AIRFLOW_HOME": str(team.environment / "home")}
    ran = subprocess.run(
        [python, "-c", ASSET], env=variables, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()[-1]


def _size(environment: Path) -> tuple[int, int]:
    """Return how many distributions an environment has, and its size, bytes."""
    (site,) = environment.glob("lib/python*/site-packages")
    files = (path for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    return len([*site.glob("*.dist-info")]), sum(path.stat().st_size for path in files)


def _run(command: list[Any]) -> None:
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
