"""Makes the stored sweeps again: `python tests/golden --again KIND...`.

Each is run with real brokers in a folder of neutral name, on a host of neutral name, so that no
file has a name of the machine that made it. Stored is the folder of the sweep with its ledgers:
results are shown only of trials whose files have their digests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from golden.stored import ARCHIVES, store
from support import broker_keeper
from support.external_brokers import external_brokers
from support.set_up_home import SET_UP

from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.results.lessons.tour import TourFolder, new_tour
from ackbench.infra.cluster.external import probe_cluster
from ackbench.infra.kafka.broker_settings import shared_properties
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

FOLDER: Final = Path("/tmp/golden")  # noqa: S108 - every machine can have it
EXPERIMENTS: Final = Path(__file__).with_name("experiments")
KINDS: Final = (*sorted(path.stem for path in EXPERIMENTS.glob("*.yaml")), *("external", "lessons"))
_COMMAND: Final = Path(sys.executable).with_name("ackbench")
_LESS_LOAD: Final = (
    *("--set", "workload.rate_records_per_s=300"),
    *("--repeats", "1", "--no-controls"),
)
_STEP: Final = """\
import sys
from ackbench.experiments.orchestration import batches, steps
step, named = sys.argv[1:]
if step == "plan":
    uri = steps.plan_sweep({"experiment": named})
    batches.list_batches(uri)
    print(uri)
elif step == "batch":
    batches.run_batch(named, ())
else:
    for last in (steps.measure, steps.report, steps.verify, steps.finish):
        last(named)
"""
"""One task of a sweep that several hosts run, as the DAG calls it."""


def make(kind: str) -> None:
    """Run the sweeps of a kind and store them."""
    home = Home(FOLDER / "home")
    home.root.mkdir(parents=True, exist_ok=True)
    cache = home.root / "cache"
    if not cache.is_symlink():
        shutil.rmtree(cache, ignore_errors=True)
        cache.symlink_to(SET_UP.cache)
    other: Mapping[str, Callable[[Home], Sequence[Path]]] = {
        "quick": _run_quick,
        "hosts": _run_on_two_hosts,
        "external": _run_on_external_cluster,
        "lessons": _run_lessons,
    }
    if kind in other:
        folders = other[kind](home)
    else:
        folders = [_run(home, str(EXPERIMENTS / f"{kind}.yaml"))]
    store(folders, ARCHIVES / f"{kind}.tar.xz")


def _environment(home: Home, host: str = "golden") -> dict[str, str]:
    return {**os.environ, "ACKBENCH_HOME": str(home.root), "ACKBENCH_HOST": host}


def _run(home: Home, *arguments: str) -> Path:
    """Run a sweep and return its folder."""
    before = set(home.sweeps.glob("*"))
    subprocess.run([_COMMAND, "run", *arguments], env=_environment(home), check=True)
    (folder,) = set(home.sweeps.glob("*")) - before
    return folder


def _run_quick(home: Home) -> list[Path]:
    """Run the experiment twice, for `compare` and `trend`."""
    file = str(EXPERIMENTS / "quick.yaml")
    return [_run(home, file), _run(home, file, "--seed", "43", "--repeats", "1")]


def _run_lessons(home: Home) -> list[Path]:
    """Run an experiment of the catalogue with less load; make a tour of it and of others.

    These are the newest sweep of groups, and a lesson that failed.
    """
    sweeps = {16: _run(home, "one-node-or-three", *_LESS_LOAD)}
    sweeps[15] = max(home.sweeps.glob("golden-groups-*"))
    return [sweeps[16], tour_of(home, sweeps)]


def tour_of(home: Home, sweeps: Mapping[int, Path]) -> Path:
    """Write a tour of sweeps, and of lesson 1, which failed; return its folder."""
    tour = new_tour(frozenset({1, *sweeps}), 1)
    for stop in tour.stops:
        if stop.lesson in sweeps:
            change = {"sweep_id": sweeps[stop.lesson].name, "seconds": 60.0}
        else:
            change = {"seconds": 30.0, "failed": "HarnessError: node 2 died"}
        tour = tour.with_stop(stop.model_copy(update=change))
    folder = TourFolder(home.tours / tour.tour_id)
    folder.write(tour)
    return folder.root


def _run_on_two_hosts(home: Home) -> list[Path]:
    """Run the batches of a sweep in two homes, one after the other, over a store."""
    store = FOLDER / "store"
    store.mkdir(exist_ok=True)

    def step(name: str, host: str, argument: str) -> str:
        own = Home(FOLDER / host)
        own.root.mkdir(exist_ok=True)
        if not (own.root / "cache").is_symlink():
            (own.root / "cache").symlink_to(home.cache)
        variables = {
            "ACKBENCH_STORE": str(store),
            "ACKBENCH_EXPERIMENTS": str(EXPERIMENTS),
            "ACKBENCH_BATCH_TRIALS": "2",
        }
        ran = subprocess.run(
            [sys.executable, "-c", _STEP, name, argument],
            env={**_environment(own, host), **variables},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return ran.stdout.strip().rpartition("\n")[2]

    uri = step("plan", "kafka-1", "hosts.yaml")
    for host in ("kafka-1", "kafka-2"):
        step("batch", host, uri)
    step("last", "kafka-1", uri)
    return [store / uri.rpartition("/")[2]]


def _run_on_external_cluster(home: Home) -> list[Path]:
    """Run a sweep on brokers that are addressed as external; commands crash their leader."""
    folder = FOLDER / "external"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    control = str(shutil.copy(broker_keeper.CONTROL, folder))
    with external_brokers(home.cache, folder, 3, shared_properties(ClusterSpec())) as brokers:

        def command(action: str) -> list[str]:
            return ["python3", control, f"{brokers.name}$LEADER", action]

        experiment: dict[str, Any] = {
            "name": "golden-external",
            "title": "A crash of an external cluster's leader",
            "question": "Does acks=1 lose records that acks=all keeps, on a cluster of others?",
            "controls": False,
            "cluster": "external",
            "bootstrap.servers": brokers.plain,
            "allow_faults": probe_cluster({"bootstrap.servers": brokers.plain}).cluster_id,
            "seed": 42,
            "repeats": 1,
            "axes": {
                "acks": [1, "all"],
                "replication.factor": 3,
                "partitions": 1,
                "fault": ["none", "kill-the-leader"],
            },
            "topic": {"min.insync.replicas": "majority"},
            "producer": {"socket.timeout.ms": 1000, "enable.idempotence": False},
            "consumer": {"socket.timeout.ms": 1000},
            "workload": {
                "rate_records_per_s": 300,
                "record_size_bytes": 100,
                "duration_s": 8,
                "producers": 1,
            },
            "keys": {"count": 8},
            "faults": {
                "kill-the-leader": {
                    "kind": "command",
                    "inject": command("kill"),
                    "heal": command("start"),
                    "like": "leader-crash",
                    "at_s": 1.5,
                    "lasts_s": 4,
                    "patience_s": 10.0,
                }
            },
        }
        file = folder / "external.yaml"
        file.write_text(dump_yaml(experiment))
        return [_run(home, str(file))]
