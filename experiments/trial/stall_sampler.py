"""Samples the processes of a trial and its machine while it runs: their stalls are events.

The event that ends the sampling has the CPU time that each process took meanwhile.
What the trial's fault stops or pauses on purpose is no stall.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, Self

from ackbench.experiments.ledger.stalls import (
    HARNESS,
    RELAY,
    STALLED,
    STALLS_SAMPLED,
    Stall,
    StallSampling,
    node_name,
)
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.clock import epoch_ns, now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults.core.context import HeldNodes
from ackbench.experiments.trial.stalls import MachineStalls, ProcessStalls, WakeUp, any_ran
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.samples import (
    MachineSample,
    MachineSampler,
    ProcessSampler,
    own_thread_wait_ns,
)

EVERY_NS: Final = 50_000_000
SLOWLY_EVERY: Final = 4
"""Brokers and the machine are sampled once in this many samples: a broker has dozens of threads,
and the kernel needs long for what it counts of the machine."""
_SLOWLY_NS: Final = SLOWLY_EVERY * EVERY_NS
_LOOK_FOR_NODES_S: Final = 1.0
_JOIN_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class WatchedProcess:
    """A process whose stalls are noted."""

    name: str
    pid: int
    is_held: Callable[[], bool] = lambda: False
    """Whether the trial's fault keeps it from running now."""
    node: int | None = None
    """`None`: it is a client, or the relays."""


@dataclass
class _Watch:
    """A process that is sampled."""

    process: WatchedProcess
    sampler: ProcessSampler | None
    """`None`: the process has ended."""
    stalls: ProcessStalls


def _relays_of(cluster: Cluster) -> tuple[str, tuple[WatchedProcess, ...]]:
    """Return the name of the trial's own process, and the process of the relays to watch, if any.

    The trial's own process cannot see itself stopped: it wakes up late.
    """
    if cluster.relay_pid is None:
        return HARNESS, ()
    if cluster.relay_pid == os.getpid():
        return RELAY, ()
    return HARNESS, (WatchedProcess(RELAY, cluster.relay_pid),)


class StallSampler:
    """A context manager around a thread that samples, and notes stalls in the journal.

    Args:
        clients: returns the trial's client processes, as they are now.
        cluster: its nodes and relays are sampled, if they are processes of this machine.
        held: the nodes that the trial's fault keeps down or paused.
        journal: the trial's.
    """

    def __init__(
        self,
        clients: Callable[[], Sequence[WatchedProcess]],
        cluster: Cluster,
        held: HeldNodes,
        journal: Journal,
    ) -> None:
        self._clients, self._cluster, self._held, self._journal = clients, cluster, held, journal
        self._current_clients: Sequence[WatchedProcess] = ()
        self._nodes: dict[int, WatchedProcess] = {}
        self._own_name, self._relays = _relays_of(cluster)
        self._looked_for_nodes_s = 0.0
        self._watches: dict[str, _Watch] = {}
        self._cpu_ns: Counter[str] = Counter()
        self._unknown: set[str] = set()
        self._machine = MachineSampler()
        self._machine_stalls = MachineStalls(now_ns())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Look for the nodes, then sample in the background."""
        self._look_for_nodes()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop after the current sample."""
        self._ended.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        due_s, waited_ns = time.monotonic(), own_thread_wait_ns()
        samples = 0
        for samples in count(1):
            at_ns, now_waited_ns = now_ns(), own_thread_wait_ns()
            own_ns = (
                None if waited_ns is None or now_waited_ns is None else now_waited_ns - waited_ns
            )
            clients_ran = any_ran(self._sample_processes(at_ns, slowly=samples % SLOWLY_EVERY == 1))
            wake_up = WakeUp(at_ns, min(at_ns, epoch_ns(due_s)), own_ns, clients_ran)
            self._note(self._machine_stalls.woke(wake_up, self._own_name))
            waited_ns = now_waited_ns
            due_s = max(due_s + EVERY_NS / 1e9, time.monotonic())
            if self._ended.wait(max(0.0, due_s - time.monotonic())):
                break
        for watch in self._watches.values():
            self._end(watch, now_ns())
        self._note(self._machine_stalls.observe(now_ns(), MachineSample()), _SLOWLY_NS)
        sampling = StallSampling(
            samples=samples,
            unknown=tuple(sorted(self._unknown)),
            cpu_s=time.thread_time(),
            cpu_ns=self._cpu_ns,
        )
        self._journal.observe(
            Event(now_ns(), STALLS_SAMPLED, Source.MACHINE, detail=sampling.model_dump_json())
        )

    def _sample_processes(self, at_ns: int, *, slowly: bool) -> Iterator[bool | None]:
        """Take a sample of each process; yield whether each client ran as often as usual."""
        if slowly:
            self._current_clients = self._clients()
            of_machine = self._machine.sample()
            self._unknown.update(of_machine.unknown())
            self._note(self._machine_stalls.observe(at_ns, of_machine), _SLOWLY_NS)
        nodes = self._current_nodes() if slowly else ()
        for process in (*self._current_clients, *self._relays, *nodes):
            watch = self._watch(process, at_ns)
            if watch.sampler is None:
                continue
            sample = watch.sampler.sample()
            if sample is None:
                self._end(watch, at_ns)
                continue
            self._cpu_ns[process.name] += sample.cpu_ns
            self._note_of(process, watch.stalls.observe(at_ns, sample))
            if process.node is None:
                yield watch.stalls.ran

    def _watch(self, process: WatchedProcess, at_ns: int) -> _Watch:
        """Return the watch of a process; a new one, if its process is another one than before."""
        watch = self._watches.get(process.name)
        if watch is None or watch.process.pid != process.pid:
            if watch is not None:
                self._end(watch, at_ns)
            sampler = ProcessSampler.of(process.pid)
            if sampler is not None and not sampler.counts_runs:
                self._unknown.add(f"the run-queue delay of {process.name}")
            if sampler is not None:  # what it took before the load counts if it began in the load
                self._cpu_ns[process.name] += 0 if watch is None else sampler.cpu_ns
            watch = _Watch(process, sampler, ProcessStalls(process.name, process.is_held, at_ns))
            self._watches[process.name] = watch
        return watch

    def _end(self, watch: _Watch, at_ns: int) -> None:
        if watch.sampler is not None:
            watch.sampler.close()
            watch.sampler = None
            self._note_of(watch.process, watch.stalls.end(at_ns))

    def _current_nodes(self) -> Iterable[WatchedProcess]:
        """Return the nodes' processes; ask the cluster again when one has ended, but not often."""
        may_be_back = any(
            (watch := self._watches.get(node.name)) and not watch.sampler and not node.is_held()
            for node in self._nodes.values()
        )
        if may_be_back and time.monotonic() - self._looked_for_nodes_s >= _LOOK_FOR_NODES_S:
            self._look_for_nodes()
        return self._nodes.values()

    def _look_for_nodes(self) -> None:
        """Ask the cluster for its nodes' processes; those of an external one are unknown.

        A node that has none now stays known, so that it is looked for again.
        """
        self._looked_for_nodes_s = time.monotonic()
        with suppress(HarnessError):  # what is known so far is sampled
            for status in self._cluster.status():
                node, pid = status.node_id, status.pid
                if pid is not None:
                    held = partial(self._held.holds, node)
                    self._nodes[node] = WatchedProcess(node_name(node), pid, held, node)

    def _note_of(self, process: WatchedProcess, stalls: Iterable[Stall]) -> None:
        self._note(stalls, EVERY_NS if process.node is None else _SLOWLY_NS, process.node)

    def _note(
        self, stalls: Iterable[Stall], resolution_ns: int = EVERY_NS, node: int | None = None
    ) -> None:
        for stall in stalls:
            self._journal.observe(
                Event(
                    stall.ended_ns,
                    STALLED,
                    Source.MACHINE,
                    resolution_ns,
                    node,
                    detail=stall.model_dump_json(),
                )
            )
