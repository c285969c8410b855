"""The stall sampler, on processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.ledger.stalls import (
    STALLED,
    STALLS_SAMPLED,
    Stall,
    StallCause,
    StallSampling,
)
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.journal import Journal
from ackbench.experiments.trial.faults.core.context import HeldNodes
from ackbench.experiments.trial.stall_sampler import StallSampler, WatchedProcess
from ackbench.experiments.trial.stalls import MachineStalls, WakeUp
from ackbench.infra.kafka.spec import NodeStatus
from ackbench.infra.process.waiting import sleep_until, wait_until

STOPPED_S = 0.4
Process = subprocess.Popen[bytes]


def start() -> Process:
    """Start a process that waits for its input."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


@pytest.fixture
def process() -> Iterator[Process]:
    """Return a process that waits for its input."""
    with start() as waiting:
        yield waiting
        waiting.kill()


class OneNode(MemoryCluster):
    """A cluster of which node 1 is a process."""

    process: Process | None = None
    asked: int = 0

    def status(self) -> tuple[NodeStatus, ...]:
        """Return the node's status; the other nodes have no process on this machine."""
        self.asked += 1
        first, *others = super().status()
        pid = self.process.pid if self.process else None
        return (replace(first, pid=pid), *(replace(other, pid=None) for other in others))


@contextmanager
def sampled(
    *clients: WatchedProcess, node: Process | None = None, held: HeldNodes | None = None
) -> Iterator[Journal]:
    """Sample processes; yield the journal once each has been sampled."""
    journal, asked = Journal(), []

    def running() -> tuple[WatchedProcess, ...]:
        asked.append(True)
        return clients

    cluster = OneNode()
    cluster.process = node
    with StallSampler(running, cluster, held or HeldNodes(), journal):
        wait_until(lambda: len(asked) > 1, awaiting="two samples", timeout_s=60)
        yield journal


def stop(process: Process) -> None:
    """Stop a process for longer than the shortest stall, and let it go on."""
    process.send_signal(signal.SIGSTOP)
    sleep_until(time.monotonic() + STOPPED_S)
    process.send_signal(signal.SIGCONT)


def stops(journal: Journal) -> list[Stall]:
    """Return the noted stalls of processes that were stopped."""
    noted = [Stall.model_validate_json(event.detail) for event in journal.events(STALLED)]
    return [stall for stall in noted if stall.cause is StallCause.STOPPED]


def test_a_client_that_is_stopped_is_noted_with_begin_and_end(process: Process) -> None:
    """As an event of the machine, whose resolution is the time between two samples."""
    with sampled(WatchedProcess("producer 0", process.pid)) as journal:
        stop(process)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
    (stall,) = stops(journal)
    (event,) = (
        event for event in journal.events(STALLED) if event.detail == stall.model_dump_json()
    )
    assert stall.process == "producer 0"
    assert stall.ended_ns == event.at_ns > stall.began_ns
    assert (event.source, event.resolution_ns, event.node) == (Source.MACHINE, 50_000_000, None)


def test_a_stop_that_lasts_until_the_end_is_noted(process: Process) -> None:
    """The sampling ends with the trial, and the process is still stopped."""
    with sampled(WatchedProcess("consumer 0", process.pid)) as journal:
        process.send_signal(signal.SIGSTOP)
        sleep_until(time.monotonic() + STOPPED_S)
    assert [stall.process for stall in stops(journal)] == ["consumer 0"]


def test_a_client_that_the_fault_stops_is_not_noted(process: Process) -> None:
    """A member that is paused on purpose."""
    with sampled(WatchedProcess("member 1", process.pid, lambda: True)) as journal:
        stop(process)
    assert stops(journal) == []


def test_a_broker_is_noted_with_its_node_unless_a_fault_holds_it(process: Process) -> None:
    """The fault registers the node before it pauses it, and releases it before it resumes it."""
    with sampled(node=process) as journal:
        stop(process)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
    assert {stall.process for stall in stops(journal)} == {"node 1"}
    assert {event.node for event in journal.events(STALLED)} <= {1, None}

    held = HeldNodes()
    held.hold(1, "paused", "the fault")
    with sampled(node=process, held=held) as journal:
        process.send_signal(signal.SIGSTOP)
        sleep_until(time.monotonic() + STOPPED_S)
        held.release(1, "paused", "the fault")
        process.send_signal(signal.SIGCONT)
    assert stops(journal) == []


def test_a_stopped_relay_is_noted_as_a_client_is(process: Process) -> None:
    """Everything between clients and brokers passes through it."""
    cluster, journal = OneNode(relay_pid=process.pid), Journal()
    with StallSampler(tuple, cluster, HeldNodes(), journal):
        wait_until(lambda: cluster.asked, awaiting="the first look for nodes", timeout_s=60)
        stop(process)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
    assert {stall.process for stall in stops(journal)} == {"relay"}
    assert {event.resolution_ns for event in journal.events(STALLED)} == {50_000_000}


@pytest.mark.parametrize(
    ("relay_pid", "name"), [(None, "trial"), (os.getpid(), "relay")], ids=["apart", "within"]
)
def test_the_trial_that_has_the_relays_itself_is_noted_as_the_relay(
    relay_pid: int | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relays of an external cluster are a thread of the trial: what stops one stops the other."""
    names: list[str] = []

    def woke(_machine: MachineStalls, _wake_up: WakeUp, process: str) -> tuple[Stall, ...]:
        names.append(process)
        return ()

    monkeypatch.setattr(MachineStalls, "woke", woke)
    with StallSampler(tuple, OneNode(relay_pid=relay_pid), HeldNodes(), Journal()):
        wait_until(lambda: names, awaiting="a sample", timeout_s=60)
    assert set(names) == {name}


def test_a_restarted_client_is_sampled_again(process: Process) -> None:
    """Its process is another one, under the same name."""
    clients, asked, journal = [WatchedProcess("producer 0", process.pid)], [], Journal()

    def running() -> tuple[WatchedProcess, ...]:
        asked.append(clients[0])
        return tuple(clients)

    with StallSampler(running, OneNode(), HeldNodes(), journal), start() as restarted:
        process.kill()
        clients[0] = WatchedProcess("producer 0", restarted.pid)
        wait_until(lambda: clients[0] in asked, awaiting="a sample of the restart", timeout_s=60)
        stop(restarted)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
        restarted.kill()


def test_a_node_that_was_down_is_sampled_again(process: Process) -> None:
    """The fault has released it, and the cluster tells its new process only later."""
    cluster, journal = OneNode(), Journal()
    cluster.process = process
    with StallSampler(tuple, cluster, HeldNodes(), journal), start() as restarted:
        cluster.process = None
        process.kill()
        process.wait()
        wait_until(lambda: cluster.asked > 1, awaiting="another look for the node", timeout_s=60)
        cluster.process = restarted
        asked = cluster.asked
        wait_until(lambda: cluster.asked > asked, awaiting="a look for the node", timeout_s=60)
        stop(restarted)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
        restarted.kill()


def test_the_journal_says_that_stalls_were_looked_for() -> None:
    """Without a stall as well, and with what it cost: no stall is then not unknown."""
    with sampled() as journal:
        pass
    (event,) = journal.events(STALLS_SAMPLED)
    sampling = StallSampling.model_validate_json(event.detail)
    assert sampling.samples > 1
    assert sampling.cpu_s > 0
    assert sampling.unknown == ()
