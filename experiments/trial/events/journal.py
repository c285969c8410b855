"""The event journal of one trial: thread-safe, in the ledger's schema."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.clock import now_ns

if TYPE_CHECKING:
    import pyarrow as pa

JOURNAL_FILE: Final = "diary.jsonl"
"""The journal's file while the trial runs, in its folder; it stays in that of a failed trial."""
CRC_FAILED: Final = "crc_failed"
"""Kind of the event that the CRC of a batch did not match in the final read."""

EXITED: Final = "exited"
"""Kind of the event that a process other than a client exited by itself, unexpectedly."""
CLIENT_EXITED: Final = "client_exited"
"""Kind of the event that a client was found to have exited by itself, in a trial that failed."""
FAULT_EXITED: Final = "fault_exited"
"""Kind of the event that a node exited by itself, as its fault allows."""
BROKER_LEFT: Final = "broker_left"
"""Kind of the event that a broker of an external cluster certainly does not run any more."""
BROKER_COUNTERS: Final = "broker_counters"
"""Kind of the event with a broker's own counters of the topic since its process started."""


@dataclass(frozen=True)
class Event:
    """One row of `events.parquet`."""

    at_ns: int
    kind: str
    source: Source = Source.TRIAL
    resolution_ns: int | None = None
    """The event happened at most this long before `at_ns`; `None`: at `at_ns`."""
    node: int | None = None
    partition: int | None = None
    leader_epoch: int | None = None
    offset: int | None = None
    detail: str = ""


class Journal:
    """Collects events in the order they are noted. Thread-safe.

    Args:
        path: a file to which each event is appended at once that cannot be read again from a log,
            one JSON line each. It shows what a trial was doing when it failed or was killed, and
            what it is doing to the live page. `None`: no file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._path = path

    def note(
        self,
        kind: str,
        detail: str = "",
        *,
        node: int | None = None,
        partition: int | None = None,
        offset: int | None = None,
        at_ns: int | None = None,
    ) -> Event:
        """Add an event of the trial itself, now unless a time is given, and return it."""
        event = Event(
            now_ns() if at_ns is None else at_ns,
            kind,
            node=node,
            partition=partition,
            offset=offset,
            detail=detail,
        )
        self.add(event)
        self._append(event)
        return event

    def observe(self, event: Event) -> None:
        """Add an event that was observed in the cluster, and append it to the file if possible.

        The observation goes on if the file cannot be written, because the disk is full for example.
        """
        self.add(event)
        with suppress(OSError):
            self._append(event)

    def add(self, *events: Event) -> None:
        """Add events that can be read again: from logs of brokers and clients."""
        with self._lock:
            self._events += events

    def _append(self, event: Event) -> None:
        if self._path is not None:
            with self._lock, self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(event)) + "\n")

    def events(self, *kinds: str) -> tuple[Event, ...]:
        """Return all events, or those of these kinds, sorted by time."""
        with self._lock:
            return tuple(
                sorted(
                    (e for e in self._events if not kinds or e.kind in kinds), key=lambda e: e.at_ns
                )
            )

    def table(self) -> pa.Table:
        """Return the events, sorted by time; schema `EVENTS`."""
        import pyarrow as pa

        from ackbench.experiments.ledger.schema import EVENTS

        rows = [astuple(event) for event in self.events()]
        columns = zip(*rows, strict=True) if rows else [[] for _ in EVENTS]
        return pa.table(
            [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)],
            schema=EVENTS,
        )
