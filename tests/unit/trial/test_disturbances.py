"""Processes that die of something else: a trial that is complete is void, another one fails.

The cluster is in memory; `tests/cluster/test_disturbances.py` has real processes.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.fakes.cluster import MemoryCluster, MemoryMetadataPoller
from support.fakes.trial_clients import FakeTrialClients

from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Status, TrialManifest
from ackbench.experiments.messages.errors import TrialFailed
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core import FaultContext, FaultParameters
from ackbench.experiments.trial.faults.core.kind import FaultKind
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.interface import MetadataSnapshot
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.exits import ProcessExit

CRASH = FaultRequest(
    kind="leader-crash", parameters={"at_s": 0.05, "restart_after_s": 0.1, "patience_s": 0.2}
)
"""Of node 2, the leader."""


@dataclass
class DisturbedClients(FakeTrialClients):
    """Clients that take notice of a step, at which something exits."""

    at: str = "sent"
    disturb: Callable[[], object] = field(default=lambda: None)

    def _step(self, step: str) -> None:
        super()._step(step)
        if step == self.at:
            self.disturb()


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return the folder of a sweep without trials."""
    return SweepFolder(tmp_path / "sweep")


@pytest.fixture
def run(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> Callable[[MemoryCluster, FakeTrialClients, FaultRequest], TrialManifest]:
    """Return a function that runs a trial on a fake cluster with fake clients."""

    def one(
        cluster: MemoryCluster, clients: FakeTrialClients, fault: FaultRequest
    ) -> TrialManifest:
        monkeypatch.setattr("ackbench.experiments.trial.run.TrialClients", clients)
        return run_trial(sweep, a_spec(fault=fault), cluster, Home(sweep.root))

    return one


Run = Callable[[MemoryCluster, FakeTrialClients, FaultRequest], TrialManifest]
NONE = FaultRequest(kind="none")


def test_a_broker_that_died_of_something_else_makes_the_trial_void(
    run: Run, sweep: SweepFolder
) -> None:
    """Although its fault took effect; the broker is started again, and the ledger is complete."""
    cluster = MemoryCluster()
    record = run(cluster, DisturbedClients(disturb=lambda: cluster.crash(3)), CRASH)
    assert (record.status, record.fault.took_effect) == (Status.VOID, True)
    assert record.reason == record.disturbances[0]
    assert re.fullmatch(
        r"node 3 exited by SIGKILL \d\.\d s into the load, which the fault did not ask for",
        record.disturbances[0],
    )
    assert set(cluster.states.values()) == {"running"}
    assert read_trial_manifest(sweep.trial(record.trial_id)) == record
    events = pq.read_table(sweep.trial(record.trial_id) / "events.parquet").to_pylist()
    assert [(one["node"], one["detail"]) for one in events if one["kind"] == "exited"] == [
        (3, "node 3 exited by SIGKILL")
    ]


def test_the_disturbance_comes_before_a_fault_without_effect(run: Run) -> None:
    """Whatever the fault did or did not do, the reason to look at is the process that died."""
    cluster = MemoryCluster(detects_failures=False)
    record = run(cluster, DisturbedClients(disturb=lambda: cluster.crash(1)), CRASH)
    assert (record.reason or "").startswith("node 1 exited by SIGKILL")
    assert "; the fault did not take full effect: " in (record.reason or "")


def test_without_a_fault_it_is_the_trial_that_did_not_ask(run: Run) -> None:
    """A control is disturbed as well, at any time until its ledger is complete."""
    cluster = MemoryCluster()
    record = run(cluster, DisturbedClients(at="read", disturb=lambda: cluster.crash(1)), NONE)
    assert record.status is Status.VOID
    assert (record.reason or "").endswith("s into the load, which the trial did not ask for")


def test_an_exit_in_an_earlier_trial_is_none_of_this_one(run: Run) -> None:
    """Trials share a cluster, and its supervisor keeps every exit."""
    cluster = MemoryCluster()
    cluster.crash(3)
    cluster.start(3)
    record = run(cluster, FakeTrialClients(), NONE)
    assert (record.status, record.disturbances) == (Status.SEALED, ())


def test_a_trial_that_fails_names_the_broker_that_died_first(run: Run, sweep: SweepFolder) -> None:
    """What was awaited in vain is the consequence."""
    cluster = MemoryCluster()
    clients = DisturbedClients(
        fails_at="settled", error=WaitTimeout, disturb=lambda: cluster.crash(3)
    )
    with pytest.raises(
        TrialFailed, match=r"\): node 3 exited by SIGKILL \d\.\d s into the load, which .*; settled"
    ):
        run(cluster, clients, NONE)
    assert "WaitTimeout: node 3 exited" in (sweep.failed("000-abcdef") / "reason.txt").read_text()


def test_a_trial_that_fails_names_the_client_that_died_first(run: Run) -> None:
    """The time of its exit is not known, only that it has exited."""
    clients = FakeTrialClients(
        fails_at="flowing", error=WaitTimeout, exits=("producer 0 exited by SIGSEGV",)
    )
    with pytest.raises(
        TrialFailed,
        match=r"\): producer 0 exited by SIGSEGV, which the trial did not ask for; flowing",
    ):
        run(MemoryCluster(), clients, NONE)


def test_an_error_that_names_the_client_that_died_is_enough(run: Run) -> None:
    """It is not repeated."""

    class Died(WaitTimeout):
        def __init__(self, _step: str) -> None:
            super().__init__("producer 0 exited by SIGSEGV; its stderr ends with: x")

    clients = FakeTrialClients(
        fails_at="settled", error=Died, exits=("producer 0 exited by SIGSEGV",)
    )
    with pytest.raises(TrialFailed, match=r"\): producer 0 exited by SIGSEGV; its stderr"):
        run(MemoryCluster(), clients, NONE)


def test_a_supervisor_that_has_ended_is_the_first_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes ended with it."""

    def unreachable() -> tuple[ProcessExit, ...]:
        raise SupervisorError("cannot reach the supervisor of c")

    cluster = MemoryCluster()
    clients = DisturbedClients(
        fails_at="flowing",
        at="begin",
        error=WaitTimeout,
        disturb=lambda: monkeypatch.setattr(cluster, "unexpected_exits", unreachable),
    )
    with pytest.raises(TrialFailed, match=r"\): cannot reach the supervisor of c; flowing"):
        run(cluster, clients, NONE)


@pytest.mark.parametrize(
    ("node", "status", "expected"),
    [(2, 1, Status.SEALED), (3, 1, Status.VOID), (2, -signal.SIGKILL, Status.VOID)],
)
def test_a_fault_whose_target_may_exit_declares_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, node: int, status: int, expected: Status
) -> None:
    """A broker halts when its disk is full; another does not, and SIGKILL comes from outside."""
    cluster = MemoryCluster()

    def inject(context: FaultContext, _parameters: FaultParameters) -> FaultEvidence:
        with context.injected(2):
            cluster.crash(node, status)
            cluster.start(node)
        return FaultEvidence(kind="disk-full", targets=(2,), took_effect=True)

    declared = FAULTS["disk-full"]
    assert declared.may_exit == "targets"
    faults = {**FAULTS, "disk-full": _with_injection(declared, inject)}
    monkeypatch.setattr("ackbench.experiments.trial.faults.composition.execution.FAULTS", faults)
    record = run(cluster, FakeTrialClients(), FaultRequest(kind="disk-full"))
    assert record.status is expected


def test_a_target_that_exits_after_its_fault_was_healed_died_of_something_else(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declaration holds while the fault lasts."""
    cluster = MemoryCluster()

    def inject(context: FaultContext, _parameters: FaultParameters) -> FaultEvidence:
        with context.injected(2):
            pass
        return FaultEvidence(kind="disk-full", targets=(2,), took_effect=True)

    faults = {**FAULTS, "disk-full": _with_injection(FAULTS["disk-full"], inject)}
    monkeypatch.setattr("ackbench.experiments.trial.faults.composition.execution.FAULTS", faults)
    clients = DisturbedClients(disturb=lambda: cluster.crash(2, 1))
    record = run(cluster, clients, FaultRequest(kind="disk-full"))
    assert (record.status, len(record.disturbances)) == (Status.VOID, 1)


def _with_injection(
    kind: FaultKind, inject: Callable[[FaultContext, FaultParameters], FaultEvidence]
) -> FaultKind:
    return FaultKind(
        kind.kind,
        kind.family,
        kind.summary,
        FaultParameters,
        inject,
        kind.effects,
        may_exit=kind.may_exit,
    )


def test_a_metadata_poller_that_ends_early_makes_the_trial_void(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would have seen from then on is missing."""
    polled = threading.Semaphore()
    failed = threading.Event()

    def fail_at_the_second_poll(_poller: MemoryMetadataPoller) -> MetadataSnapshot:
        if polled.acquire(blocking=False):
            return MetadataSnapshot((), 0.0)
        failed.set()
        raise ValueError("no such field")

    monkeypatch.setattr(MemoryMetadataPoller, "partitions", fail_at_the_second_poll)
    record = run(MemoryCluster(), DisturbedClients(disturb=lambda: failed.wait(10)), NONE)
    assert record.status is Status.VOID
    assert (record.reason or "").startswith(
        "the metadata poller exited (ValueError('no such field')) "
    )
