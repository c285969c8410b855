"""`make external`: the same sweeps on a local cluster, and on brokers addressed as external.

Three brokers with SASL_SSL and ACLs, which ackbench contacts as a user with the documented
permissions. Commands crash (SIGKILL) and pause (SIGSTOP) their leader, with the timings of the
faults `leader-crash` and `leader-pause` on a local cluster. `ackbench compare` then has to find the
same verdicts, and no difference between the shares of trials that its interval excludes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import AckbenchCommand
from rich.console import Console
from support.agreement import disagreements
from support.external_brokers import ExternalBrokers, external_brokers
from support.external_sweeps import acls

from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.infra.cluster.external import probe_cluster
from ackbench.infra.cluster.setup import ensure_kafka_ready
from ackbench.infra.kafka.broker_settings import shared_properties
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

CRASH = {"at_s": 2.0, "patience_s": 10.0}
PAUSE = {"at_s": 2.0}
DOWN_S = 5.0
PAUSE_S = 3.0
FAULTS = {
    "leader-crash": ("kill", "start", DOWN_S, {**CRASH, "restart_after_s": DOWN_S}),
    "leader-pause": ("pause", "resume", PAUSE_S, {**PAUSE, "pause_s": PAUSE_S}),
}
"""The actions that inject and heal, for how long, and the parameters of the local fault."""


def main() -> int:
    """Run and compare; return 0 if the sweeps agree."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make external")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    arguments = parser.parse_args()
    repeats = arguments.repeats
    home, console = Home.from_environment(), Console(width=100, highlight=False, markup=False)
    home.ensure_writable()
    ensure_kafka_ready(home.cache, ClusterSpec(), console.print)
    bench, problems = AckbenchCommand(home), list[str]()
    with tempfile.TemporaryDirectory(prefix="ackbench-external-") as name:
        folder = Path(name)
        settings = shared_properties(ClusterSpec())
        with (
            external_brokers(home.cache, folder, 3, settings) as brokers,
            brokers.permitting(acls()),
        ):
            cluster_id = probe_cluster({"bootstrap.servers": brokers.plain}).cluster_id
            for fault in arguments.faults:
                local = run(bench, folder, {**common(fault, repeats), **on_local_cluster(fault)})
                external = run(
                    bench,
                    folder,
                    {**common(fault, repeats), **on_external(fault, brokers, cluster_id)},
                )
                problems += disagreements(
                    bench, {local: "the local cluster", external: "the external one"}, console
                )
    for line in problems:
        console.print(line, style="bold red")
    console.print(f"{len(problems)} differences")
    return 1 if problems else 0


def common(fault: str, repeats: int) -> dict[str, Any]:
    """Return what both experiments have."""
    return {
        "name": fault,
        "title": f"{fault}, on a local and an external cluster",
        "question": "Does an external cluster lose and duplicate as a local one does?",
        "controls": False,
        "repeats": repeats,
        "seed": 19,
        "topic": {"min.insync.replicas": "majority"},
        "producer": {"socket.timeout.ms": 1000, "enable.idempotence": False},
        "consumer": {"socket.timeout.ms": 1000},
        "workload": {
            "rate_records_per_s": 1000,
            "record_size_bytes": 200,
            "duration_s": 10,
            "producers": 2,
        },
        "keys": {"count": 16},
    }


def axes(fault: str) -> dict[str, Any]:
    """Return the cells: acks decides."""
    return {"acks": [1, "all"], "replication.factor": [3], "partitions": [1], "fault": [fault]}


def on_local_cluster(fault: str) -> dict[str, Any]:
    """Return the sections of a local cluster, whose brokers are controllers as well."""
    return {"controllers": 0, "axes": axes(fault), "faults": {fault: FAULTS[fault][3]}}


def on_external(fault: str, brokers: ExternalBrokers, cluster_id: str) -> dict[str, Any]:
    """Return the sections of the external cluster, with commands that do the same."""
    inject, heal, lasts_s, parameters = FAULTS[fault]
    section = {
        "kind": "command",
        "inject": brokers.command(inject),
        "heal": brokers.command(heal),
        "like": fault,
        "at_s": CRASH["at_s"],
        "lasts_s": lasts_s,
        # A pause is shorter than the session timeout: no metadata change is waited for.
        "patience_s": parameters.get("patience_s", 0.0),
    }
    return {
        "cluster": "external",
        "bootstrap.servers": brokers.sasl,
        "security": brokers.user_security(),
        "allow_faults": cluster_id,
        "axes": axes(f"{inject}-the-leader"),
        "faults": {f"{inject}-the-leader": section},
    }


def run(bench: AckbenchCommand, folder: Path, experiment: dict[str, Any]) -> str:
    """Run a sweep and return its id."""
    file = folder / "experiment.yaml"
    file.write_text(dump_yaml(experiment))
    pattern = f"{experiment['name']}-*"
    before = {path.name for path in bench.home.sweeps.glob(pattern)}
    ran = bench.run("run", str(file), timeout_s=7200)
    if ran.returncode != 0:
        raise SystemExit(ran.stdout + ran.stderr)
    (sweep_id,) = {path.name for path in bench.home.sweeps.glob(pattern)} - before
    return sweep_id


if __name__ == "__main__":
    sys.exit(main())
