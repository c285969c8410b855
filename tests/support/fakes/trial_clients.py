"""Fake clients of a trial: they note each step and fail at a chosen one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from support.builders.records import a_record, no_rows

from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.trial.clients.consumer.process import ConsumerResult
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.trial_clients import ClientResults


@dataclass
class FakeTrialClients:
    """Replaces `experiments.trial.trial_clients.TrialClients`, class and instance.

    Args:
        fails_at: the step that raises `error`; empty: none.
        logged: the events in the clients' logs.
    """

    fails_at: str = ""
    error: type[BaseException] = RuntimeError
    topic: str = "trial"
    token: int = 99
    logged: tuple[Event, ...] = ()
    exits: tuple[str, ...] = ()
    steps: list[str] = field(default_factory=list)
    """The steps so far, in order."""

    @contextmanager
    def start(self, *_: object) -> Iterator[FakeTrialClients]:
        """Yield the clients, which are warm at once."""
        self._step("started")
        try:
            yield self
        finally:
            self.steps.append("closed")

    def begin(self) -> int:
        """Start the load now."""
        self._step("begin")
        return now_ns()

    def processes(self) -> None:
        """Return none: there is no process that a fault could act on."""

    def unexpected_exits(self) -> tuple[str, ...]:
        """Return the exits that the test chose."""
        return self.exits

    def watched_processes(self) -> tuple[()]:
        """Return none: there is no process that could stall."""
        return ()

    def wait_until_flowing(self) -> None:
        """Return at once."""
        self._step("flowing")

    def wait_until_sent(self, load_begin_ns: int) -> None:
        """Return at once."""
        del load_begin_ns
        self._step("sent")

    def wait_until_settled(self) -> tuple[ProducerSummary, ...]:
        """Return at once."""
        self._step("settled")
        return a_record().producers

    def events(self) -> tuple[Event, ...]:
        """Return the events that the test chose."""
        return self.logged

    def read_results(self, summaries: tuple[ProducerSummary, ...]) -> ClientResults:
        """Return the results of an empty log."""
        self._step("read")
        return ClientResults(
            summaries,
            {0: 0},
            no_rows()["log"],
            no_rows()["epochs"],
            ConsumerResult(records=0, at_end=True, where=""),
            {},
            {},
        )

    def tables(self, results: ClientResults) -> dict[str, pa.Table]:
        """Return empty tables."""
        del results
        self._step("tables")
        return {name: table for name, table in no_rows().items() if name != "events"}

    def delete_topics(self) -> None:
        """Return at once."""
        self._step("deleted")

    def _step(self, step: str) -> None:
        self.steps.append(step)
        if step == self.fails_at:
            raise self.error(step)
