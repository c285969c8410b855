"""A producer under test: its process as the parent sees it, and what it attempted.

The process itself is `producer_main`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from experiments.clients.librdkafka import library
from experiments.clients.librdkafka.interceptor_tables import (
    CELLS,
    SentRecord,
    ServedCell,
    sent_table,
    served_table,
)
from experiments.clients.librdkafka.log import read_client_log
from experiments.clients.process.client_process import BEGIN, DONE, ClientProcess
from experiments.clients.process.fork_server import SpawnRequest
from experiments.clients.process.mapped_file import reserve
from experiments.clients.producer.attempts import SETTLED, AttemptsFile
from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.transactions_file import (
    attach_transactions,
    count_begun,
    create_transactions,
    transaction_numbers,
    transactions_table,
)
from experiments.events.journal import Event
from experiments.ledger.record import ProducerSummary
from experiments.ledger.schema import SENT, SERVED, TRANSACTIONS

# ---------- How well a producer kept to its schedule, read off its ledger.


def summarize(job: ProducerJob, ledger: AttemptsFile, begin: int) -> ProducerSummary:
    """Say how it went; what was due while no process was there says nothing of how well a process keeps to its schedule."""
    own = ledger.rows[begin:]
    tried = own[own["sent_ns"] > 0]
    on_time = (
        tried[tried["intended_ns"] >= tried["sent_ns"][0]] if job.life > 0 and tried.size else tried
    )
    lateness_us = (on_time["sent_ns"] - on_time["intended_ns"]) / 1000
    p50, p99, highest = (
        np.percentile(lateness_us, [50, 99, 100], method="inverted_cdf")
        if on_time.size
        else (None, None, None)
    )
    return ProducerSummary(
        producer=job.producer,
        records=int(np.count_nonzero(ledger.rows["state"])),
        version=library.version(),
        lateness_us_p50=p50,
        lateness_us_p99=p99,
        lateness_us_max=highest,
    )


@dataclass(frozen=True)
class ProducerProgress:
    """How far a producer is, in records."""

    accepted: int
    settled: int
    acked: int


class ProducerProcess(ClientProcess):
    """A producer in a process of its own: it warms up by itself; wait until ready, begin, wait until done. Killed, it can be started again."""

    def __init__(self, job: ProducerJob) -> None:
        self.job, self._began_ns, self._left = job, 0, False
        self._ledger = AttemptsFile.create(job.ledger, job.records)
        if job.transaction_records:
            create_transactions(job.transactions, job.records, job.transaction_records)
        if job.headers:
            reserve(job.fields, SentRecord, job.records)
        if job.record_serving_brokers:
            reserve(job.serving, ServedCell, CELLS)
        super().__init__(
            f"producer {job.producer}",
            _spawn_request(job),
            job.folder / f"producer-{job.producer}.errors",
        )

    def begin(self, start_ns: int) -> None:
        """Tell it when its first record is due, nanoseconds since the epoch by `experiments.events.clock`.

        Raises:
            HarnessError: it has ended.
        """
        self._began_ns = start_ns
        self.send_line(f"{BEGIN} {start_ns}")

    def restart(self, *, resend: bool) -> None:
        """Begin another life after `kill`: a new process, which goes on with the schedule where the one before was.

        What was due meanwhile is due at once. Returns when it has begun.

        Args:
            resend: whether it first sends again what was sent before and of which nobody was told anything.

        Raises:
            HarnessError: it cannot be started, or cannot warm up.
            WaitTimeout: it was not ready in time.
        """
        self.job = self.job.model_copy(update={"life": self.job.life + 1, "resend": resend})
        self.start_process(
            _spawn_request(self.job), self.job.folder / f"producer-{self.job.producer}.errors"
        )
        self.wait_ready()
        self.send_line(f"{BEGIN} {self._began_ns}")

    def abandon(self) -> None:
        """Kill it for good: nobody goes on with its schedule, and what it has left is all that there will be.

        Raises:
            WaitTimeout: the kernel did not end it.
        """
        self.kill()
        self._left = True

    def fatal_error_code(self) -> int:
        """The error after which it took nothing more, alive or dead; 0: none."""
        return int(self._ledger.header["ended_by"][0])

    def acked_in_open_transaction(self) -> int:
        """How many acknowledged records its transaction holds, alive or dead; 0 once it holds all that it is to: it may be ending already."""
        rows = attach_transactions(self.job.transactions)
        number = count_begun(rows) - 1
        if number < 0 or rows["asked"][number] or rows["ending"][number]:
            return 0
        of = self._ledger.rows[number * self.job.transaction_records :][
            : self.job.transaction_records
        ]
        stored = int(((of["state"] == SETTLED) & (of["error"] == 0)).sum())
        return stored if stored < of.size else 0

    def unsettled_records(self) -> int:
        """How many records it has sent, or was about to send, of which nobody was told anything, alive or dead."""
        from experiments.clients.producer.loop import unsettled_seqs

        return unsettled_seqs(self._ledger).size

    def began_ns(self) -> int:
        """Return when its first record was due: as it was told."""
        return self._began_ns

    def acked_records(self) -> int:
        """How many records it has seen acknowledged, alive or dead."""
        return self.progress().acked

    def progress(self) -> ProducerProgress:
        """Return how far it is, alive or dead."""
        header = self._ledger.header[0]
        return ProducerProgress(
            int(header["accepted"]), int(header["settled"]), int(header["acked"])
        )

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Return when every record is settled, or its delivery timeout has passed; at once, when it was left dead.

        Raises:
            HarnessError: it ended on the way.
            WaitTimeout: it was not done in time.
        """
        if self._left:
            return summarize(self.job, self._ledger, 0)
        summary = ProducerSummary.model_validate_json(self.expect_line(DONE, timeout_s))
        self.wait_for_exit(timeout_s)
        return summary

    @staticmethod
    def complete_summary(summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return its summary: it told all of it itself."""
        del log
        return summary

    def events(self) -> Iterator[Event]:
        """Give what librdkafka's log tells so far; see `client_log`."""
        return read_client_log(self.job.log.read_text(errors="replace"), self.name, self.job.topic)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings it was given; where it keeps its own defaults, all that it tells."""
        return (
            self.job.settings
            if self.job.passed is None
            else dict(json.loads(self.job.effective.read_text()))
        )

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return what it attempted; see `attempts_table`. The log is not needed."""
        del log
        return attempts_table(self.job)

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return how its transactions ended; see `ended_transactions`."""
        return producer_transactions(self.job, attempts)

    def sent(self) -> pa.Table:
        """Return what its records were made of, alive or dead; schema `SENT`. Nothing, where that is not noted."""
        return (
            sent_table(self.job.fields, self.job.producer)
            if self.job.headers
            else SENT.empty_table()
        )

    def served(self) -> pa.Table:
        """Return which brokers settled its records, alive or dead; schema `SERVED`. Nothing, where that is not noted."""
        return (
            served_table(self.job.serving, "producer")
            if self.job.record_serving_brokers
            else SERVED.empty_table()
        )

    @property
    def restartable(self) -> Self:
        """This process: its attempts are in a mapped file, which outlives it."""
        return self

    def delete_files(self) -> None:
        """Remove the mappings."""
        self.job.serving.unlink(missing_ok=True)
        self.job.fields.unlink(missing_ok=True)
        self.job.ledger.unlink()
        self.job.transactions.unlink(missing_ok=True)


def _spawn_request(job: ProducerJob) -> SpawnRequest:
    path = job.folder / f"producer-{job.producer}.{job.life}.json"
    path.write_text(job.model_dump_json())
    return SpawnRequest(role="producer", job=path)


def attempts_table(job: ProducerJob) -> pa.Table:
    """Return what the producer attempted, whether it ended by itself or was killed; schema `ATTEMPTS`.

    Raises:
        HarnessError: it left no ledger.
    """
    from experiments.clients.producer.attempts import attempts_from_rows

    ledger = AttemptsFile.open(job.ledger)
    table = attempts_from_rows(ledger.rows, ledger.latency_us, job.producer, job.keying)
    if not job.transaction_records:
        return table
    of = transaction_numbers(
        table["seq"].to_numpy(), attach_transactions(job.transactions), job.transaction_records
    )
    return table.set_column(
        table.schema.names.index("transaction"), table.schema.field("transaction"), of
    )


def producer_transactions(job: ProducerJob, attempts: pa.Table) -> pa.Table:
    """Return how the producer's transactions ended; schema `TRANSACTIONS`.

    Args:
        job: the producer's.
        attempts: of `attempts_table`.

    Raises:
        HarnessError: it left no ledger.
    """
    if not job.transaction_records:
        return TRANSACTIONS.empty_table()
    return transactions_table(
        attach_transactions(job.transactions),
        job.producer,
        attempts.num_rows,
        job.transaction_records,
    )
