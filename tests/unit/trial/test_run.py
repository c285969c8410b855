"""A trial on a fake cluster with fake clients: the order of its steps, and failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.fakes.cluster import MemoryCluster
from support.fakes.trial_clients import FakeTrialClients

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Status, TrialManifest
from ackbench.experiments.messages.errors import HealFailed, TrialFailed
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import ExternalAccess, FaultRequest, TrialSpec
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.errors import HarnessError, NodeFailed, WaitTimeout
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.spec import ClusterState
from ackbench.infra.machine.home import Home


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return the folder of a sweep without trials."""
    return SweepFolder(tmp_path / "sweep")


def run(
    sweep: SweepFolder,
    clients: FakeTrialClients,
    monkeypatch: pytest.MonkeyPatch,
    **changes: object,
) -> TrialManifest:
    """Run a trial on a fake cluster with fake clients."""
    monkeypatch.setattr("ackbench.experiments.trial.run.TrialClients", clients)
    return run_trial(sweep, a_spec(**changes), MemoryCluster(), Home(sweep.root))


def crash(restart_after_s: float = 0.2) -> FaultRequest:
    """Return a crash of the leader that heals soon."""
    return FaultRequest(
        kind="leader-crash",
        parameters={"at_s": 0.1, "restart_after_s": restart_after_s, "patience_s": 0.2},
    )


def test_the_log_is_read_after_every_record_is_settled(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load flows before the fault, and the final read follows the load."""
    clients = FakeTrialClients()
    run(sweep, clients, monkeypatch)
    assert clients.steps == [
        "started",
        "begin",
        "flowing",
        "sent",
        "settled",
        "read",
        "tables",
        "closed",
        "deleted",
    ]


def test_a_topic_that_cannot_be_deleted_costs_no_trial(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its ledger is sealed already; the warning names the trial."""
    record = run(sweep, FakeTrialClients("deleted", HarnessError), monkeypatch)

    assert read_trial_manifest(sweep.trial(record.trial_id)) == record
    assert f"trial {record.trial_id} is sealed, but its topic stays: deleted" in caplog.text


def test_a_trial_whose_fault_took_effect_is_sealed(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record on disk is the one that is returned."""
    record = run(sweep, FakeTrialClients(), monkeypatch, fault=crash())
    assert record.status is Status.SEALED
    assert read_trial_manifest(sweep.trial(record.trial_id)) == record


def test_a_trial_whose_node_crashed_without_a_reaction_is_incomplete(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger is sealed all the same, and the reason says what was done and what was not."""
    monkeypatch.setattr("ackbench.experiments.trial.run.TrialClients", FakeTrialClients())
    spec: TrialSpec = a_spec(fault=crash())
    manifest = run_trial(sweep, spec, MemoryCluster(detects_failures=False), Home(sweep.root))
    assert manifest.status is Status.INCOMPLETE
    reason = manifest.reason or ""
    assert reason.startswith("the fault did not take full effect: node 2 ")
    assert "crashed (SIGKILL)" in reason
    assert "kept its leader (node 2)" in reason


def test_a_trial_whose_fault_found_no_target_is_void(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was done to the cluster."""
    monkeypatch.setattr("ackbench.experiments.trial.run.TrialClients", FakeTrialClients())
    cluster = MemoryCluster()
    cluster.kill(2)
    manifest = run_trial(
        sweep,
        a_spec(fault=FaultRequest(kind="node-crash", parameters={"at_s": 0.05, "node": 2})),
        cluster,
        Home(sweep.root),
    )
    assert manifest.status is Status.VOID
    assert (manifest.reason or "").startswith(
        "the fault had no observable effect: node 2 was down already; none of the target nodes ran"
    )


def test_phases_are_in_order(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load, fault, heal, settled, healthy."""
    phases = run(sweep, FakeTrialClients(), monkeypatch, fault=crash()).phases
    assert phases.fault_begin_ns is not None
    assert phases.fault_end_ns is not None
    assert (
        phases.load_begin_ns
        < phases.fault_begin_ns
        < phases.fault_end_ns
        <= phases.settled_ns
        <= phases.healthy_ns
    )


def test_a_control_has_no_fault_phases(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault `none` neither begins nor ends."""
    phases = run(sweep, FakeTrialClients(), monkeypatch).phases
    assert (phases.fault_begin_ns, phases.fault_end_ns) == (None, None)


def test_the_evidence_has_the_parameters_and_the_time_of_the_effect(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect of a crash begins when the process was first observed to have exited."""
    record = run(sweep, FakeTrialClients(), monkeypatch, fault=crash())
    assert record.fault.parameters == crash().parameters
    assert record.phases.fault_begin_ns is not None
    assert record.phases.fault_effective_ns is not None
    assert record.phases.fault_begin_ns <= record.phases.fault_effective_ns


def test_events_of_brokers_and_clients_have_their_source(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in one table with those of the trial, the metadata poller and the stall sampler."""
    fenced = BrokerLogEvent(now_ns(), 1, "fenced", "Fencing broker 2", node=2)
    clients = FakeTrialClients(
        logged=(
            Event(
                now_ns(), "disconnected", Source.CLIENT, node=2, detail="producer 0: Disconnected"
            ),
        )
    )
    monkeypatch.setattr("ackbench.experiments.trial.run.TrialClients", clients)
    manifest = run_trial(sweep, a_spec(), MemoryCluster(log_events=(fenced,)), Home(sweep.root))
    events = (
        pq.read_table(sweep.trial(manifest.trial_id) / "events.parquet")
        .select(["source", "kind", "node"])
        .to_pylist()
    )
    assert {"source": "broker", "kind": "fenced", "node": 2} in events
    assert {"source": "client", "kind": "disconnected", "node": 2} in events
    assert {event["source"] for event in events} == {source.value for source in Source}


@pytest.mark.parametrize("step", ["begin", "flowing", "sent", "settled", "read", "tables"])
def test_a_step_that_fails_leaves_no_sealed_trial(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The folder is kept as failed, with the reason, and the clients are closed."""
    clients = FakeTrialClients(fails_at=step)
    with pytest.raises(TrialFailed, match=step):
        run(sweep, clients, monkeypatch)
    assert step in (sweep.failed("000-abcdef") / "reason.txt").read_text()
    assert list(sweep.complete_trials()) == []
    assert clients.steps[-1] == "closed"


def test_a_node_that_exited_meanwhile_is_named_with_what_was_awaited_in_vain(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose disk is full exits, and the trial waits for it; an error of its own has it."""
    exited = NodeFailed("node 2 exited with status 1, unexpectedly; its log ends:\nno room")
    clients = FakeTrialClients(fails_at="settled", error=WaitTimeout)
    cluster = MemoryCluster()
    monkeypatch.setattr("ackbench.experiments.trial.run.TrialClients", clients)

    def died(_timeout_s: float) -> ClusterState:
        if "settled" in clients.steps:
            raise exited
        return cluster.describe()

    monkeypatch.setattr(cluster, "wait_until_healthy", died)
    with pytest.raises(TrialFailed):
        run_trial(sweep, a_spec(), cluster, Home(sweep.root))
    assert str(exited) in (sweep.failed("000-abcdef") / "reason.txt").read_text()


@pytest.mark.parametrize("external", [False, True])
def test_a_fault_that_is_not_healed_after_an_interrupt_fails_on_an_external_cluster_alone(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch, *, external: bool
) -> None:
    """Any other cluster is destroyed with the run, perhaps while the fault is healed."""

    class Interrupted(HealFailed):
        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.__context__ = KeyboardInterrupt("SIGTERM")

    spec = a_spec()
    if external:
        access = ExternalAccess(addresses="localhost:9092")
        spec = spec.model_copy(update={"cluster": replace(spec.cluster, external=access)})
    monkeypatch.setattr(
        "ackbench.experiments.trial.run.TrialClients",
        FakeTrialClients(fails_at="sent", error=Interrupted),
    )
    with pytest.raises(HealFailed if external else KeyboardInterrupt):
        run_trial(sweep, spec, MemoryCluster(), Home(sweep.root))
    assert sweep.failed("000-abcdef").exists() is external


def test_an_interrupted_trial_is_not_a_failed_one(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is no failure of the harness: the next run starts the trial again."""
    with pytest.raises(KeyboardInterrupt):
        run(sweep, FakeTrialClients(fails_at="sent", error=KeyboardInterrupt), monkeypatch)
    assert not sweep.failed("000-abcdef").exists()
    assert not sweep.trial("000-abcdef").exists()
