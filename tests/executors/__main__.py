"""`make executors`: sweeps on an Airflow with several hosts, and on one with LocalExecutor.

Three hosts on this machine (`hosts.py`): the servers on one, and two Celery workers with homes of
their own, which share an S3 store. The scenarios:

- `celery`: a sweep of 20 trials. No trial runs twice, all are sealed, the repeats of the cells
  spread over the hosts, and the verdicts are those of the same sweep on one host.
- `resume`: a worker is killed (SIGKILL) in mid-trial. `verify` names the trial, `ackbench clean` on
  that host leaves the other one's cluster alone, and `ackbench run --resume` runs what is missing.
- `trigger`: the same, and the DAG is triggered again with the sweep's id.
- `stop`: a task is stopped (SIGTERM, as of a pod that is deleted): it destroys its cluster and
  releases its lock.
- `refusals`: two workers with one home, a lock that is lost, a store that refuses the credentials,
  and one that ends in mid-trial: one line each, and nothing is published that was not completed.
- `local`: LocalExecutor, one trial per task on a shared cluster, and a batch per task.

Needs root, Debian's packages redis-server and postgresql, and the package registry for Celery.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import AckbenchCommand
from executors.hosts import OWN_ADDRESS, Host, enter_own_network, kill_group, running_hosts
from executors.servers import PACKAGES, Airflow, start_mlflow, start_postgres, start_redis
from rich.console import Console
from support.agreement import disagreements
from support.further_packages import environment_with
from support.machine_state import processes_of
from support.object_store import ObjectStore, object_store

from ackbench.experiments.commands.setup import make_ready
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.infra.airflow.environment import ONE_MACHINE
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.process.waiting import wait_until

SERVERS, *WORKERS = NAMES = ("airflow", "kafka-1", "kafka-2")
SCENARIOS: Final = ("celery", "resume", "trigger", "stop", "refusals", "local")
RUN_S: Final = 3600.0
_CELLS: Final = 4
_FEW: Final = 2
"""Repeats in the scenarios in which a worker is killed."""
_EXPERIMENT: Final = {
    "title": "A sweep on the executors of Airflow",
    "question": "Are the results those of one host?",
    "controls": False,
    "controllers": 0,
    "seed": 19,
    "axes": {
        "acks": [1, "all"],
        "enable.idempotence": [False],
        "replication.factor": [3],
        "partitions": [2],
        "fault": ["none", "leader-crash"],
    },
    "topic": {"min.insync.replicas": "majority"},
    "workload": {
        "rate_records_per_s": 1000,
        "record_size_bytes": 100,
        "duration_s": 5,
        "producers": 1,
    },
    "keys": {"count": 16},
    "faults": {"leader-crash": {"at_s": 1, "restart_after_s": 2}},
}


@dataclass
class Lab:
    """The hosts, and what they have in common."""

    hosts: Mapping[str, Host]
    python: Path
    store: ObjectStore
    experiments: Path
    """The folder of the experiments that the form offers."""
    console: Console
    problems: list[str] = field(default_factory=list)

    def home(self, name: str) -> Home:
        """Return ackbench's home on a host."""
        return Home(self.hosts[name].folder / "home")

    def variables(self) -> dict[str, str]:
        """Return the variables of all processes that find the sweeps in the store."""
        return {
            **self.store.environment,
            "ACKBENCH_STORE": self.store.uri,
            "ACKBENCH_EXPERIMENTS": str(self.experiments),
        }

    def bench(self, name: str, *, home: Home | None = None) -> AckbenchCommand:
        """Return the command on a host; it knows the store's credentials."""
        prefix = tuple(self.hosts[name].command(()))
        return AckbenchCommand(home or self.home(name), self.store.environment, prefix)

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(f"{time.strftime('%H:%M:%S')} {text}")

    def check(self, text: str, *, holds: bool) -> None:
        """Print whether something holds that has to."""
        self.say(f"{'ok' if holds else 'NOT SO'}: {text}")
        if not holds:
            self.problems.append(text)

    def write_experiment(self, name: str, repeats: int) -> Path:
        """Write an experiment of four cells and return its file."""
        path = self.experiments / f"{name}.yaml"
        path.write_text(dump_yaml({"name": name, **_EXPERIMENT, "repeats": repeats}))
        return path


def main() -> int:
    """Run the scenarios; return 0 if everything holds."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make executors")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], metavar="SCENARIO")
    parser.add_argument("--repeats", type=int, default=5, help="of the scenario celery")
    parser.add_argument("--keep", type=Path, help="a new folder for all files, which is kept")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(width=100, highlight=False, markup=False)
    own = Home.from_environment()
    make_ready(own, console.print)
    python = environment_with(PACKAGES, REPOSITORY / ".venv" / "executors")
    enter_own_network()
    problems = []
    for executor in ("CeleryExecutor", "LocalExecutor"):
        chosen = [
            name
            for name in arguments.scenarios or SCENARIOS
            if (name == "local") == (executor == "LocalExecutor")
        ]
        if chosen:
            with folder_of(arguments.keep, executor) as folder, lab_in(folder, python, own) as lab:
                run_scenarios(lab, executor, chosen, arguments.repeats)
                problems += lab.problems
    for line in problems:
        console.print(f"NOT SO: {line}", style="bold red")
    console.print(f"{len(problems)} problems")
    return 1 if problems else 0


@contextmanager
def folder_of(kept: Path | None, executor: str) -> Iterator[Path]:
    """Return a folder for the files of one installation; PostgreSQL's user may enter it."""
    if kept:
        folder = kept.resolve() / executor
        folder.mkdir(parents=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="ackbench-executors-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def lab_in(folder: Path, python: Path, own: Home) -> Iterator[Lab]:
    """Start the hosts, the servers and the store, and end all of them."""
    console = Console(width=100, highlight=False, markup=False)
    (folder / "hosts").mkdir()
    (folder / "experiments").mkdir()
    with (
        object_store(folder / "store", OWN_ADDRESS) as store,
        running_hosts(folder / "hosts", NAMES) as hosts,
    ):
        for host in hosts:
            (host.folder / "home").mkdir()
            (host.folder / "home" / "cache").symlink_to(own.cache)
        lab = Lab({h.name: h for h in hosts}, python, store, folder / "experiments", console)
        start_postgres(lab.hosts[SERVERS])
        start_redis(lab.hosts[SERVERS])
        start_mlflow(lab.hosts[SERVERS])
        yield lab


def run_scenarios(lab: Lab, executor: str, chosen: Sequence[str], repeats: int) -> None:
    """Start Airflow with an executor, and run scenarios on it."""
    is_celery = executor == "CeleryExecutor"
    further = lab.variables() if is_celery else {"ACKBENCH_EXPERIMENTS": str(lab.experiments)}
    airflow = Airflow(lab.hosts[SERVERS], lab.python, executor, further)
    lab.write_experiment("executors", repeats)
    lab.write_experiment("few", 1)
    began_s = time.monotonic()
    airflow.start(lab.home(SERVERS), slots=2 if is_celery else 1)
    lab.say(f"Airflow with {executor} was ready after {time.monotonic() - began_s:.0f} s")
    if is_celery:
        workers = {name: airflow.start_worker(lab.hosts[name], lab.home(name)) for name in WORKERS}
        if "celery" in chosen:
            run_celery(lab, airflow, repeats)
        ways: dict[str, Callable[[Lab, Airflow, str], str]] = {
            "resume": resume_by_command,
            "trigger": resume_by_trigger,
        }
        for way in (name for name in ways if name in chosen):
            kill_a_worker(lab, airflow, workers[WORKERS[1]], ways[way])
            workers[WORKERS[1]] = airflow.start_worker(lab.hosts[WORKERS[1]], lab.home(WORKERS[1]))
        if "stop" in chosen:
            stop_a_task(lab, airflow)
        if "refusals" in chosen:
            kill_group(workers[WORKERS[1]])
            airflow.start_worker(lab.hosts[WORKERS[1]], lab.home(WORKERS[0]))
            run_refusals(lab, airflow)
    else:
        run_local(lab, airflow)


def run_celery(lab: Lab, airflow: Airflow, repeats: int) -> None:
    """Run a sweep on two hosts, and compare it with the same one on one host."""
    began_s = time.monotonic()
    run = airflow.trigger({"experiment": "executors.yaml"})
    state = airflow.wait(run, RUN_S)
    uri = airflow.sweep(run)
    lab.say(f"{uri}: {state} after {time.monotonic() - began_s:.0f} s")
    print_tasks(lab, airflow, run)
    if not uri:
        lab.check("the sweep was planned", holds=False)
        return
    if state == "failed":  # the harness failed on a busy machine: the same sweep goes on
        lab.say(resume_by_trigger(lab, airflow, uri))
    results = lab.bench(WORKERS[1]).show(uri)
    check_trials(lab, uri, results, planned=_CELLS * repeats)
    check_balance(lab, results)
    shown = lab.bench(WORKERS[1]).run("show", uri).stdout
    lab.console.print(shown)
    lab.check("`show` names the hosts", holds="hosts: " in shown)
    one = lab.bench(WORKERS[0])
    began_s = time.monotonic()
    ran = one.run("run", str(lab.experiments / "executors.yaml"), timeout_s=RUN_S)
    lab.check("the sweep runs on one host", holds=ran.returncode == 0)
    alone = newest(one.home, "executors-*", uri)
    lab.say(f"{alone} on {WORKERS[0]} alone: {time.monotonic() - began_s:.0f} s")
    found = [*disagreements(one, {uri: "two hosts", alone: "one host"}, lab.console)]
    lab.check(f"two hosts and one host agree {found or ''}", holds=not found)


def newest(home: Home, pattern: str, other: str) -> str:
    """Return the id of the newest sweep of a home that is not another one."""
    names = {path.name for path in home.sweeps.glob(pattern)} - {other.rpartition("/")[2]}
    return max(names)


def print_tasks(lab: Lab, airflow: Airflow, run: str) -> None:
    """Print where each task ran, and for how long."""
    for task in airflow.tasks(run):
        index = "" if task["map_index"] < 0 else f"[{task['map_index']}]"
        label = task["rendered_map_index"] or ""
        lab.say(
            f"  {task['task_id']}{index} {label} on {task['hostname']}: {task['state']}, "
            f"{task['duration'] or 0:.1f} s"
        )
        if task["state"] == "failed":
            lab.say(f"    {airflow.error(run, task)}")


def check_trials(lab: Lab, uri: str, results: Mapping[str, Any], planned: int) -> None:
    """Check that each trial ran once, is sealed, and is in the store with its host."""
    trials = results["trials"]
    states = Counter(trial["status"] for trial in trials)
    lab.say(f"{len(trials)} trials: {dict(states)}")
    lab.check(
        f"all {planned} trials are complete",
        holds=len(trials) == planned and states["sealed"] + states["void"] == planned,
    )
    sweep_id = uri.rpartition("/")[2]
    kept = {
        name: [
            path.name
            for path in (lab.home(name).sweeps / sweep_id / "trials").glob("*")
            if not path.suffix  # else it failed, or did not end
        ]
        for name in WORKERS
    }
    ran = Counter(name for names in kept.values() for name in names)
    lab.say(f"ledgers by host: { {name: len(names) for name, names in kept.items()} }")
    lab.check("no trial ran twice", holds=len(ran) == planned and set(ran.values()) == {1})
    recorded = {trial["trial_id"]: trial["host"] for trial in trials}
    lab.check(
        "each trial's manifest names the host that has its ledger",
        holds=all(recorded.get(one) == name for name, names in kept.items() for one in names),
    )
    left = locks_in(lab, uri)
    lab.check(f"no lock is left {left or ''}", holds=not left)


def locks_in(lab: Lab, uri: str) -> list[str]:
    """Return the trials of a sweep that are locked in the store."""
    from pyarrow import fs

    folder = f"{uri.removeprefix('s3://')}/claims"
    found = lab.store.filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(info.base_name.split(".")[0] for info in found)


def published_records(lab: Lab, uri: str) -> dict[str, bytes]:
    """Return the record of each trial that is in the store."""
    from pyarrow import fs

    folder = f"{uri.removeprefix('s3://')}/trials"
    files = lab.store.filesystem.get_file_info(
        fs.FileSelector(folder, recursive=True, allow_not_found=True)
    )
    return {
        Path(info.path).parent.name: lab.store.filesystem.open_input_file(info.path).readall()
        for info in files
        if info.base_name == "trial.json"
    }


def check_balance(lab: Lab, results: Mapping[str, Any]) -> None:
    """Print how many repeats of each cell each host has run; each host has to have some."""
    by_cell: dict[str, Counter[str]] = {}
    for trial in results["trials"]:
        by_cell.setdefault(trial["label"], Counter())[trial["host"]] += 1
    for label, hosts in by_cell.items():
        lab.say(f"  {label}: {dict(sorted(hosts.items()))}")
    shared = [label for label, hosts in by_cell.items() if len(hosts) > 1]
    lab.check(
        f"{len(shared)} of {len(by_cell)} cells ran on both hosts", holds=shared == [*by_cell]
    )
    lab.say(f"hosts: {json.dumps(results['hosts'])}")


def kill_a_worker(
    lab: Lab, airflow: Airflow, worker: Any, resume: Callable[[Lab, Airflow, str], str]
) -> None:
    """Kill the second worker in mid-trial, clean its host, and resume the sweep."""
    first, second = WORKERS
    run = airflow.trigger({"experiment": "few.yaml", "repeats": _FEW})
    uri = wait_until(lambda: airflow.sweep(run), awaiting="the plan", timeout_s=300, every_s=1)
    sweep_id = uri.rpartition("/")[2]
    bench = lab.bench(second)
    sends(lab, second)
    (partial,) = (bench.home.sweeps / sweep_id / "trials").glob("*.partial")
    victim = partial.name.removesuffix(".partial")
    kill_group(worker)
    began_s = time.monotonic()
    lab.say(f"killed the worker of {second} in trial {victim}")
    wait_until(
        lambda: not lab.hosts[second].processes(),
        awaiting=f"the end of all processes of {second}",
        timeout_s=120,
        every_s=0.5,
        seen=lab.hosts[second].processes,
    )
    lab.say(f"its processes had ended {time.monotonic() - began_s:.1f} s later")
    clean_beside(lab, bench, lab.bench(first))
    state = airflow.wait(run, RUN_S)
    print_tasks(lab, airflow, run)
    lab.check("the run failed", holds=state == "failed")
    lab.check(
        f"trial {victim} is locked: {locks_in(lab, uri)}", holds=[victim] == locks_in(lab, uri)
    )
    reason = airflow.error(run, {"task_id": "verify", "map_index": -1})
    lab.say(f"verify: {reason}")
    lab.check("`verify` names trial and host", holds=victim in reason and second in reason)
    before = published_records(lab, uri)
    lab.say(f"{len(before)} of {_CELLS * _FEW} trials are in the store: resuming")
    began_s = time.monotonic()
    how = resume(lab, airflow, uri)
    after = published_records(lab, uri)
    new = sorted(after.keys() - before.keys())
    lab.say(f"{how} after {time.monotonic() - began_s:.0f} s; it ran {new}")
    lab.check("all trials are in the store", holds=len(after) == _CELLS * _FEW)
    lab.check("those of before were not run again", holds=before.items() <= after.items())
    lab.check("no lock is left", holds=not locks_in(lab, uri))
    lab.console.print(lab.bench(first).run("show", uri).stdout)


def clean_beside(lab: Lab, bench: AckbenchCommand, other: AckbenchCommand) -> None:
    """Clean the killed worker's host while the other host's cluster runs."""
    brokers = wait_until(
        lambda: broker_pids(other.home),
        awaiting="a cluster on the other host",
        timeout_s=300,
        every_s=0.5,
    )
    lab.say(f"`clean` in its home: {bench.run('clean').stdout.strip()}")
    shared = lab.bench(WORKERS[1], home=other.home).run("clean")
    lab.say(f"`clean` in the other's home, as on shared storage: {shared.stdout.strip()}")
    lab.check(
        f"the other host's {len(brokers)} brokers still run",
        holds=brokers <= broker_pids(other.home),
    )


def broker_pids(home: Home) -> set[int]:
    """Return the pids of the brokers that run for a home, on whichever host."""
    found = set()
    for line in processes_of(home.root):
        pid = int(line.split()[0])
        try:
            if psutil.Process(pid).name() == "java":
                found.add(pid)
        except psutil.NoSuchProcess:
            continue
    return found


def stop_a_task(lab: Lab, airflow: Airflow) -> None:
    """Send SIGTERM to the supervisor of a task in mid-trial, as a deleted pod gets it."""
    run = airflow.trigger({"experiment": "few.yaml"})
    uri = wait_until(lambda: airflow.sweep(run), awaiting="the plan", timeout_s=300, every_s=1)
    name = wait_until(
        lambda: next((one for one in WORKERS if is_sending(lab, one)), None),
        awaiting="a trial that sends",
        timeout_s=RUN_S,
        every_s=0.2,
    )
    processes = lab.hosts[name].processes()
    supervisor = next(one for one in processes if "airflow supervisor" in one)
    psutil.Process(int(supervisor.split()[0])).terminate()
    began_s = time.monotonic()
    lab.say(f"stopped the task on {name} in trial {locks_in(lab, uri)}")
    wait_until(
        lambda: not broker_pids(lab.home(name)),
        awaiting=f"the end of the brokers of {name}",
        timeout_s=120,
        every_s=0.2,
    )
    lab.say(f"its brokers had ended {time.monotonic() - began_s:.1f} s later")
    state = airflow.wait(run, RUN_S)
    print_tasks(lab, airflow, run)
    errors = [airflow.error(run, one) for one in airflow.tasks(run) if one["state"] == "failed"]
    lab.check("the run failed", holds=state == "failed")
    lab.check("the task says why", holds=any("interrupted (SIGTERM)" in one for one in errors))
    lab.check("no lock is left", holds=not locks_in(lab, uri))


def is_sending(lab: Lab, name: str) -> bool:
    """Return whether a trial on a host sends records."""
    return "load_begin" in lab.bench(name).event_kinds()


def run_refusals(lab: Lab, airflow: Airflow) -> None:
    """Let things be refused; the second worker has the first one's home."""
    first, second = WORKERS
    bench = lab.bench(first)
    wrong = {**lab.store.environment, "AWS_SECRET_ACCESS_KEY": "wrong"}
    few = str(lab.experiments / "few.yaml")
    refused = AckbenchCommand(bench.home, wrong, bench.prefix).run(
        "run", few, "--store", lab.store.uri
    )
    lab.say(f"wrong credentials: status {refused.returncode}: {refused.stderr.strip()}")
    lab.check(
        "a store that refuses is one line and status 2",
        holds=refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1,
    )
    run = airflow.trigger({"experiment": "few.yaml", "repeats": _FEW})
    uri = wait_until(lambda: airflow.sweep(run), awaiting="the plan", timeout_s=300, every_s=1)
    sends(lab, first)
    lost = locks_in(lab, uri)[0]
    lab.say(f"deleting the lock of trial {lost} in mid-trial")
    delete_lock(lab, uri, lost)
    state = airflow.wait(run, RUN_S)
    print_tasks(lab, airflow, run)
    errors = [airflow.error(run, one) for one in airflow.tasks(run) if one["state"] == "failed"]
    lab.check("the run failed", holds=state == "failed")
    lab.check("the lost lock is named", holds=any("its lock was released" in e for e in errors))
    lab.check(f"trial {lost} is not published", holds=lost not in published_records(lab, uri))
    lab.check(f"{second} is refused {first}'s home", holds=any("is used by" in e for e in errors))
    lab.check("each error is one line", holds=all("\n" not in error for error in errors))
    run = airflow.trigger({"experiment": "few.yaml"})
    uri = wait_until(lambda: airflow.sweep(run), awaiting="the plan", timeout_s=300, every_s=1)
    sends(lab, first)
    lab.store.kill()
    lab.say("the store has ended in mid-trial")
    airflow.wait(run, RUN_S)
    print_tasks(lab, airflow, run)


def sends(lab: Lab, name: str) -> None:
    """Wait until a trial on a host sends records."""
    bench = lab.bench(name)
    wait_until(
        lambda: is_sending(lab, name),
        awaiting=f"a trial on {name} that sends",
        timeout_s=RUN_S,
        every_s=0.2,
        seen=bench.event_kinds,
    )


def delete_lock(lab: Lab, uri: str, trial_id: str) -> None:
    """Delete the lock of a trial from the store."""
    from pyarrow import fs

    folder = f"{uri.removeprefix('s3://')}/claims"
    for info in lab.store.filesystem.get_file_info(fs.FileSelector(folder)):
        if info.base_name.startswith(f"{trial_id}."):
            lab.store.filesystem.delete_file(info.path)


def resume_by_command(lab: Lab, _airflow: Airflow, uri: str) -> str:
    """Resume a sweep with the command, on the first host."""
    ran = lab.bench(WORKERS[0]).run("run", "--resume", uri, timeout_s=RUN_S)
    lab.console.print(ran.stderr)
    return f"`ackbench run --resume` exited with status {ran.returncode}"


def resume_by_trigger(lab: Lab, airflow: Airflow, uri: str) -> str:
    """Resume a sweep by triggering the DAG again."""
    run = airflow.trigger({"experiment": "few.yaml", "sweep_id": uri.rpartition("/")[2]})
    state = airflow.wait(run, RUN_S)
    print_tasks(lab, airflow, run)
    return f"the DAG run ended with {state}"


def run_local(lab: Lab, airflow: Airflow) -> None:
    """Run a small sweep with LocalExecutor: a batch per task, and one trial per task."""
    home = lab.home(SERVERS)
    bench = AckbenchCommand(home, {}, tuple(lab.hosts[SERVERS].command(())))
    for one_machine in (False, True):
        if one_machine:
            airflow.restart_scheduler(home, {ONE_MACHINE: "1"})
        began_s = time.monotonic()
        run = airflow.trigger({"experiment": "few.yaml"})
        state = airflow.wait(run, RUN_S)
        sweep_id = airflow.sweep(run)
        lab.say(f"{sweep_id}: {state} after {time.monotonic() - began_s:.0f} s")
        print_tasks(lab, airflow, run)
        tasks = sum(task["task_id"] == "trial" for task in airflow.tasks(run))
        lab.check("the DAG run succeeded", holds=state == "success")
        expected = _CELLS if one_machine else 1
        lab.check(f"{tasks} tasks ran {_CELLS} trials", holds=tasks == expected)
        lab.console.print(bench.run("show", sweep_id).stdout)
    left = [one for one in lab.hosts[SERVERS].processes() if str(home.clusters) in one]
    lab.check(f"no cluster is left {left or ''}", holds=not left)


if __name__ == "__main__":
    sys.exit(main())
