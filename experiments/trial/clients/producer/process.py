"""The handle to a producer's process, its summary, and the tables of its attempts.

What runs in the process is `producer.main`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.schema import SENT, SERVED, TRANSACTIONS
from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.trial.clients.librdkafka import library
from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import (
    CELLS,
    SentRecord,
    ServedCell,
    sent_table,
    served_table,
)
from ackbench.experiments.trial.clients.librdkafka.log import read_client_log
from ackbench.experiments.trial.clients.librdkafka.versions import library_variables
from ackbench.experiments.trial.clients.process.client_process import BEGIN, DONE, ClientProcess
from ackbench.experiments.trial.clients.process.fork_server import SpawnRequest
from ackbench.experiments.trial.clients.process.mapped_file import Column, reserve
from ackbench.experiments.trial.clients.producer.attempts import SETTLED, AttemptsFile
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.transactions_file import (
    attach_transactions,
    count_begun,
    create_transactions,
    transaction_numbers,
    transactions_table,
)
from ackbench.experiments.trial.events.journal import Event


def summarize(job: ProducerJob, ledger: AttemptsFile, begin: int) -> ProducerSummary:
    """Return how many records the producer attempted and how late it sent them.

    Records that were due while no process was running do not count as late, nor do those that were
    due while a transactional call waited: before their own transaction began.

    Args:
        job: the producer's job.
        ledger: its attempts.
        begin: the first record of this generation.
    """
    seq = begin + np.flatnonzero(ledger.rows["sent_ns"][begin:] > 0)
    attempted = ledger.rows[seq]
    ready_ns: Column | int = 0
    if job.generation > 0 and attempted.size:
        ready_ns = attempted["sent_ns"][0]
    elif job.transaction_records:
        begun_ns = attach_transactions(job.transactions_file)["begin_ns"]
        ready_ns = begun_ns[seq // job.transaction_records]
    attempted = attempted[attempted["intended_ns"] >= ready_ns]
    lateness_us = (attempted["sent_ns"] - attempted["intended_ns"]) / 1000
    p50, p99, highest = (
        np.percentile(lateness_us, [50, 99, 100], method="inverted_cdf")
        if attempted.size
        else (None, None, None)
    )
    return ProducerSummary(
        producer=job.producer,
        records=int(np.count_nonzero(ledger.rows["state"])),
        version=job.client_version or library.version(),
        lateness_us_p50=p50,
        lateness_us_p99=p99,
        lateness_us_max=highest,
        lateness_is_without_transactions=job.transaction_records > 0,
    )


@dataclass(frozen=True)
class ProducerProgress:
    """A producer's progress, in records."""

    accepted: int
    settled: int
    acked: int


class ProducerProcess(ClientProcess):
    """A producer in its own process.

    It warms up as soon as it starts. Call `wait_ready`, `begin` and `wait_done`. After `kill` it
    can be restarted: its attempts are in a mapped file.
    """

    hung: str | None = None
    """That it is not done in time is an error: this project's own loop settles each record."""

    def __init__(self, job: ProducerJob) -> None:
        self.job, self._began_ns, self._is_abandoned = job, 0, False
        self._ledger = AttemptsFile.create(job.ledger, job.records)
        if job.transaction_records:
            create_transactions(job.transactions_file, job.records, job.transaction_records)
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
        """Start the schedule.

        Args:
            start_ns: when the first record is due, since the epoch
                (`experiments.trial.events.clock`).

        Raises:
            HarnessError: the process has exited.
        """
        self._began_ns = start_ns
        self.send_line(f"{BEGIN} {start_ns}")

    def restart(self, *, resend: bool) -> None:
        """Start a new process after `kill`, which resumes the schedule; return when it has begun.

        Records that were due in between are due immediately.

        Args:
            resend: whether it first sends all records again that were sent and never settled.

        Raises:
            HarnessError: it did not start, or did not warm up.
            WaitTimeout: it was not ready in time.
        """
        self.job = self.job.model_copy(
            update={"generation": self.job.generation + 1, "resend": resend}
        )
        self.start_process(
            _spawn_request(self.job), self.job.folder / f"producer-{self.job.producer}.errors"
        )
        self.wait_ready()
        self.send_line(f"{BEGIN} {self._began_ns}")

    def abandon(self) -> None:
        """Kill the producer for good: its schedule is not resumed, and its attempts are final.

        Raises:
            HarnessError: it has exited by itself.
            WaitTimeout: the process did not exit after SIGKILL.
        """
        self.crash()
        self._is_abandoned = True

    def fatal_error_code(self) -> int:
        """Return the error after which the client accepted no more records; 0: none."""
        return int(self._ledger.header["fatal_error"][0])

    def acked_in_open_transaction(self) -> int:
        """Return the number of acknowledged records in the open transaction.

        0 if none is open, or if the transaction is complete: its end may be under way.
        """
        rows = attach_transactions(self.job.transactions_file)
        number = count_begun(rows) - 1
        if number < 0 or rows["commit_requested"][number] or rows["reported"][number]:
            return 0
        first = number * self.job.transaction_records
        records = self._ledger.rows[first : first + self.job.transaction_records]
        acked = int(((records["state"] == SETTLED) & (records["error"] == 0)).sum())
        return acked if acked < records.size else 0

    def unsettled_records(self) -> int:
        """Return how many records were sent, or about to be sent, and have no delivery report."""
        from ackbench.experiments.trial.clients.producer.loop import unsettled_seqs

        return unsettled_seqs(self._ledger).size

    def began_ns(self) -> int:
        """Return when the first record was due, as passed to `begin`."""
        return self._began_ns

    def acked_records(self) -> int:
        """Return how many records were acknowledged so far; valid after a crash too."""
        return self.progress().acked

    def progress(self) -> ProducerProgress:
        """Return the progress; valid after a crash too."""
        header = self._ledger.header[0]
        return ProducerProgress(
            int(header["accepted"]), int(header["settled"]), int(header["acked"])
        )

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Wait until every record is settled, or its delivery timeout has passed.

        Return immediately if the producer was abandoned.

        Raises:
            HarnessError: the process exited early.
            WaitTimeout: it was not done in time.
        """
        if self._is_abandoned:
            return summarize(self.job, self._ledger, 0)
        summary = ProducerSummary.model_validate_json(self.expect_line(DONE, timeout_s))
        self.wait_for_exit(timeout_s)
        return summary

    @staticmethod
    def complete_summary(summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return the summary unchanged: it needs nothing from the final read."""
        del log
        return summary

    def events(self) -> Iterator[Event]:
        """Yield the events in librdkafka's log so far (`librdkafka.log`)."""
        return read_client_log(self.job.log.read_text(errors="replace"), self.name, self.job.topic)

    def effective_settings(self) -> dict[str, str]:
        """Return the passed settings; if the client keeps its own defaults, all that it reports."""
        if self.job.passed is None:
            return self.job.settings
        return dict(json.loads(self.job.effective.read_text()))

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return the attempts (`attempts_table`). The final read is not needed."""
        del log
        return attempts_table(self.job)

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return how the transactions ended (`producer_transactions`)."""
        return producer_transactions(self.job, attempts)

    def sent(self) -> pa.Table:
        """Return the digests of the records' fields as sent; schema `SENT`.

        Empty if the job does not record them. Valid after a crash too.
        """
        return (
            sent_table(self.job.fields, self.job.producer)
            if self.job.headers
            else SENT.empty_table()
        )

    def served(self) -> pa.Table:
        """Return which brokers acknowledged the records; schema `SERVED`.

        Empty if the job does not record it. Valid after a crash too.
        """
        return (
            served_table(self.job.serving, "producer")
            if self.job.record_serving_brokers
            else SERVED.empty_table()
        )

    @property
    def restartable(self) -> Self:
        """Itself: its attempts are in a mapped file, which outlives the process."""
        return self

    def delete_files(self) -> None:
        """Delete the mapped files."""
        self.job.serving.unlink(missing_ok=True)
        self.job.fields.unlink(missing_ok=True)
        self.job.ledger.unlink()
        self.job.transactions_file.unlink(missing_ok=True)


def _spawn_request(job: ProducerJob) -> SpawnRequest:
    path = job.folder / f"producer-{job.producer}.{job.generation}.json"
    path.write_text(job.model_dump_json())
    return SpawnRequest(
        role="producer", job=path, server_environment=library_variables(job.client_version)
    )


def attempts_table(job: ProducerJob) -> pa.Table:
    """Return the producer's attempts, whether it exited or crashed; schema `ATTEMPTS`.

    Raises:
        HarnessError: its file of attempts is missing or truncated.
    """
    from ackbench.experiments.trial.clients.producer.attempts import attempts_from_rows

    ledger = AttemptsFile.open(job.ledger)
    table = attempts_from_rows(ledger.rows, ledger.latency_us, job.producer, job.keys)
    if not job.transaction_records:
        return table
    numbers = transaction_numbers(
        table["seq"].to_numpy(), attach_transactions(job.transactions_file), job.transaction_records
    )
    return table.set_column(
        table.schema.names.index("transaction"), table.schema.field("transaction"), numbers
    )


def producer_transactions(job: ProducerJob, attempts: pa.Table) -> pa.Table:
    """Return how the producer's transactions ended; schema `TRANSACTIONS`.

    Args:
        job: the producer's job.
        attempts: its attempts, from `attempts_table`.

    Raises:
        HarnessError: its file of transactions is missing.
    """
    if not job.transaction_records:
        return TRANSACTIONS.empty_table()
    return transactions_table(
        attach_transactions(job.transactions_file),
        job.producer,
        attempts.num_rows,
        job.transaction_records,
    )
