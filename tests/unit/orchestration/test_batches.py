"""Batches of trials: what they hold, and how two hosts with homes of their own run a sweep."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.builders.records import a_spec, no_rows, record_of
from support.builders.result_tables import loss_counts, write_results
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.messages.errors import HealFailed, NotPublished, StorageError, TrialFailed
from ackbench.experiments.orchestration import batches, step_context, steps
from ackbench.experiments.orchestration.batches import (
    batches_of,
    list_batches,
    run_batch,
    run_planned,
)
from ackbench.experiments.results import spark_job
from ackbench.experiments.results.history import warehouse
from ackbench.experiments.results.history.index import index
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import RunRecord, record_path
from ackbench.experiments.sweep.plan import ExternalAccess, Plan, TrialSpec
from ackbench.experiments.sweep.published import keep_store, open_sweep, publish_plan
from ackbench.experiments.sweep.several_hosts import (
    check_out,
    machine_of_hosts,
    published_ids,
    resume,
)
from ackbench.experiments.sweep.trial_lock import TrialLock, read_locks, take_lock
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity

TRIALS = tuple(f"{number:03d}-abcdef" for number in range(4))


def plan_of(*specs: TrialSpec) -> Plan:
    """Return a plan with these trials."""
    return Plan(
        sweep_id="s", experiment="e", question="?", seed=1, repeats=1, trials=specs, refused=()
    )


def spec_of(number: int, **fields: Any) -> TrialSpec:
    """Return a trial whose cluster has these properties; `own`: that no other trial uses it."""
    own = bool(fields.pop("own", False))
    spec = a_spec(trial_id=f"{number:03d}-abcdef", order=number, needs_own_cluster=own)
    return spec.model_copy(update={"cluster": replace(spec.cluster, **fields)})


def sizes(plan: Plan, max_trials: int = 5) -> list[int]:
    """Return the number of trials of each batch."""
    found = batches_of(plan, [trial.trial_id for trial in plan.trials], max_trials)
    assert [one for batch in found for one in batch] == [one.trial_id for one in plan.trials]
    return [len(batch) for batch in found]


def test_a_batch_has_at_most_that_many_trials_in_the_plans_order() -> None:
    """So that several hosts get a share of a sweep."""
    assert sizes(plan_of(*(spec_of(number) for number in range(12)))) == [5, 5, 2]


def test_the_trials_of_a_batch_may_share_a_cluster() -> None:
    """Another configuration, or a fault that can outlive its trial, begins another batch."""
    plan = plan_of(
        spec_of(0), spec_of(1, nodes=4), spec_of(2, nodes=4), spec_of(3, own=True), spec_of(4)
    )
    assert sizes(plan) == [1, 2, 1, 1]


def test_all_trials_on_an_external_cluster_are_one_batch() -> None:
    """In parallel they would measure each other, and one would delete the topics of another."""
    plan = plan_of(
        *(
            spec_of(number, external=ExternalAccess(addresses="kafka.example:9092"))
            for number in range(12)
        )
    )
    assert sizes(plan) == [12]


class TwoHosts:
    """Two hosts, each with a home of its own, and the store between them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.worlds = {name: FakeInfrastructure(Home(folder / name)) for name in ("a", "b")}
        sweep = self.worlds["a"].sweep(len(TRIALS))
        store = open_location((folder / "store").as_uri())
        keep_store(sweep, store, several_hosts=True)
        self.store = store.at(sweep.sweep_id)
        publish_plan(sweep, self.store)

    @property
    def uri(self) -> str:
        """The sweep's URI."""
        return self.store.uri

    def on(self, name: str) -> FakeInfrastructure:
        """Continue on a host."""
        self.worlds[name].install(self._patch.setattr)
        self._patch.setenv("ACKBENCH_HOME", str(self.worlds[name].home.root))
        return self.worlds[name]

    def sweep(self, name: str) -> SweepFolder:
        """Return the sweep's folder on a host."""
        return check_out(self.worlds[name].home, self.uri, lambda _: None)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoHosts:
    """Return two hosts, with fakes of clusters, trials, Spark and MLflow."""
    monkeypatch.delenv("ACKBENCH_ONE_MACHINE", raising=False)
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    monkeypatch.setattr(batches, "_prepare", lambda *_: None)
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "a"))
    made = TwoHosts(tmp_path, monkeypatch)
    monkeypatch.setenv("ACKBENCH_STORE", made.store.parent.uri)
    return made


def test_a_trial_of_another_sweep_counts_as_failed_and_is_run(hosts: TwoHosts) -> None:
    """Its folder has the right name, as trial ids are the same in every sweep."""
    world = hosts.on("a")
    sweep = hosts.sweep("a")
    other = record_of(sweep.plan().trial(TRIALS[0]), sweep_id="another-night")
    sweep.partial(TRIALS[0]).mkdir()
    seal(sweep.partial(TRIALS[0]), sweep.trial(TRIALS[0]), other, no_rows())
    assert tuple(run_batch(hosts.uri, TRIALS[:2])) == TRIALS[:2]
    assert world.started_trials() == list(TRIALS[:2])
    assert sweep.complete_ids() == TRIALS[:2]


def test_each_host_runs_its_batch_and_the_store_has_all(hosts: TwoHosts) -> None:
    """Each with a cluster that it destroys; no trial runs twice."""
    for name, ids in (("a", TRIALS[:2]), ("b", TRIALS[2:])):
        world = hosts.on(name)
        assert tuple(run_batch(hosts.uri, ids)) == ids
        assert world.steps == [*(f"trial {trial_id}" for trial_id in ids), "destroy"]
        assert hosts.sweep(name).complete_ids() == ids
    assert published_ids(hosts.store) == set(TRIALS)
    assert read_locks(hosts.store) == []


def test_a_second_delivery_of_a_batch_runs_nothing(hosts: TwoHosts) -> None:
    """A broker of tasks may deliver one twice, to another host too."""
    hosts.on("a")
    run_batch(hosts.uri, TRIALS[:2])
    world = hosts.on("b")
    assert run_batch(hosts.uri, TRIALS[:2]) == []
    assert world.started_trials() == []


def test_a_locked_trial_is_left_to_the_host_that_locked_it(hosts: TwoHosts) -> None:
    """And `verify` names who has locked it and not finished."""
    hosts.on("a")
    lock = take_lock(hosts.store, TRIALS[0])
    assert lock
    world = hosts.on("b")
    run_batch(hosts.uri, TRIALS)
    assert world.started_trials() == list(TRIALS[1:])
    expected = rf"1 of 4 trials are missing: {TRIALS[0]} \(locked by process {os.getpid()}.*\)"
    with pytest.raises(TrialFailed, match=expected):
        steps.verify(hosts.uri)


def killed_elsewhere(trial_id: str) -> TrialLock:
    """Return a lock of a process on a host that is not this one."""
    elsewhere = MachineIdentity(host="kafka-2", boot_id="another", pid_namespace="pid:[1]")
    return TrialLock.own(trial_id).model_copy(update={"machine": elsewhere})


def test_resuming_releases_a_killed_workers_lock(hosts: TwoHosts) -> None:
    """By its id on the host that planned it, and on any other host that knows the store."""
    lock = killed_elsewhere(TRIALS[0])
    hosts.store.write(lock.name, lock.model_dump_json().encode())
    hosts.on("a")
    sweep_id = hosts.sweep("a").sweep_id
    assert steps.plan_sweep({"experiment": "quick", "sweep_id": sweep_id}) == hosts.uri
    assert read_locks(hosts.store) == []


@pytest.mark.parametrize(
    ("index", "try_number", "ran"), [("3", 2, TRIALS[:1]), ("3", 1, ()), ("4", 2, ())]
)
def test_a_task_that_is_cleared_runs_its_trial_again_on_another_host(
    hosts: TwoHosts,
    monkeypatch: pytest.MonkeyPatch,
    index: str,
    try_number: int,
    ran: tuple[str, ...],
) -> None:
    """Airflow knows that the try before has ended; of other tasks' processes nothing is known."""
    for name, value in in_airflow("3", 1).items():
        monkeypatch.setenv(name, value)
    lock = killed_elsewhere(TRIALS[0])
    hosts.store.write(lock.name, lock.model_dump_json().encode())
    for name, value in in_airflow(index, try_number).items():
        monkeypatch.setenv(name, value)
    hosts.on("b")

    assert tuple(run_batch(hosts.uri, TRIALS[:1])) == ran
    assert bool(read_locks(hosts.store)) == (not ran)


def in_airflow(index: str, try_number: int) -> dict[str, str]:
    """Return the variables of a mapped task's process."""
    return {
        "AIRFLOW_CTX_DAG_ID": "ackbench_sweep",
        "AIRFLOW_CTX_DAG_RUN_ID": "manual",
        "AIRFLOW_CTX_TASK_ID": "trial",
        "AIRFLOW_CTX_TRY_NUMBER": str(try_number),
        "ACKBENCH_TASK_INDEX": index,
    }


def test_clearing_the_plan_on_another_host_resumes_the_same_sweep(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store says which sweep the DAG run has planned; a second one would run all again."""
    form = {"experiment": "quick", "repeats": 1}
    for name, value in in_airflow("-1", 1).items():
        monkeypatch.setenv(name, value)
    hosts.on("a")
    planned = steps.plan_sweep(form)
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
    hosts.on("b")

    assert steps.plan_sweep(form) == planned


def test_a_host_that_does_not_know_the_sweep_finds_it_in_the_store(hosts: TwoHosts) -> None:
    """The task that plans may run on another host than at the first time."""
    hosts.on("b")
    form = {"experiment": "quick", "sweep_id": hosts.store.name}
    assert steps.plan_sweep(form) == hosts.uri
    assert [batch["trials"] for batch in list_batches(hosts.uri)] == [list(TRIALS)]


def test_a_task_runs_the_batch_that_its_host_takes_and_shows_it(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second task starts first, and a third one, delivered twice, has nothing left."""
    monkeypatch.setenv("ACKBENCH_BATCH_TRIALS", "2")
    hosts.on("a")
    _, second = list_batches(hosts.uri)
    shown: list[str] = []
    for _ in range(3):
        run_planned(hosts.uri, second, shown.append)
    assert shown == [
        f"{TRIALS[0]} to {TRIALS[1]} (2 trials)",
        f"{TRIALS[2]} to {TRIALS[3]} (2 trials)",
        "no batch is left",
    ]
    assert published_ids(hosts.store) == set(TRIALS)


def test_one_machine_resumes_a_sweep_of_several_hosts(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It copies what the others have published, and runs the rest."""
    hosts.on("b")
    run_batch(hosts.uri, TRIALS[:3])
    world, sweep = hosts.on("a"), hosts.sweep("a")
    monkeypatch.setenv("ACKBENCH_ONE_MACHINE", "1")
    assert resume(sweep, complete=True) == [
        f"copied from the store: {', '.join(TRIALS[:2])} and {TRIALS[2]}"
    ]
    (planned,) = list_batches(sweep.sweep_id)
    assert run_planned(sweep.sweep_id, planned, lambda _: None) == TRIALS[3]
    assert world.started_trials() == [TRIALS[3]]
    assert sweep.pending() == ()
    assert published_ids(hosts.store) == set(TRIALS)


def test_a_host_reads_a_sweep_of_several_hosts_from_the_store(hosts: TwoHosts) -> None:
    """Its own folder has its own trials only."""
    for name, ids in (("a", TRIALS[:2]), ("b", TRIALS[2:])):
        hosts.on(name)
        run_batch(hosts.uri, ids)
    for name in ("a", "b"):
        read = open_sweep(hosts.worlds[name].home, hosts.store.name)
        assert read.complete_ids() == TRIALS


def test_the_history_of_each_host_has_a_sweep_of_several_with_its_figures(hosts: TwoHosts) -> None:
    """No host has all of its ledgers, which stay in the store."""
    for name, ids in (("a", TRIALS[:2]), ("b", TRIALS[2:])):
        hosts.on(name)
        run_batch(hosts.uri, ids)
    measured = open_sweep(hosts.worlds["a"].home, hosts.store.name)
    write_results(measured, {trial_id: loss_counts(100, 1) for trial_id in TRIALS})
    for path in measured.results.iterdir():
        hosts.store.upload(path, f"results/{path.name}")
    steps.report(hosts.uri)

    for name in ("a", "b"):
        (listed,) = index(hosts.worlds[name].home, store=hosts.store.parent)
        assert (listed.summary.problem, listed.state.value) == (None, "complete")
        assert (listed.summary.sealed_trials, len(listed.summary.cells)) == (4, 1)
        assert listed.summary.size_bytes > sum(hosts.store.at("trials").list_files().values())


def test_a_failed_trial_stops_no_other_one_and_all_hosts_know_why(hosts: TwoHosts) -> None:
    """The reason is published."""
    world = hosts.on("a")
    world.fails = frozenset({TRIALS[1]})
    with pytest.raises(TrialFailed, match=f"1 of 4 trials failed: trial {TRIALS[1]} .*node 3 died"):
        run_batch(hosts.uri, TRIALS)
    assert world.steps == [*(f"trial {trial_id}" for trial_id in TRIALS), "destroy"]
    hosts.on("b")
    with pytest.raises(TrialFailed, match=rf"{TRIALS[1]} \(NodeFailed: node 3 died\)"):
        steps.verify(hosts.uri)


def test_a_fault_that_cannot_be_healed_stops_all_hosts_until_the_sweep_is_resumed(
    hosts: TwoHosts,
) -> None:
    """The other host starts no trial either."""
    hosts.on("a").unhealed_at = TRIALS[0]
    with pytest.raises(HealFailed):
        run_batch(hosts.uri, TRIALS[:2])
    world = hosts.on("b")
    with pytest.raises(step_context.Interrupted, match="rules of node 2"):
        run_batch(hosts.uri, TRIALS[2:])
    assert (world.started_trials(), world.steps) == ([], ["destroy"])
    steps.plan_sweep({"experiment": "quick", "sweep_id": hosts.sweep("b").sweep_id})
    run_batch(hosts.uri, TRIALS[2:])
    assert world.started_trials() == list(TRIALS[2:])


def test_a_trial_whose_lock_is_lost_is_not_published(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person resumed the sweep, so another host may have run it too."""
    world = hosts.on("a")
    run = world.run_trial

    def resumed_meanwhile(*arguments: object) -> object:
        for lock in read_locks(hosts.store):
            hosts.store.delete(lock.name)
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("ackbench.experiments.trial.run.run_trial", resumed_meanwhile)
    with pytest.raises(TrialFailed, match="its lock was released while it ran"):
        run_batch(hosts.uri, TRIALS[:1])
    assert published_ids(hosts.store) == set()
    assert (
        "its lock was released" in (hosts.sweep("a").failed(TRIALS[0]) / "reason.txt").read_text()
    )


def test_of_two_ledgers_of_a_trial_the_published_one_stays(hosts: TwoHosts) -> None:
    """Publishing the other one is refused."""
    sweep = hosts.sweep("a")
    hosts.on("b")
    run_batch(hosts.uri, TRIALS[:1])
    first = hosts.store.read(f"trials/{TRIALS[0]}/trial.json")
    world = hosts.on("a")
    world._sealed(sweep, replace_seed(sweep.plan().trial(TRIALS[0])))
    from ackbench.experiments.sweep.published import publish_trial

    with pytest.raises(StorageError, match="was also run elsewhere"):
        publish_trial(sweep, TRIALS[0], hosts.store)
    assert hosts.store.read(f"trials/{TRIALS[0]}/trial.json") == first


def replace_seed(spec: TrialSpec) -> TrialSpec:
    """Return the trial with another label, so that its record differs."""
    return spec.model_copy(update={"label": "another"})


def test_a_store_that_refuses_trials_fails_the_task_and_keeps_the_ledgers(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the host's folder and the remedy."""
    hosts.on("a")

    def refuse(*_: object) -> None:
        raise StorageError("the store refuses the credentials")

    monkeypatch.setattr("ackbench.experiments.sweep.published.publish_trial", refuse)
    with pytest.raises(NotPublished, match=r"run ackbench publish .*refuses the credentials"):
        run_batch(hosts.uri, TRIALS[:1])
    assert hosts.sweep("a").complete_ids() == TRIALS[:1]


def test_a_home_that_a_task_of_another_host_uses_is_refused(hosts: TwoHosts) -> None:
    """Each would destroy the clusters of the other one."""
    world, sweep = hosts.on("a"), hosts.sweep("a")
    record = RunRecord(
        sweep_id=sweep.sweep_id,
        watcher=ProcessIdentity.own(),
        machine=killed_elsewhere(TRIALS[0]).machine,
        dag_run="ackbench_sweep/manual__1",
    )
    path = record_path(world.home, sweep.sweep_id)
    path.parent.mkdir()
    path.write_text(record.model_dump_json())
    with pytest.raises(InputError, match=r"is used by .* on the host kafka-2: give each host"):
        run_batch(hosts.uri, TRIALS[:1])
    assert world.steps == []


def test_another_sweep_of_the_same_id_is_refused(hosts: TwoHosts) -> None:
    """Of another store, or with another plan."""
    sweep = hosts.sweep("a")
    other = open_location((Path(hosts.store.path).parents[1] / "other").as_uri())
    keep_store(sweep, other, several_hosts=True)
    with pytest.raises(InputError, match=r"is published to .*/other/"):
        check_out(hosts.worlds["a"].home, hosts.uri, lambda _: None)
    keep_store(sweep, hosts.store.parent, several_hosts=True)
    hosts.store.write("plan.json", b"{}")
    with pytest.raises(InputError, match="differs from the plan in"):
        check_out(hosts.worlds["a"].home, hosts.uri, lambda _: None)


def test_results_are_computed_in_the_store(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host that has run no trial."""
    hosts.on("a")
    run_batch(hosts.uri, TRIALS)
    hosts.on("b")
    measured: list[str] = []

    def measure(location: str, *_: object, **__: object) -> None:
        measured.append(location)

    monkeypatch.setattr(spark_job, "measure_location", measure)
    steps.measure(hosts.uri)
    steps.report(hosts.uri)
    steps.verify(hosts.uri)
    assert measured == [hosts.uri]
    assert "report.html" in hosts.store.list_files()
    kept = hosts.store.parent.at(warehouse.WAREHOUSE).list_files()
    assert {name.partition("/")[0] for name in kept} == set(warehouse.TABLES)


def test_without_a_store_a_batch_runs_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: TwoHosts
) -> None:
    """One host with an Airflow of its own needs none."""
    del hosts
    world = FakeInfrastructure(Home(tmp_path / "alone"))
    world.install(monkeypatch.setattr)
    monkeypatch.setenv("ACKBENCH_HOME", str(world.home.root))
    sweep = world.sweep(4)
    (planned,) = list_batches(sweep.sweep_id)
    assert run_planned(sweep.sweep_id, planned, lambda _: None) == ", ".join(TRIALS)
    assert sweep.pending() == ()


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_an_invalid_size_of_batches_is_refused(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """In one line, before anything starts."""
    monkeypatch.setenv("ACKBENCH_BATCH_TRIALS", text)
    with pytest.raises(InputError, match=f"ACKBENCH_BATCH_TRIALS={text} is invalid"):
        list_batches(hosts.uri)


def test_the_machine_of_several_hosts_has_the_properties_that_identify_one() -> None:
    """So that a trend says from which sweep on other machines ran the trials."""
    hosts: dict[str, dict[str, str | int]] = {
        host: {"system": "Linux 6.1", "cores": cores}
        for host, cores in {"a": 2, "b": 16, "c": 2}.items()
    }
    assert machine_of_hosts(hosts) == {
        "hosts": "a, b and c",
        "system": "Linux 6.1",
        "cores": "2 and 16",
    }
