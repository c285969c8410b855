"""Faults by command on brokers addressed as external: crashed, paused, not touched, not healed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.command import AckbenchCommand, bench_in
from support.dying import during, has_happened
from support.external_brokers import PASSWORD, VARIABLE, ExternalBrokers, external_brokers
from support.external_sweeps import acls, left_in, run_all

from ackbench.experiments.ledger.trial_manifest import Status, TrialManifest
from ackbench.experiments.messages.errors import ExperimentError, TrialFailed
from ackbench.experiments.orchestration import clusters
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.trial.events.journal import BROKER_LEFT
from ackbench.infra.cluster.external import probe_cluster
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.further]
BARRED = (
    "import os, sys; os.path.exists(sys.argv[1]) or sys.exit('the way is barred'); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""A program that fails until a file exists, and then runs a command."""
LOAD = {"rate_records_per_s": 500, "duration_s": 6, "producers": 1}
EXTERNAL = {
    "name": "by-command",
    "title": "A fault by command",
    "question": "What do commands of the user's own do?",
    "controls": False,
    "cluster": "external",
}


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """Three brokers that commands can inject faults into."""
    with external_brokers(cache, tmp_path_factory.mktemp("external"), count=3) as running:
        yield running


@pytest.fixture(autouse=True)
def healthy(brokers: ExternalBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """All brokers run when a test begins; the user's password is in the environment."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    for keeper in brokers.keepers.values():
        keeper.do("resume")
        keeper.do("start")
    wait_until_complete(brokers)


def wait_until_complete(brokers: ExternalBrokers) -> None:
    """Wait until all three brokers are in the metadata."""
    wait_until(
        lambda: len(probe_cluster({"bootstrap.servers": brokers.plain}).brokers) == 3,
        awaiting="three brokers",
        timeout_s=60,
    )


def sections(brokers: ExternalBrokers, **fault: Any) -> dict[str, Any]:
    """Return the sections of an experiment with one fault by command."""
    return {
        "allow_faults": probe_cluster({"bootstrap.servers": brokers.plain}).cluster_id,
        "axes": {"acks": ["all"], "fault": ["by-command"], "replication.factor": [3]},
        "faults": {"by-command": {"kind": "command", "at_s": 2.0, "lasts_s": 3.0, **fault}},
        "producer": {"socket.timeout.ms": 1000},
        "topic": {"min.insync.replicas": 2},
        "workload": LOAD,
    }


def run_trial_with(home: Home, brokers: ExternalBrokers, **fault: Any) -> TrialManifest:
    """Run one trial with a fault by command and return its record."""
    sweep = run_all(home, brokers, acls(), **sections(brokers, **fault))
    (trial,) = sweep.plan().trials
    return read_trial_manifest(sweep.trial(trial.trial_id))


@pytest.mark.further
def test_a_leader_that_is_killed_and_started_by_commands_is_seen_to_go(
    home: Home, brokers: ExternalBrokers
) -> None:
    """The metadata show another leader; in the end all brokers are there again."""
    record = run_trial_with(
        home, brokers, inject=brokers.command("kill"), heal=brokers.command("start")
    )
    assert record.status is Status.SEALED, record.reason
    evidence = " ".join(record.fault.evidence)
    assert "left the metadata" in evidence or "leader of partition" in evidence
    wait_until_complete(brokers)
    assert left_in(brokers) == set()


@pytest.mark.further
def test_a_broker_that_dies_of_something_else_makes_the_trial_void(
    home: Home, brokers: ExternalBrokers
) -> None:
    """No command has stopped it: it is missing in the metadata, and refuses connections."""

    def kill_and_start() -> None:
        brokers.keepers[3].do("kill")
        wait_until(
            lambda: has_happened(home.sweeps, BROKER_LEFT),
            awaiting="the metadata without the broker",
            timeout_s=60,
        )
        brokers.keepers[3].do("start")

    with during(home.sweeps, "flowing", kill_and_start):
        sweep = run_all(
            home,
            brokers,
            acls(),
            axes={"acks": ["all"], "fault": ["none"], "replication.factor": [3]},
            topic={"min.insync.replicas": 2},
            workload={**LOAD, "duration_s": 25},
        )
    (trial,) = sweep.plan().trials
    manifest = read_trial_manifest(sweep.trial(trial.trial_id))
    assert manifest.status is Status.VOID
    assert re.match(
        r"broker 3 left the cluster and refuses connections \d+\.\d s into the load, which the"
        " trial did not ask for",
        manifest.reason or "",
    )


@pytest.mark.further
def test_a_leader_that_is_paused_by_commands_is_seen_to_go(
    home: Home, brokers: ExternalBrokers
) -> None:
    """Requests time out, if nothing else."""
    record = run_trial_with(
        home, brokers, inject=brokers.command("pause"), heal=brokers.command("resume")
    )
    assert record.status is Status.SEALED, record.reason


@pytest.mark.further
def test_a_command_that_hangs_ends_its_trial_and_the_cluster_is_healed(
    home: Home, brokers: ExternalBrokers, tmp_path: Path
) -> None:
    """After `heal_timeout_s`; one line names the command."""
    healed = tmp_path / "healed"
    with pytest.raises(TrialFailed, match=r"inject `sleep 600` did not end within 2 s") as failed:
        run_trial_with(
            home, brokers, inject=["sleep", "600"], heal=["touch", str(healed)], heal_timeout_s=2
        )
    assert "\n" not in str(failed.value)
    assert healed.is_file()
    assert left_in(brokers) == set()


def test_a_program_that_does_not_exist_is_refused_before_anything_is_made(
    home: Home, brokers: ExternalBrokers
) -> None:
    """One line with the key of the experiment."""
    with pytest.raises(
        ExperimentError, match=r"faults\.by-command\.inject: no such program: no-such-program"
    ) as refused:
        run_trial_with(home, brokers, inject=["no-such-program"], heal=["true"])
    assert "\n" not in str(refused.value)
    assert left_in(brokers) == set()


def test_a_cluster_with_a_broker_that_is_down_gets_no_fault(
    home: Home, brokers: ExternalBrokers, tmp_path: Path
) -> None:
    """It was down before the sweep, which makes nothing and says so."""
    injected_file = tmp_path / "injected"
    brokers.keepers[2].do("kill")
    wait_until(
        lambda: len(probe_cluster({"bootstrap.servers": brokers.plain}).brokers) == 2,
        awaiting="the metadata without the broker",
        timeout_s=60,
    )
    with pytest.raises(ExperimentError, match="fault by-command may not be injected: ") as refused:
        run_trial_with(home, brokers, inject=["touch", str(injected_file)], heal=["true"])
    assert "is down" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not injected_file.exists()
    assert left_in(brokers) == set()


@pytest.mark.further
def test_a_broker_that_goes_down_between_two_trials_keeps_the_next_from_striking(
    home: Home, brokers: ExternalBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was made while all brokers ran; each trial looks again, as a resumed one does."""
    monkeypatch.setattr(clusters, "HEALTHY_TIMEOUT_S", 1.0)
    injected_file, file = tmp_path / "injected", home.root / "later.yaml"
    faults = {"inject": ["touch", str(injected_file)], "heal": ["true"]}
    experiment = {**EXTERNAL, "bootstrap.servers": brokers.plain, **sections(brokers, **faults)}
    file.write_text(dump_yaml(experiment))
    (trial,) = new_sweep(home, str(file)).plan().trials
    brokers.keepers[2].do("kill")
    with pytest.raises(
        InputError, match=r"fault by-command may not be injected: .* is down"
    ) as refused:
        clusters.assign_cluster(home, trial, 0)
    assert "\n" not in str(refused.value)
    assert not injected_file.exists()
    assert left_in(brokers) == set()


@pytest.mark.further
def test_a_command_that_does_nothing_makes_the_trial_void(
    home: Home, brokers: ExternalBrokers
) -> None:
    """Also where requests time out on a busy machine: the injection is soon after the begin."""
    record = run_trial_with(home, brokers, inject=["true"], heal=["true"], at_s=1.0)
    assert record.status is Status.VOID, record.fault.evidence


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[AckbenchCommand]:
    """The command with a home of its own."""
    with bench_in(tmp_path, {VARIABLE: PASSWORD}) as bench:
        yield bench


@pytest.mark.further
def test_a_heal_that_fails_stops_the_sweep_and_cleaning_finishes_it(
    bench: AckbenchCommand, brokers: ExternalBrokers, tmp_path: Path
) -> None:
    """No other trial starts on a broken cluster; what to do is said; then it is done."""
    allowed = tmp_path / "allowed"
    heal = [sys.executable, "-c", BARRED, str(allowed), *brokers.command("start")]
    file = tmp_path / "barred.yaml"
    experiment = {
        **EXTERNAL,
        "repeats": 2,
        "bootstrap.servers": brokers.plain,
        **sections(brokers, inject=brokers.command("kill"), heal=heal),
    }
    file.write_text(dump_yaml(experiment))

    ran = bench.run("run", str(file))

    said = ran.stdout + ran.stderr
    assert ran.returncode != 0
    assert "the way is barred" in said
    assert "`ackbench clean` tries again" in " ".join(said.split())
    trials = [path.name for path in bench.home.sweeps.glob("*/trials/*")]
    assert len(trials) == 1, trials
    assert len(probe_cluster({"bootstrap.servers": brokers.plain}).brokers) == 2

    allowed.touch()
    cleaned = bench.run("clean")

    assert cleaned.returncode == 0, cleaned.stderr
    assert "healed" in cleaned.stdout
    wait_until_complete(brokers)
    assert bench.run("clean").stdout == "nothing to clean\n"
    assert left_in(brokers) == set()
