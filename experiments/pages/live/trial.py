"""The figures of the trial under way, from the files that the trial writes while it runs."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ackbench.experiments.pages.live.events import (
    FaultState,
    JournalFollower,
    TrialEvents,
    fault_state,
)
from ackbench.experiments.pages.live.mapped import AttemptsFollower, ReadsFollower
from ackbench.experiments.pages.live.programs import (
    ProgramConsumerFollower,
    ProgramProducerFollower,
)
from ackbench.experiments.pages.live.slots import (
    LatencyCounter,
    LatencyCounts,
    SlotCounter,
    SlotCounts,
)
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.trial.clients.record.layout import warm_up_records
from ackbench.experiments.trial.events.journal import JOURNAL_FILE

_CLIENTS: Final = "clients"


@dataclass(frozen=True)
class TrialFigures:
    """The records of a trial so far; `None`: the client does not report it while it runs."""

    sent: SlotCounts | None
    acked: SlotCounts
    read: SlotCounts
    """Received by the concurrent consumer: of the topic, or of what copiers made of it."""
    processed: SlotCounts | None
    """Processed by the members of all groups; `None`: there are none."""
    failed: int
    """Records with an error in their delivery report: rejected, or of unknown outcome."""
    refused: int | None
    """Records that the client did not accept."""
    unsettled: int | None
    """Records that were sent and are neither acknowledged nor failed."""
    latency: LatencyCounts | None


@dataclass(frozen=True)
class LiveTrial:
    """A trial at one moment."""

    spec: TrialSpec
    events: TrialEvents
    figures: TrialFigures | None
    """`None`: the load has not begun."""
    running: bool
    """Whether it still runs."""
    at_ns: int
    """The moment, nanoseconds since the epoch."""

    @property
    def fault(self) -> FaultState:
        """How far its fault is."""
        return fault_state(self.spec.fault, self.events.faults)

    @property
    def load_s(self) -> float | None:
        """How long ago the load began, seconds; `None`: it has not."""
        begin_ns = self.events.load_begin_ns
        return None if begin_ns is None else max(0.0, (self.at_ns - begin_ns) / 1e9)


class _Follower(Protocol):
    def read(self) -> None:
        """Count what is new."""


class _Load:
    """The followers of a trial's clients, from the begin of its load on."""

    def __init__(self, spec: TrialSpec, clients: Path, begin_ns: int) -> None:
        self._spec, self._clients, self._begin_ns = spec, clients, begin_ns
        self._sent, self._acked, self._read = SlotCounter(), SlotCounter(), SlotCounter()
        self._processed, self._latency = SlotCounter(), LatencyCounter()
        self._reports_in_text = traits_of(spec.client).reports_in_text
        self._producers = tuple(map(self._producer, range(spec.workload.producers)))
        self._consumer = self._reader("consumer-0", self._read)
        self._members: dict[str, ReadsFollower | ProgramConsumerFollower] = {}

    def _producer(self, number: int) -> AttemptsFollower | ProgramProducerFollower:
        name = f"producer-{number}"
        if self._reports_in_text:
            path = self._clients / f"{name}.out"
            return ProgramProducerFollower(path, self._begin_ns, self._warm_up, self._acked)
        path = self._clients / f"{name}.attempts"
        return AttemptsFollower(path, self._begin_ns, self._sent, self._acked, self._latency)

    @property
    def _warm_up(self) -> int:
        load = self._spec.workload
        return warm_up_records(load.rate_records_per_s / load.producers)

    def _reader(self, stem: str, counter: SlotCounter) -> ReadsFollower | ProgramConsumerFollower:
        if self._reports_in_text:
            path = self._clients / f"{stem}.out"
            return ProgramConsumerFollower(path, self._begin_ns, self._warm_up, counter)
        return ReadsFollower(self._clients / f"{stem}.reads", self._begin_ns, counter)

    def read(self) -> TrialFigures:
        ending = "out" if self._reports_in_text else "reads"
        for path in self._clients.glob(f"member-*.{ending}"):  # a restart makes another one
            if path.stem not in self._members:
                self._members[path.stem] = self._reader(path.stem, self._processed)
        followers: tuple[_Follower, ...] = (*self._producers, self._consumer)
        for follower in (*followers, *self._members.values()):
            follower.read()
        own = [one for one in self._producers if isinstance(one, AttemptsFollower)]
        return TrialFigures(
            sent=self._sent.counts() if own else None,
            acked=self._acked.counts(),
            read=self._read.counts(),
            processed=self._processed.counts() if self._spec.workload.members else None,
            failed=sum(producer.failed for producer in self._producers),
            refused=sum(producer.refused for producer in own) if own else None,
            unsettled=sum(producer.unsettled for producer in own) if own else None,
            latency=self._latency.counts() if own else None,
        )

    def close(self) -> None:
        for follower in (*self._producers, self._consumer, *self._members.values()):
            if isinstance(follower, AttemptsFollower | ReadsFollower):
                follower.close()


class TrialFollower:
    """Reads the figures of one trial again and again.

    An interrupted trial is run again in a new folder of the same name: the figures begin again.

    Args:
        sweep: the trial's sweep.
        spec: the trial.
        since_ns: as in `SweepFollower`; a load that began before is an interrupted attempt's.
    """

    def __init__(self, sweep: SweepFolder, spec: TrialSpec, since_ns: int = 0) -> None:
        self._folder, self._spec, self._since_ns = sweep.partial(spec.trial_id), spec, since_ns
        self._descriptor = -1
        self._begin()

    def _begin(self) -> None:
        self._journal = JournalFollower(self._folder / JOURNAL_FILE)
        self._load: _Load | None = None
        self._figures: TrialFigures | None = None

    @property
    def trial_id(self) -> str:
        """The trial's id."""
        return self._spec.trial_id

    def read(self, *, running: bool = True) -> LiveTrial:
        """Return the trial now.

        Args:
            running: whether it still runs; the files of one that has ended are read once more.
        """
        if self._is_new_folder():
            self.close()
            self._begin()
            with suppress(FileNotFoundError):  # an open folder's inode is given to no other one
                self._descriptor = os.open(self._folder, os.O_RDONLY)
        events = self._journal.read()
        if events.load_begin_ns is not None and events.load_begin_ns < self._since_ns:
            events = TrialEvents()
        if self._load is None and events.load_begin_ns is not None:
            self._load = _Load(self._spec, self._folder / _CLIENTS, events.load_begin_ns)
        if self._load:
            self._figures = self._load.read()
        return LiveTrial(self._spec, events, self._figures, running, time.time_ns())

    def _is_new_folder(self) -> bool:
        """Return whether the folder is not the one that was read; a sealed trial has none."""
        try:
            status = self._folder.stat()
        except FileNotFoundError:
            return False
        return self._descriptor < 0 or not os.path.samestat(os.fstat(self._descriptor), status)

    def close(self) -> None:
        """Release the files."""
        if self._load:
            self._load.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
