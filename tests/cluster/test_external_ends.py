"""What sweeps leave in an external cluster: after Ctrl-C, after kill -9, and beside each other.

The command runs as a user runs it, during a fault by command that has killed the leader.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from e2e.command import AckbenchCommand, bench_in
from soak.killing import kill_during_the_fault
from support.external_brokers import PASSWORD, VARIABLE, ExternalBrokers, external_brokers
from support.external_sweeps import acls, left_in, topics_left_in

from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.trial.clients.librdkafka.topics import admin_client
from ackbench.infra.cluster.external import probe_cluster
from ackbench.infra.process.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
SUPPORT = Path(__file__).parents[1] / "support"
LOAD = {"rate_records_per_s": 300, "producers": 1}


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """Three brokers, which permit what the documentation lists."""
    with (
        external_brokers(cache, tmp_path_factory.mktemp("external"), count=3) as running,
        running.permitting(acls()),
    ):
        yield running


@pytest.fixture(autouse=True)
def healthy(brokers: ExternalBrokers) -> None:
    """All brokers run when a test begins."""
    for keeper in brokers.keepers.values():
        keeper.do("start")
    require_as_before(brokers)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[AckbenchCommand]:
    """The command with a home of its own."""
    with bench_in(tmp_path, {VARIABLE: PASSWORD}) as bench:
        yield bench


def sections(brokers: ExternalBrokers) -> dict[str, Any]:
    """Return the sections of an experiment on the brokers, as the user."""
    return {
        "name": "ended",
        "title": "Ended",
        "question": "What is left?",
        "controls": False,
        "cluster": "external",
        "bootstrap.servers": brokers.sasl,
        "security": brokers.user_security(),
    }


def killed_leader(brokers: ExternalBrokers, folder: Path) -> str:
    """Write an experiment whose leader is down for a minute, and return its path."""
    file = folder / "ended.yaml"
    fault = {
        "kind": "command",
        "inject": brokers.command("kill"),
        "heal": brokers.command("start"),
        "at_s": 1.0,
        "lasts_s": 60.0,
    }
    experiment = {
        **sections(brokers),
        "allow_faults": probe_cluster({"bootstrap.servers": brokers.plain}).cluster_id,
        "axes": {"acks": ["all"], "fault": ["killed"], "replication.factor": [3]},
        "faults": {"killed": fault},
        "workload": {**LOAD, "duration_s": 70},
    }
    file.write_text(dump_yaml(experiment))
    return str(file)


def require_as_before(brokers: ExternalBrokers) -> None:
    """Require that three brokers run, with nothing of the sweep."""
    wait_until(
        lambda: len(admin_client(brokers.plain).list_topics(timeout=10).brokers) == 3,
        awaiting="three brokers",
        timeout_s=60,
    )
    assert left_in(brokers) == set()


@pytest.mark.further
def test_ctrl_c_during_a_fault_heals_the_cluster_and_leaves_nothing_in_it(
    bench: AckbenchCommand, brokers: ExternalBrokers, tmp_path: Path
) -> None:
    """The heal runs before the command ends."""
    command = bench.start("run", killed_leader(brokers, tmp_path))
    wait_until(
        lambda: "fault_command" in bench.event_kinds() or command.poll() is not None,
        awaiting="the leader to be killed",
        timeout_s=600,
    )
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 128 + signal.SIGINT, errors
    assert bench.processes() == []
    require_as_before(brokers)
    assert "external" not in bench.run("clean").stdout


@pytest.mark.further
def test_kill_9_during_a_fault_leaves_nothing_after_clean(
    bench: AckbenchCommand, brokers: ExternalBrokers, tmp_path: Path
) -> None:
    """`ackbench clean` runs the heal that was noted, and deletes what the sweep made."""
    kill_during_the_fault(bench, killed_leader(brokers, tmp_path))
    assert topics_left_in(brokers) != set()
    cleaned = bench.run("clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "healed" in cleaned.stdout
    require_as_before(brokers)
    assert bench.processes() == []
    assert bench.run("clean").stdout == "nothing to clean\n"


@pytest.mark.further
def test_two_sweeps_of_one_experiment_at_the_same_time_do_not_meet(
    brokers: ExternalBrokers, cache: Path, tmp_path: Path
) -> None:
    """Each stores and reads its own records only, and deletes its own topics only."""
    experiment = {
        **sections(brokers),
        "axes": {"acks": ["all"], "fault": ["none"], "replication.factor": [3]},
        "repeats": 2,
        "workload": {**LOAD, "duration_s": 3},
    }
    started = []
    for name in ("one", "other"):
        home = tmp_path / name
        home.mkdir()
        (home / "cache").symlink_to(cache)
        (home / "experiment.yaml").write_text(dump_yaml(experiment))
        program = [sys.executable, "-m", "support.external_sweeps", str(home)]
        started.append(subprocess.Popen(program, cwd=SUPPORT.parent))
    assert [process.wait(300) for process in started] == [0, 0]
    for name in ("one", "other"):
        trials = sorted((tmp_path / name).glob("sweeps/*/trials/*/trial.json"))
        assert len(trials) == 2
        for trial in trials:
            attempts = pq.read_table(trial.with_name("attempts.parquet")).to_pylist()
            log = pq.read_table(trial.with_name("log.parquet"))["seq"].to_pylist()
            acked = {row["seq"] for row in attempts if row["outcome"] == "acked"}
            assert acked <= set(log) <= {row["seq"] for row in attempts}
    assert left_in(brokers) == set()
