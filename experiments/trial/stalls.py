"""Stalls in samples of a trial's processes and its machine. Pure: no file is read here.

A stall is kept if it lasted for `MIN_STALL_NS`. It begins with the first sample that shows it, and
ends with the first one that does not: its length is exact to the time between two samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ackbench.experiments.ledger.stalls import HARNESS, MACHINE, Stall, StallCause
from ackbench.infra.process.samples import MachineSample, ProcessSample

MIN_STALL_NS: Final = 100_000_000
"""A tenth of an outage. A process of a busy machine waits for less many times in each second."""
LONG_WAIT_NS: Final = 50_000_000
"""How much longer than the time between two samples a process must have waited for a CPU within it.
Then one of its waits was at least so long; shorter ones may add up to the time between samples."""
FAULTS_PER_S: Final = 1000
"""A process with more major page faults than this does little else: each takes a tenth of a
millisecond or more."""
SWAPPED_IN_PAGES_PER_S: Final = 5000
STOLEN_SHARE: Final = 0.8
FEWEST_RUNS_PER_S: Final = 20.0
"""A client that runs less often tells nothing about whether the machine was frozen."""
USUAL_WITHIN_NS: Final = 1_000_000_000
"""How often a client runs changes: with the load, and when it is over. What counts is the last
second."""
_STOPPED: Final = "Tt"
_WAITS_FOR_DISK: Final = "D"


@dataclass
class _Spell:
    """Samples in turn that show the same."""

    since_ns: int | None = None
    amount: int = 0

    def observe(self, shows: bool, from_ns: int, amount: int = 0) -> tuple[int, int, int] | None:
        """Return begin, end and amount of a spell that has ended; `None`: none has, or too short.

        Args:
            shows: whether this sample shows it.
            from_ns: from when on it does, or does not.
            amount: what it adds.
        """
        if shows:
            self.since_ns = from_ns if self.since_ns is None else self.since_ns
            self.amount += amount
            return None
        since_ns, total = self.since_ns, self.amount
        self.forget()
        if since_ns is None or from_ns - since_ns < MIN_STALL_NS:
            return None
        return since_ns, from_ns, total

    def forget(self) -> None:
        """End the spell, whatever its length."""
        self.since_ns, self.amount = None, 0


@dataclass
class ProcessStalls:
    """Finds the stalls of one process, which may be restarted with another pid."""

    name: str
    is_held: Callable[[], bool]
    """Whether the trial's fault keeps the process from running now."""
    at_ns: int
    """When it was last sampled."""
    ran: bool | None = None
    """Whether it ran as often as usual before that; `None`: unknown, or it usually runs rarely."""
    _runs_per_s: float = 0.0
    """How often it usually got a CPU: the later a sample, the more it counts."""
    _stopped: _Spell = field(default_factory=_Spell)
    _held: bool = False
    _faulting: _Spell = field(default_factory=_Spell)

    def observe(self, at_ns: int, sample: ProcessSample) -> Iterator[Stall]:
        """Yield the stalls that a sample ends."""
        is_stopped = sample.state in _STOPPED
        self._held = is_stopped and (self._held or self.is_held())
        if self._held:
            self._stopped.forget()
        stopped = self._stopped.observe(is_stopped and not self._held, at_ns)
        if stopped:
            yield self._stall(StallCause.STOPPED, *stopped[:2])
        since_ns, self.at_ns = self.at_ns, at_ns
        self._count_runs(sample.runs, at_ns - since_ns)
        waited_ns = sample.waited_ns or 0
        # Of several threads, others may have run while one waited.
        if waited_ns >= at_ns - since_ns + LONG_WAIT_NS and (
            sample.threads == 1 or self.ran is False
        ):
            yield self._stall(StallCause.WAITED_FOR_CPU, at_ns - waited_ns, at_ns)
        is_faulting = sample.major_faults > 0 and (
            sample.state == _WAITS_FOR_DISK
            or sample.major_faults * 1e9 >= FAULTS_PER_S * (at_ns - since_ns)
        )
        faulting = self._faulting.observe(is_faulting, since_ns, sample.major_faults)
        if faulting:
            yield self._stall(StallCause.MAJOR_FAULTS, *faulting)

    def end(self, at_ns: int) -> Iterator[Stall]:
        """Yield the stalls that last until the process, or the sampling, ends."""
        yield from self.observe(at_ns, ProcessSample("Z", 0))

    def _count_runs(self, runs: int | None, within_ns: int) -> None:
        self.ran = None
        if runs is None or within_ns <= 0:
            return
        runs_per_s = runs * 1e9 / within_ns
        if self._runs_per_s >= FEWEST_RUNS_PER_S:
            self.ran = runs_per_s >= self._runs_per_s / 2
        weight = min(1.0, within_ns / USUAL_WITHIN_NS)
        self._runs_per_s += (runs_per_s - self._runs_per_s) * weight

    def _stall(
        self, cause: StallCause, began_ns: int, ended_ns: int, amount: int | None = None
    ) -> Stall:
        return Stall(
            process=self.name, cause=cause, began_ns=began_ns, ended_ns=ended_ns, amount=amount
        )


@dataclass(frozen=True)
class WakeUp:
    """One time that the sampler woke up."""

    at_ns: int
    due_ns: int
    """When it was to wake up."""
    waited_ns: int | None
    """How long it had waited for a CPU since the previous sample; `None`: unknown."""
    clients_ran: bool | None
    """Whether a client ran as often as usual meanwhile; `None`: unknown."""


@dataclass
class MachineStalls:
    """Finds the stalls of the machine and of the trial's own process."""

    at_ns: int
    """When it was last sampled."""
    _stolen: _Spell = field(default_factory=_Spell)
    _swapping: _Spell = field(default_factory=_Spell)

    def observe(self, at_ns: int, sample: MachineSample) -> Iterator[Stall]:
        """Yield the stalls that a sample ends."""
        since_ns, self.at_ns = self.at_ns, at_ns
        stolen = self._stolen.observe((sample.stolen_share or 0) >= STOLEN_SHARE, since_ns)
        if stolen:
            yield _of_machine(StallCause.STEAL, *stolen[:2])
        pages = sample.swapped_in_pages or 0
        is_swapping = pages > 0 and pages * 1e9 >= SWAPPED_IN_PAGES_PER_S * (at_ns - since_ns)
        swapping = self._swapping.observe(is_swapping, since_ns, pages)
        if swapping:
            yield _of_machine(StallCause.SWAP, *swapping)

    @staticmethod
    def woke(wake_up: WakeUp, process: str = HARNESS) -> Iterator[Stall]:
        """Yield what kept the sampler from waking up in time.

        That is a stall of the machine if no client ran either. Otherwise only the trial's own
        process was stopped, or waited for a CPU or for Python's lock.

        Args:
            wake_up: the sampler's.
            process: the name of the trial's own process: `RELAY` if the relays are in it.
        """
        late_ns = wake_up.at_ns - wake_up.due_ns
        if late_ns < MIN_STALL_NS:
            return
        if wake_up.clients_ran is False and (wake_up.waited_ns or 0) < late_ns / 2:
            yield _of_machine(StallCause.FROZEN, wake_up.due_ns, wake_up.at_ns)
            return
        cause = (
            StallCause.WAITED_FOR_CPU
            if (wake_up.waited_ns or 0) >= late_ns / 2
            else StallCause.LATE
        )
        yield Stall(process=process, cause=cause, began_ns=wake_up.due_ns, ended_ns=wake_up.at_ns)


def _of_machine(
    cause: StallCause, began_ns: int, ended_ns: int, amount: int | None = None
) -> Stall:
    return Stall(process=MACHINE, cause=cause, began_ns=began_ns, ended_ns=ended_ns, amount=amount)


def any_ran(answers: Iterable[bool | None]) -> bool | None:
    """Return whether any of the processes ran of which that is known; `None`: of none."""
    known = [answer for answer in answers if answer is not None]
    return any(known) if known else None
