"""What happened when: the events of one trial, written from several threads, in the ledger's own schema."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from experiments.events.clock import now_ns
from experiments.ledger.schema import EVENTS, Source

CRC_FAILED: Final = "crc_failed"
"""A batch is not the one that its CRC was made of, and the final read was given it."""

BROKER_COUNTERS: Final = "broker_counters"
"""What a broker has counted of the topic since its process began."""


@dataclass(frozen=True)
class Event:
    """One row of `events.parquet`."""

    at_ns: int
    kind: str
    source: Source = Source.TRIAL
    resolution_ns: int | None = None
    """It happened at most so long before `at_ns`; `None`: that is the moment itself."""
    node: int | None = None
    partition: int | None = None
    leader_epoch: int | None = None
    offset: int | None = None
    detail: str = ""


class Journal:
    """Events in the order they were noted; safe to write to from any thread.

    Args:
        diary: a file that gets each of the trial's own events at once, a JSON line each: what a trial was about when it was killed or failed.
    """

    def __init__(self, diary: Path | None = None) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._diary = diary

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
        """Write an event down, now unless a time is given."""
        event = Event(
            now_ns() if at_ns is None else at_ns,
            kind,
            node=node,
            partition=partition,
            offset=offset,
            detail=detail,
        )
        self.keep(event)
        if self._diary is not None:
            with self._lock, self._diary.open("a", encoding="utf-8") as diary:
                diary.write(json.dumps(asdict(event)) + "\n")
        return event

    def keep(self, *events: Event) -> None:
        """Write down what others tell of: a broker's log, a client's, the watcher."""
        with self._lock:
            self._events += events

    def events(self, *kinds: str) -> tuple[Event, ...]:
        """Return all events, or those of some kinds, by time."""
        with self._lock:
            return tuple(
                sorted(
                    (e for e in self._events if not kinds or e.kind in kinds), key=lambda e: e.at_ns
                )
            )

    def table(self) -> pa.Table:
        """Return the events as `events.parquet` holds them."""
        rows = [astuple(event) for event in self.events()]
        columns = zip(*rows, strict=True) if rows else [[] for _ in EVENTS]
        return pa.table(
            [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)],
            schema=EVENTS,
        )
