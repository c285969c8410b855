"""A trial's clients in memory: they note what they were asked for, and fail where they are told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from support.builders.records import a_record, no_rows

from experiments.clients.consumer.process import ConsumerEnd
from experiments.events.clock import now_ns
from experiments.events.journal import Event
from experiments.ledger.record import ProducerSummary
from experiments.trial.clients import ClientOutput


@dataclass
class MemoryBench:
    """Stands where `experiments.trial.clients.TrialClients` does."""

    fails_at: str = ""
    error: type[BaseException] = RuntimeError
    topic: str = "trial"
    token: int = 99
    events: tuple[Event, ...] = ()
    told: list[str] = field(default_factory=list)

    @contextmanager
    def prepared(self, *_: object) -> Iterator[MemoryBench]:
        """Frame a trial's clients."""
        self._tell("prepared")
        try:
            yield self
        finally:
            self.told.append("closed")

    def begin(self) -> int:
        """Begin now."""
        self._tell("begin")
        return now_ns()

    def at_hand(self) -> None:
        """There is no client that anything could be done to."""

    def wait_until_flowing(self) -> None:
        """Flow at once."""
        self._tell("flowing")

    def wait_until_sent(self, load_begin_ns: int) -> None:
        """Have sent at once."""
        del load_begin_ns
        self._tell("sent")

    def wait_until_settled(self) -> tuple[ProducerSummary, ...]:
        """Have settled at once."""
        self._tell("settled")
        return a_record().producers

    def client_events(self) -> tuple[Event, ...]:
        """What the test says that the clients logged."""
        return self.events

    def read_to_the_end(self, producers: tuple[ProducerSummary, ...]) -> ClientOutput:
        """Read nothing."""
        self._tell("read")
        return ClientOutput(
            producers,
            {0: 0},
            no_rows()["log"],
            no_rows()["epochs"],
            ConsumerEnd(records=0, at_end=True, where=""),
            {},
            {},
        )

    def tables(self, measured: ClientOutput) -> dict[str, pa.Table]:
        """Return empty tables."""
        del measured
        self._tell("tables")
        return {name: table for name, table in no_rows().items() if name != "events"}

    def _tell(self, step: str) -> None:
        self.told.append(step)
        if step == self.fails_at:
            raise self.error(step)
