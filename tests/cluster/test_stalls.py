"""Clients that something else stops during a load without a fault: no outage, and a mark."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.measured import measure_ledger

from ackbench.experiments.ledger.result_terms import MIN_OUTAGE_NS, Side
from ackbench.experiments.ledger.stalls import (
    STALLED,
    STALLS_SAMPLED,
    Stall,
    StallCause,
    StallSampling,
)
from ackbench.experiments.ledger.trial_manifest import Keys, TrialManifest
from ackbench.experiments.results.stalls import stall_sentence, stalls_under_load
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Workload
from ackbench.experiments.trial.clients.producer.process import ProducerProcess
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.run import run_trial
from ackbench.experiments.trial.trial_clients import TrialClients
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec, NetworkKind
from ackbench.infra.machine.home import Home
from ackbench.infra.process.processes import is_stopped
from ackbench.infra.process.waiting import sleep_until, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.further]
STOPPED_S = 1.2
LOAD = Workload(
    rate_records_per_s=1000, record_size_bytes=100, duration_s=8, keys=Keys(count=0), producers=1
)
"""On a busy machine the first acknowledgement, which a process is stopped after, takes seconds."""
Run = Callable[..., "Ran"]


class Ran:
    """A sealed trial and its results."""

    def __init__(self, manifest: TrialManifest, folder: Path) -> None:
        self.manifest, self.folder = manifest, folder
        self.tables = {
            name: table.to_pylist() for name, table in measure_ledger(folder.parent.parent).items()
        }

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the trial's rows of a result table."""
        return [row for row in self.tables[table] if row["trial_id"] == self.manifest.trial_id]

    def gaps(self, side: Side) -> list[dict[str, Any]]:
        """Return the gaps of a side, stalls included, that lasted as long as an outage."""
        return [
            gap
            for gap in self.rows("gaps")
            if gap["side"] == side and gap["gap_ns"] + gap["stalled_ns"] >= MIN_OUTAGE_NS
        ]

    def stalls(self) -> list[Stall]:
        """Return the stalls that the trial noted."""
        events = pq.read_table(self.folder / "events.parquet").to_pylist()
        return [
            Stall.model_validate_json(event["detail"])
            for event in events
            if event["kind"] == STALLED
        ]

    def sampling(self) -> StallSampling:
        """Return how the trial looked for stalls."""
        events = pq.read_table(self.folder / "events.parquet").to_pylist()
        (event,) = (event for event in events if event["kind"] == STALLS_SAMPLED)
        return StallSampling.model_validate_json(event["detail"])


def stop(pid: int, clients: TrialClients) -> None:
    """Stop a process that the test started while records are acknowledged, and let it go on.

    A gap begins with a record that waits for an acknowledgement. A producer that is stopped while
    none does has no gap: then it continues, and is stopped again.
    """
    (producer,) = clients.producers
    assert isinstance(producer, ProducerProcess)
    wait_until(lambda: producer.acked_records() > 0, awaiting="an acknowledgement", timeout_s=30)

    def is_stopped_with_waiting_records() -> bool:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid), awaiting="a stopped process", timeout_s=30)
        if producer.unsettled_records() > 1 or pid != producer.pid:
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    wait_until(
        is_stopped_with_waiting_records,
        awaiting="records that wait for an acknowledgement",
        timeout_s=30,
        every_s=0.003,
    )
    sleep_until(time.monotonic() + STOPPED_S)
    os.kill(pid, signal.SIGCONT)


class ProducerStopped(TrialClients):
    """A trial's clients, of which the producer is stopped during the load."""

    def wait_until_sent(self, load_begin_ns: int) -> None:
        """Stop the producer, then wait as usual."""
        stop(self.producers[0].pid, self)
        super().wait_until_sent(load_begin_ns)


class ConsumerStopped(TrialClients):
    """A trial's clients, of which the concurrent consumer is stopped during the load."""

    def wait_until_sent(self, load_begin_ns: int) -> None:
        """Stop the consumer, then wait as usual."""
        stop(self.consumer.pid, self)
        super().wait_until_sent(load_begin_ns)


@pytest.fixture(scope="module", params=["loopback"])
def network(request: pytest.FixtureRequest) -> NetworkKind:
    """What connects the clients to the broker."""
    kind: NetworkKind = request.param
    return kind


@pytest.fixture(scope="module")
def run(
    cache: Path, tmp_path_factory: pytest.TempPathFactory, network: NetworkKind
) -> Iterator[Run]:
    """Return a function that runs a trial on one shared broker."""
    folder = tmp_path_factory.mktemp("stalls")
    spec = ClusterSpec(nodes=1, network=network)
    cluster = provision(folder / "clusters", cache, "stalls", spec)

    def one(trial_id: str, clients: type[TrialClients], **changes: object) -> Ran:
        spec = a_spec(
            trial_id=trial_id,
            replication_factor=1,
            producer=producer_settings({"acks": "all"}),
            consumer=consumer_settings({}),
            topic={"min.insync.replicas": "1"},
            workload=LOAD,
            **changes,
        )
        sweep = SweepFolder(folder / trial_id / spec.sweep_id)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ackbench.experiments.trial.run.TrialClients", clients)
            manifest = run_trial(sweep, spec, cluster, Home(folder / "home"))
        return Ran(manifest, sweep.trial(trial_id))

    yield one
    cluster.destroy()


def is_stop(stall: Stall, process: str) -> bool:
    """Return whether a stall is that of the test."""
    return stall.process == process and stall.cause is StallCause.STOPPED


def test_a_stopped_producer_makes_no_outage_and_is_named(run: Run) -> None:
    """It acknowledges nothing for longer than an outage lasts, and no fault was injected."""
    ran = run("000-producer", ProducerStopped)
    (stall,) = (stall for stall in ran.stalls() if is_stop(stall, "producer 0"))
    assert ran.gaps(Side.PRODUCER)
    assert all(gap["gap_ns"] < MIN_OUTAGE_NS for gap in ran.rows("gaps"))
    (row,) = ran.rows("trials")
    assert row["producer_stalled_ns"] >= stall.ended_ns - stall.began_ns > 0.9 * STOPPED_S * 1e9
    named = stalls_under_load(ran.manifest.phases, ran.rows("stalls"))
    assert stall in named
    begin_ns = ran.manifest.phases.load_begin_ns
    assert stall_sentence(stall, begin_ns).startswith("producer 0 was stopped for 1.")


@pytest.mark.further
def test_a_stopped_consumer_makes_no_outage_and_is_named(run: Run) -> None:
    """The partition acknowledges records meanwhile."""
    ran = run("001-consumer", ConsumerStopped)
    (stall,) = (stall for stall in ran.stalls() if is_stop(stall, "consumer 0"))
    assert ran.gaps(Side.CONSUMER)
    assert not ran.gaps(Side.PRODUCER)
    assert all(gap["gap_ns"] < MIN_OUTAGE_NS for gap in ran.rows("gaps"))
    (row,) = ran.rows("trials")
    assert row["consumer_stalled_ns"] >= stall.ended_ns - stall.began_ns > 0.9 * STOPPED_S * 1e9


def test_a_broker_that_the_fault_pauses_is_no_stall(run: Run) -> None:
    """The gap stays Kafka's."""
    pause = FaultRequest(kind="leader-pause", parameters={"at_s": 1.0, "pause_s": 1.5})
    ran = run("002-paused", TrialClients, fault=pause)
    assert not [stall for stall in ran.stalls() if stall.cause is StallCause.STOPPED]
    assert ran.gaps(Side.PRODUCER)
    assert ran.sampling().samples > 0
    assert ran.sampling().unknown == ()


class RelayStopped(TrialClients):
    """A trial's clients, whose relays are stopped during the load."""

    def wait_until_sent(self, load_begin_ns: int) -> None:
        """Stop the relays' process, then wait as usual."""
        (supervisor,) = [
            child
            for child in psutil.Process().children()
            if "ackbench.infra.cluster.supervisor" in child.cmdline()
        ]
        stop(supervisor.pid, self)
        super().wait_until_sent(load_begin_ns)


@pytest.mark.further
@pytest.mark.parametrize("network", ["relays"], indirect=True)
def test_stopped_relays_make_no_outage_and_are_named(run: Run) -> None:
    """All that clients send and receive passes through them: the pause is not Kafka's."""
    ran = run("000-relay", RelayStopped)
    (stall,) = (stall for stall in ran.stalls() if is_stop(stall, "relay"))
    assert ran.gaps(Side.PRODUCER)
    assert all(gap["gap_ns"] < MIN_OUTAGE_NS for gap in ran.rows("gaps"))
    (row,) = ran.rows("trials")
    assert row["producer_stalled_ns"] >= stall.ended_ns - stall.began_ns > 0.9 * STOPPED_S * 1e9
    assert row["consumer_stalled_ns"] >= stall.ended_ns - stall.began_ns
    assert stall in stalls_under_load(ran.manifest.phases, ran.rows("stalls"))
