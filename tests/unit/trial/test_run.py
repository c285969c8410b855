"""The trial's story without a cluster: what happens in which order, and what is kept when something fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.fakes.cluster import MemoryCluster
from support.fakes.trial_clients import MemoryBench

from experiments.errors import TrialFailed
from experiments.events.clock import now_ns
from experiments.events.journal import Event
from experiments.ledger.record import Status, TrialRecord, read_record
from experiments.ledger.schema import Source
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import FaultRequest, TrialSpec
from experiments.trial.run import run_trial
from infra.kafka.logs import BrokerLine
from infra.machine.home import Home


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return a sweep's folder, empty."""
    return SweepFolder(tmp_path / "sweep")


def run(
    sweep: SweepFolder, bench: MemoryBench, monkeypatch: pytest.MonkeyPatch, **changes: object
) -> TrialRecord:
    """Run a trial on a cluster in memory with clients in memory."""
    monkeypatch.setattr("experiments.trial.run.TrialClients", bench)
    return run_trial(sweep, a_spec(**changes), MemoryCluster(), Home(sweep.root))


def crash(restart_after_s: float = 0.2) -> FaultRequest:
    """Return a crash of the leader that is over soon."""
    return FaultRequest(
        kind="leader-crash",
        parameters={"at_s": 0.1, "restart_after_s": restart_after_s, "patience_s": 0.2},
    )


def test_the_log_is_read_after_everything_settled(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flow is seen before the fault, and the final read comes last."""
    bench = MemoryBench()
    run(sweep, bench, monkeypatch)
    assert bench.told == [
        "prepared",
        "begin",
        "flowing",
        "sent",
        "settled",
        "read",
        "tables",
        "closed",
    ]


def test_a_trial_whose_fault_bit_is_sealed(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record on disk is the one returned."""
    record = run(sweep, MemoryBench(), monkeypatch, fault=crash())
    assert record.status is Status.SEALED
    assert read_record(sweep.trial(record.trial_id)) == record


def test_a_trial_whose_fault_did_not_bite_is_void(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger is kept, with the reason."""
    monkeypatch.setattr("experiments.trial.run.TrialClients", MemoryBench())
    spec: TrialSpec = a_spec(fault=crash())
    record = run_trial(sweep, spec, MemoryCluster(notices=False), Home(sweep.root))
    assert record.status is Status.VOID
    assert "did not bite" in (record.reason or "")


def test_the_fault_lies_between_its_marks(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phases are in order: load, fault, heal, settled, whole."""
    phases = run(sweep, MemoryBench(), monkeypatch, fault=crash()).phases
    assert phases.fault_begin_ns is not None
    assert phases.fault_end_ns is not None
    assert (
        phases.load_begin_ns
        < phases.fault_begin_ns
        < phases.fault_end_ns
        <= phases.settled_ns
        <= phases.healthy_ns
    )


def test_a_control_has_no_fault_marks(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fault `none` there is nothing between before and after."""
    phases = run(sweep, MemoryBench(), monkeypatch).phases
    assert (phases.fault_begin_ns, phases.fault_end_ns) == (None, None)


def test_the_evidence_holds_what_was_asked_for_and_when_it_bit(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parameters as they were given, and the moment at which the process was first seen gone."""
    record = run(sweep, MemoryBench(), monkeypatch, fault=crash())
    assert record.fault.parameters == crash().parameters
    assert record.phases.fault_begin_ns is not None
    assert record.phases.fault_effective_ns is not None
    assert record.phases.fault_begin_ns <= record.phases.fault_effective_ns


def test_what_brokers_and_clients_wrote_is_kept_with_its_source(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what the trial and its watcher noted, in one table."""
    fenced = BrokerLine(now_ns(), 1, "fenced", "Fencing broker 2", node=2)
    bench = MemoryBench(
        events=(
            Event(
                now_ns(), "disconnected", Source.CLIENT, node=2, detail="producer 0: Disconnected"
            ),
        )
    )
    monkeypatch.setattr("experiments.trial.run.TrialClients", bench)
    record = run_trial(sweep, a_spec(), MemoryCluster(lines=(fenced,)), Home(sweep.root))
    events = (
        pq.read_table(sweep.trial(record.trial_id) / "events.parquet")
        .select(["source", "kind", "node"])
        .to_pylist()
    )
    assert {"source": "broker", "kind": "fenced", "node": 2} in events
    assert {"source": "client", "kind": "disconnected", "node": 2} in events
    assert {event["source"] for event in events} == {"trial", "metadata", "broker", "client"}


@pytest.mark.parametrize("step", ["begin", "flowing", "sent", "settled", "read", "tables"])
def test_a_step_that_fails_leaves_no_sealed_trial(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The remains carry a name and a reason, the clients are closed, and the sweep counts no whole trial."""
    bench = MemoryBench(fails_at=step)
    with pytest.raises(TrialFailed, match=step):
        run(sweep, bench, monkeypatch)
    assert step in (sweep.failed("000-abcdef") / "reason.txt").read_text()
    assert list(sweep.whole_trials()) == []
    assert bench.told[-1] == "closed"


def test_an_interrupted_trial_is_not_a_failed_one(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C says nothing about the harness: the trial is simply run again by whoever goes on."""
    with pytest.raises(KeyboardInterrupt):
        run(sweep, MemoryBench(fails_at="sent", error=KeyboardInterrupt), monkeypatch)
    assert not sweep.failed("000-abcdef").exists()
    assert not sweep.trial("000-abcdef").exists()
