"""A sweep in the middle of a trial, with planted files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders.live_trials import (
    BEGIN_NS,
    MS,
    PlantedAttempts,
    a_running_sweep,
    begin_trial,
    note,
    receive,
)
from support.builders.records import a_spec, no_rows, record_of

from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.pages.live.sweep import LiveSweep, SweepFollower
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, TrialSpec
from ackbench.experiments.trial.clients.producer.attempts import SENT
from ackbench.infra.machine.home import Home

CELL = "acks=1 idem=off RF=3 P=3 leader-crash restart_after_s=2 <&>"


def cell_spec(number: int) -> TrialSpec:
    """Return one of the trials."""
    spec = a_spec(
        trial_id=f"{number:03d}-abcdef",
        order=number,
        label=CELL,
        partitions=3,
        fault=FaultRequest(kind="leader-crash"),
    )
    load = spec.workload.model_copy(update={"duration_s": 10.0})
    return spec.model_copy(update={"workload": load, "topic": {"min.insync.replicas": "2"}})


def plant_load(clients: Path, seconds: float) -> None:
    """Write a load of 1,000 records/s with an outage of partition 0 from 4.0 to 5.2 s."""
    count = round(seconds * 1000)
    attempts = PlantedAttempts(clients, 10_000)
    attempts.send(0, list(range(count)), SENT)
    for seq in range(count):
        is_out = seq % 3 == 0 and 4_000 <= seq < 5_200
        latency_ms = 5_200 - seq if is_out else 3
        if seq + latency_ms < count:
            attempts.settle([seq], latency_ms)
    settled = [seq for seq in range(count - 20) if not (seq % 3 == 0 and 4_000 <= seq < 5_200)]
    receive(clients / "consumer-0.reads", [seq + 8 for seq in settled])


def plant_events(sweep: SweepFolder, spec: TrialSpec) -> None:
    """Write the journal of that load: the leader of partition 0 crashes and comes back."""
    events = [{"kind": "load_begin", "at_ns": BEGIN_NS}]
    for partition, leader in enumerate((1, 2, 3)):
        events += [
            {"kind": "leader", "at_ns": BEGIN_NS - MS, "node": leader, "partition": partition},
            {"kind": "isr", "at_ns": BEGIN_NS - MS, "partition": partition, "detail": "1,2,3"},
        ]
    events += [
        {"kind": "fault_begin", "at_ns": BEGIN_NS + 4_000 * MS},
        {"kind": "fault_effective", "at_ns": BEGIN_NS + 4_010 * MS},
        {"kind": "leader", "at_ns": BEGIN_NS + 4_300 * MS, "node": None, "partition": 0},
        {"kind": "leader", "at_ns": BEGIN_NS + 5_200 * MS, "node": 2, "partition": 0},
        {"kind": "isr", "at_ns": BEGIN_NS + 5_200 * MS, "partition": 0, "detail": "2"},
        {"kind": "isr", "at_ns": BEGIN_NS + 5_900 * MS, "partition": 0, "detail": "2,3"},
        {"kind": "fault_end", "at_ns": BEGIN_NS + 6_100 * MS},
    ]
    note(sweep, spec, *events)


def end_trial(sweep: SweepFolder, spec: TrialSpec, evidence: str) -> None:
    """Seal a trial."""
    planned = record_of(spec, end_offsets={0: 3_400, 1: 3_300, 2: 3_300})
    fault = planned.fault.model_copy(update={"evidence": (evidence,)})
    record = planned.model_copy(update={"fault": fault})
    partial = sweep.partial(spec.trial_id)
    partial.mkdir(parents=True, exist_ok=True)
    seal(partial, sweep.trial(spec.trial_id), record, no_rows())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home whose only sweep is in its second trial, 7 s after the begin of the load."""
    home = Home(tmp_path / "home")
    specs = tuple(map(cell_spec, range(4)))
    sweep = a_running_sweep(home.sweeps, specs)
    end_trial(sweep, specs[0], "node 1 was the leader of partition 0 and exited after SIGKILL")
    clients = begin_trial(sweep, specs[1])
    plant_load(clients, 7.0)
    plant_events(sweep, specs[1])
    return home


@pytest.fixture
def live(home: Home, monkeypatch: pytest.MonkeyPatch) -> LiveSweep:
    """Return that sweep as it is read 7 s after the begin of the load."""
    monkeypatch.setattr("time.time_ns", lambda: BEGIN_NS + 7_000 * MS)
    follower = SweepFollower(SweepFolder(home.sweeps / "quick-20260101T000000-abcd"))
    read = follower.read()
    follower.close()
    return read
