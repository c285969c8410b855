"""The stall sampler, on processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

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
from ackbench.infra.process.waiting import wait_until

LONG = 4
"""So often is the sampler to ask for the clients while a process is stopped: it does each 0.2 s,
or whenever it runs on a machine with other work, and a stop that it does not see is not noted."""
Process = subprocess.Popen[bytes]


@dataclass
class Clients:
    """The trial's clients, and how often the sampler has asked for them."""

    processes: tuple[WatchedProcess, ...] = ()
    asked: int = 0

    def __call__(self) -> tuple[WatchedProcess, ...]:
        """Return them."""
        self.asked += 1
        return self.processes

    def wait(self, times: int) -> None:
        """Wait until the sampler has asked so often again."""
        before = self.asked
        wait_until(lambda: self.asked >= before + times, awaiting="more samples", timeout_s=60)


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
    *processes: WatchedProcess, node: Process | None = None, held: HeldNodes | None = None
) -> Iterator[tuple[Journal, Clients]]:
    """Sample processes; yield the journal and the clients once each has been sampled."""
    journal, clients, cluster = Journal(), Clients(processes), OneNode()
    cluster.process = node
    with StallSampler(clients, cluster, held or HeldNodes(), journal):
        clients.wait(2)
        yield journal, clients


def stop(process: Process, clients: Clients) -> None:
    """Stop a process for longer than the shortest stall, and let it go on."""
    process.send_signal(signal.SIGSTOP)
    clients.wait(LONG)
    process.send_signal(signal.SIGCONT)


def stops(journal: Journal) -> list[Stall]:
    """Return the noted stalls of processes that were stopped."""
    noted = [Stall.model_validate_json(event.detail) for event in journal.events(STALLED)]
    return [stall for stall in noted if stall.cause is StallCause.STOPPED]


def test_a_client_that_is_stopped_is_noted_with_begin_and_end(process: Process) -> None:
    """As an event of the machine, whose resolution is the time between two samples."""
    with sampled(WatchedProcess("producer 0", process.pid)) as (journal, clients):
        stop(process, clients)
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
    with sampled(WatchedProcess("consumer 0", process.pid)) as (journal, clients):
        process.send_signal(signal.SIGSTOP)
        clients.wait(LONG)
    assert [stall.process for stall in stops(journal)] == ["consumer 0"]


def test_a_client_that_the_fault_stops_is_not_noted(process: Process) -> None:
    """A member that is paused on purpose."""
    with sampled(WatchedProcess("member 1", process.pid, lambda: True)) as (journal, clients):
        stop(process, clients)
    assert stops(journal) == []


def test_a_broker_is_noted_with_its_node_unless_a_fault_holds_it(process: Process) -> None:
    """The fault registers the node before it pauses it, and releases it before it resumes it."""
    with sampled(node=process) as (journal, clients):
        stop(process, clients)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
    assert {stall.process for stall in stops(journal)} == {"node 1"}
    assert {event.node for event in journal.events(STALLED)} <= {1, None}

    held = HeldNodes()
    held.hold(1, "paused", "the fault")
    with sampled(node=process, held=held) as (journal, clients):
        process.send_signal(signal.SIGSTOP)
        clients.wait(LONG)
        held.release(1, "paused", "the fault")
        process.send_signal(signal.SIGCONT)
    assert stops(journal) == []


def test_a_stopped_relay_is_noted_as_a_client_is(process: Process) -> None:
    """Everything between clients and brokers passes through it."""
    cluster, journal, clients = OneNode(relay_pid=process.pid), Journal(), Clients()
    with StallSampler(clients, cluster, HeldNodes(), journal):
        clients.wait(2)
        stop(process, clients)
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
    clients, journal = Clients((WatchedProcess("producer 0", process.pid),)), Journal()
    with StallSampler(clients, OneNode(), HeldNodes(), journal), start() as restarted:
        process.kill()
        clients.processes = (WatchedProcess("producer 0", restarted.pid),)
        clients.wait(2)
        stop(restarted, clients)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
        restarted.kill()


def test_a_node_that_was_down_is_sampled_again(process: Process) -> None:
    """The fault has released it, and the cluster tells its new process only later."""
    cluster, journal, clients = OneNode(), Journal(), Clients()
    cluster.process = process
    with StallSampler(clients, cluster, HeldNodes(), journal), start() as restarted:
        cluster.process = None
        process.kill()
        process.wait()
        wait_until(lambda: cluster.asked > 1, awaiting="another look for the node", timeout_s=60)
        cluster.process = restarted
        asked = cluster.asked
        wait_until(lambda: cluster.asked > asked, awaiting="a look for the node", timeout_s=60)
        stop(restarted, clients)
        wait_until(lambda: stops(journal), awaiting="the event of the stall", timeout_s=60)
        restarted.kill()


def test_the_journal_says_that_stalls_were_looked_for() -> None:
    """Without a stall as well, and with what it cost: no stall is then not unknown."""
    with sampled() as (journal, _):
        pass
    (event,) = journal.events(STALLS_SAMPLED)
    sampling = StallSampling.model_validate_json(event.detail)
    assert sampling.samples > 1
    assert sampling.cpu_s > 0
    assert sampling.unknown == ()


COMPUTES = "input()\nfor _ in range(3_000_000): pass\nprint(flush=True)\ninput()"
"""When asked, takes several ticks of CPU time, says so, and waits."""
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
"""The work before it waits may end a tick."""


@contextmanager
def computing() -> Iterator[Process]:
    """Start a process that computes when it is asked."""
    command = [sys.executable, "-c", COMPUTES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def compute(process: Process) -> None:
    """Ask a process to compute, and wait until it has."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.stdout.readline()


def cpu_ns(journal: Journal) -> dict[str, int]:
    """Return the CPU time that the sampling of a journal counted."""
    (event,) = journal.events(STALLS_SAMPLED)
    return StallSampling.model_validate_json(event.detail).cpu_ns


def test_the_cpu_time_that_a_client_took_before_the_load_does_not_count() -> None:
    """What it takes in the load does."""
    with computing() as before, computing() as meanwhile:
        compute(before)
        clients = (WatchedProcess("before", before.pid), WatchedProcess("meanwhile", meanwhile.pid))
        with sampled(*clients) as (journal, sampler):
            compute(meanwhile)
            sampler.wait(1)
    assert cpu_ns(journal)["before"] <= TICK_NS < cpu_ns(journal)["meanwhile"]


def test_a_node_that_starts_again_counts_with_its_start(process: Process) -> None:
    """All that its new process has taken when it is seen first."""
    cluster, journal, clients = OneNode(), Journal(), Clients()
    cluster.process = process
    with computing() as restarted:
        compute(restarted)
        with StallSampler(clients, cluster, HeldNodes(), journal):
            cluster.process = restarted
            process.kill()
            process.wait()
            wait_until(lambda: cluster.asked > 1, awaiting="a look for the node", timeout_s=60)
            clients.wait(2)
    assert cpu_ns(journal)["node 1"] > 0
