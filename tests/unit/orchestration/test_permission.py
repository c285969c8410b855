"""A plan that this home has not made runs nothing that only a file of this machine may ask for."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.builders.records import a_spec
from support.command_line import ackbench
from support.fakes.cluster import MemoryCluster
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.messages.errors import ExperimentError, LedgerError
from ackbench.experiments.orchestration import batches, clusters, step_context, steps
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import (
    ExternalAccess,
    FaultRequest,
    PassedSettings,
    Plan,
    TrialSpec,
)
from ackbench.experiments.sweep.published import keep_store, publish_plan
from ackbench.infra.cluster import local
from ackbench.infra.machine.home import Home

SWEEP = "mine-20260101T000000-abcd"
SETTINGS = {"acks": "1", "socket.timeout.ms": "1000"}
PLUGIN = {"plugin.library.paths": "/planted/library.so"}
COMMAND = {"name": "kill", "at_s": 1.0, "inject": '["touch", "x"]', "heal": '["true"]'}


def cluster(**fields: Any) -> dict[str, Any]:
    """Return the change of a trial whose cluster has these fields."""
    return {"cluster": replace(a_spec().cluster, **fields)}


NEEDS: Mapping[str, tuple[dict[str, Any], str]] = {
    "library of the producer": (
        {"producer": SETTINGS | PLUGIN},
        "producer property plugin.library.paths loads or runs code",
    ),
    "library of the consumer": (
        {"consumer": PLUGIN},
        "consumer property plugin.library.paths loads or runs code",
    ),
    "library that is passed": (
        {"passed": PassedSettings(producer=PLUGIN, consumer={})},
        "producer property plugin.library.paths loads or runs code",
    ),
    "class of the brokers": (
        cluster(broker={"metric.reporters": "org.example.Planted"}),
        "broker property metric.reporters loads or runs code",
    ),
    "folder of the brokers": (
        cluster(broker={"metadata.log.dir": "/etc/planted"}),
        "broker property metadata.log.dir is set by ackbench itself",
    ),
    "variable of this machine": (
        {"producer": SETTINGS | {"sasl.password": "$AWS_SECRET_ACCESS_KEY"}},
        "producer property sasl.password is about security",
    ),
    "file of this machine": (
        {"consumer": {"ssl.ca.location": "/etc/shadow"}},
        "consumer property ssl.ca.location is about security",
    ),
    "other brokers": (
        {"producer": SETTINGS | {"metadata.broker.list": "internal:9092"}},
        "producer property metadata.broker.list is set by ackbench itself",
    ),
    "external cluster": (
        cluster(external=ExternalAccess(addresses="internal:9092")),
        "bootstrap.servers names an external cluster",
    ),
    "command for tokens": (
        {"producer": SETTINGS | {"ackbench.token.command": '["touch", "x"]'}},
        "producer property ackbench.token.command runs a command",
    ),
    "command on a cluster": (
        {"fault": FaultRequest(kind="command", parameters=COMMAND)},
        "allow_faults lets commands inject faults into the cluster",
    ),
    "command within a fault": (
        {
            "fault": FaultRequest(
                kind="none & kill",
                joined="&",
                parts=(FaultRequest(kind="none"), FaultRequest(kind="command", parameters=COMMAND)),
            )
        },
        "allow_faults lets commands inject faults into the cluster",
    ),
}
"""What a stranger may write into a plan, and what is said of it."""
all_needs = pytest.mark.parametrize(("changes", "what"), NEEDS.values(), ids=NEEDS)


def planted(home: Home, **changes: Any) -> SweepFolder:
    """Return a sweep of one trial, in a home that has not planned it."""
    sweep = SweepFolder(home.sweeps / SWEEP)
    trial = a_spec(sweep_id=SWEEP, experiment="mine", **changes)
    sweep.write_plan(
        Plan(
            sweep_id=SWEEP,
            experiment="mine",
            question="?",
            seed=1,
            repeats=1,
            trials=(trial,),
            refused=(),
        )
    )
    return sweep


@dataclass
class Host:
    """A host with a home of its own, and a store whose plans others may have written."""

    home: Home
    store: Path
    world: FakeInfrastructure = field(init=False)

    def __post_init__(self) -> None:
        """Make the fakes of clusters and trials."""
        self.world = FakeInfrastructure(self.home)

    def publish(self, **changes: Any) -> str:
        """Publish a sweep from another home, and return its URI."""
        sweep = planted(Home(self.store.parent / "stranger"), **changes)
        store = open_location(self.store.as_uri())
        keep_store(sweep, store, several_hosts=True)
        publish_plan(sweep, store.at(SWEEP))
        return store.at(SWEEP).uri


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host, with fakes of clusters and trials."""
    made = Host(Home(tmp_path / "home"), tmp_path / "store")
    made.world.install(monkeypatch.setattr)
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    monkeypatch.setattr(batches, "_prepare", lambda *_: None)
    monkeypatch.delenv("ACKBENCH_ONE_MACHINE", raising=False)
    monkeypatch.delenv("ACKBENCH_EXPERIMENTS", raising=False)
    monkeypatch.setenv("ACKBENCH_HOME", str(made.home.root))
    monkeypatch.setenv("ACKBENCH_STORE", made.store.as_uri())
    return made


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what `ackbench run` has begun to run; it ends there."""
    begun: list[str] = []

    def end(_home: Home, _say: object) -> None:
        begun.append("set-up")
        raise LedgerError("ended by the test")

    monkeypatch.setattr("ackbench.experiments.commands.run.ensure_set_up", end)
    return begun


@all_needs
def test_a_task_runs_nothing_of_a_plan_that_who_can_write_the_store_has_changed(
    host: Host, changes: dict[str, Any], what: str
) -> None:
    """The plan is not even fetched."""
    uri = host.publish(**changes)
    with pytest.raises(ExperimentError) as refused:
        batches.run_batch(uri, ["000-abcdef"])
    assert str(refused.value).startswith(
        f"trial 000-abcdef: {what}, and this home has not made the plan; allowed: if a file of "
    )
    assert "\n" not in str(refused.value)
    assert host.world.steps == []
    assert not (host.home.sweeps / SWEEP).exists()


@all_needs
def test_the_command_resumes_no_such_plan_from_a_store(
    host: Host, started: list[str], changes: dict[str, Any], what: str
) -> None:
    """One line and exit code 2."""
    result = ackbench("run", "--resume", host.publish(**changes))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
    assert what in result.stderr
    assert started == []
    assert not (host.home.sweeps / SWEEP).exists()


@all_needs
def test_a_folder_that_was_copied_into_the_home_is_as_strange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], what: str
) -> None:
    """No cluster is started for it, and none is contacted."""
    home = Home(tmp_path)
    monkeypatch.setattr(local, "provision", lambda *_: pytest.fail("a cluster was started"))
    (trial,) = planted(home, **changes).plan().trials
    with pytest.raises(ExperimentError, match=what):
        clusters.assign_cluster(home, trial, 0)
    with pytest.raises(ExperimentError, match=what):
        clusters.provision(home, trial, 0)


def test_a_plan_that_asks_for_nothing_is_run_wherever_it_comes_from(
    host: Host, started: list[str]
) -> None:
    """A usual sweep of several hosts."""
    uri = host.publish()
    assert batches.run_batch(uri, ["000-abcdef"]) == ["000-abcdef"]
    ackbench("run", "--resume", uri)
    assert started == ["set-up"]


CODE = {
    "name": "mine",
    "title": "Mine",
    "question": "?",
    "controls": False,
    "allow_code": True,
    "broker": {"metric.reporters": "org.example.Own"},
    "axes": {"acks": ["1"]},
}
"""An experiment that loads a class of the user's own."""


def own_file(folder: Path, **changes: Any) -> Path:
    """Write the experiment that loads a class."""
    folder.mkdir(exist_ok=True)
    file = folder / "mine.yaml"
    file.write_text(dump_yaml({**CODE, **changes}))
    return file


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, SweepFolder, TrialSpec]:
    """Return a home, and a sweep that it has planned, with its trial."""
    monkeypatch.setattr(local, "provision", lambda *_: MemoryCluster(tmp_path))
    home = Home(tmp_path / "home")
    sweep = new_sweep(home, str(own_file(tmp_path)))
    return home, sweep, sweep.plan().trials[0]


def test_a_plan_of_this_home_runs_what_its_file_allowed(
    planned: tuple[Home, SweepFolder, TrialSpec],
) -> None:
    """The file may have changed since."""
    home, _, trial = planned
    assert clusters.provision(home, trial, 0)


def test_a_plan_of_this_home_that_was_changed_is_a_strange_one(
    planned: tuple[Home, SweepFolder, TrialSpec],
) -> None:
    """Its digest is right: whoever changes a plan can compute it."""
    home, sweep, trial = planned
    cluster = replace(trial.cluster, broker={"metric.reporters": "org.example.Other"})
    other = trial.model_copy(update={"cluster": cluster})
    with pytest.raises(ExperimentError, match=r"metric\.reporters loads or runs code"):
        clusters.provision(home, other, 0)
    sweep.write_plan(sweep.plan().model_copy(update={"trials": (other,)}))
    with pytest.raises(ExperimentError, match=r"metric\.reporters loads or runs code"):
        clusters.provision(home, other, 0)


def test_only_its_owner_reads_the_key_of_a_home(
    planned: tuple[Home, SweepFolder, TrialSpec],
) -> None:
    """Whoever can read it can mark a plan."""
    home, _, _ = planned
    assert stat.S_IMODE((home.root / "plan.key").stat().st_mode) == 0o600


def test_the_mark_of_a_plan_is_of_one_home(
    planned: tuple[Home, SweepFolder, TrialSpec], tmp_path: Path
) -> None:
    """A copy with the mark in it is as strange as one without, and the mark is not published."""
    home, sweep, trial = planned
    other = Home(tmp_path / "other")
    other.sweeps.mkdir(parents=True)
    (home.sweeps / sweep.sweep_id).rename(other.sweeps / sweep.sweep_id)
    with pytest.raises(ExperimentError, match=r"metric\.reporters loads or runs code"):
        clusters.provision(other, trial, 0)
    moved = SweepFolder(other.sweeps / sweep.sweep_id)
    target = open_location((tmp_path / "store").as_uri())
    publish_plan(moved, target)
    assert sorted(target.list_files()) == ["experiment.yaml", "plan.json"]


def test_a_file_of_this_machine_permits_what_it_has_itself(
    host: Host, started: list[str], tmp_path: Path
) -> None:
    """Another class than that in the file is refused, and so is what only another file has."""
    uri = host.publish(**cluster(broker={"metric.reporters": "org.example.Own"}))
    for changed in (
        {"allow_code": False},
        {"broker": {"metric.reporters": "org.example.Other"}},
        {"name": "another"},
    ):
        file = own_file(tmp_path / "files", **changed)
        refused = ackbench("run", str(file), "--resume", uri)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert "metric.reporters loads or runs code" in refused.stderr
    assert started == []
    ackbench("run", str(own_file(tmp_path / "files")), "--resume", uri)
    assert started == ["set-up"]


def test_the_operators_folder_permits_what_its_files_have(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On each host of a sweep; a file that cannot be read permits nothing."""
    uri = host.publish(**cluster(broker={"metric.reporters": "org.example.Own"}))
    own_file(tmp_path / "offered")
    (tmp_path / "offered" / "damaged.yaml").write_text("{")
    monkeypatch.setenv("ACKBENCH_EXPERIMENTS", str(tmp_path / "offered"))
    assert batches.run_batch(uri, ["000-abcdef"]) == ["000-abcdef"]


def test_another_sweeps_plan_runs_nothing(host: Host) -> None:
    """It would use that sweep's clusters and topics, and destroy them."""
    uri = host.publish()
    sweep = planted(Home(host.store.parent / "stranger"))
    (trial,) = sweep.plan().trials
    other = trial.model_copy(update={"sweep_id": "victim-20260101T000000-abcd"})
    sweep.write_plan(sweep.plan().model_copy(update={"trials": (other,)}))
    publish_plan(sweep, open_location(uri))
    with pytest.raises(LedgerError, match="is that of 'victim-20260101T000000-abcd'"):
        batches.run_batch(uri, ["000-abcdef"])
    assert host.world.steps == []


@pytest.mark.parametrize(
    "trial_id", ["../../x", "a/b", "", "000-abcdef\n", "-x", "000-abcdef.failed"]
)
def test_the_id_of_a_trial_is_that_of_a_folder(host: Host, trial_id: str) -> None:
    """Folders of that name are made and removed."""
    uri = host.publish(trial_id=trial_id)
    with pytest.raises(LedgerError, match=r"plan\.json is truncated or not a plan"):
        batches.run_batch(uri, [trial_id])
    assert host.world.steps == []


def test_resuming_by_the_form_fetches_no_such_plan(host: Host) -> None:
    """Another host has planned it, or says so."""
    host.publish(producer=SETTINGS | PLUGIN)
    with pytest.raises(ExperimentError, match=r"plugin\.library\.paths loads or runs code"):
        steps.plan_sweep({"experiment": "quick", "sweep_id": SWEEP})
    assert not (host.home.sweeps / SWEEP).exists()


UNKNOWN_FAULTS: Mapping[str, tuple[FaultRequest, str]] = {
    "kind": (FaultRequest(kind="leader-crush"), "unknown fault 'leader-crush'; did you mean"),
    "kind of a part": (
        FaultRequest(
            kind="leader-crash & meteor",
            joined="&",
            parts=(FaultRequest(kind="leader-crash"), FaultRequest(kind="meteor")),
        ),
        "unknown fault 'meteor': run the plan with the version of ackbench that has made it",
    ),
    "parameter": (
        FaultRequest(kind="leader-crash", parameters={"speed": 1}),
        "unknown key leader-crash.speed",
    ),
    "value of a parameter": (
        FaultRequest(kind="leader-crash", parameters={"at_s": "soon"}),
        "leader-crash.at_s is 'soon'",
    ),
}
unknown_faults = pytest.mark.parametrize(
    ("fault", "what"), UNKNOWN_FAULTS.values(), ids=list(UNKNOWN_FAULTS)
)


@unknown_faults
def test_a_fault_that_this_version_does_not_know_is_one_line_of_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[str],
    fault: FaultRequest,
    what: str,
) -> None:
    """The plan is of a stranger, or of a later version."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    planted(Home(tmp_path), fault=fault)
    result = ackbench("run", "--resume", SWEEP)

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
    assert what in result.stderr
    assert started == []


@unknown_faults
def test_a_task_does_not_fetch_a_plan_with_a_fault_that_it_does_not_know(
    host: Host, fault: FaultRequest, what: str
) -> None:
    """No cluster is started."""
    with pytest.raises(ExperimentError, match=what):
        batches.run_batch(host.publish(fault=fault), ["000-abcdef"])
    assert host.world.steps == []
    assert not (host.home.sweeps / SWEEP).exists()
