"""Transactions of a librdkafka producer: the API, its errors, and the transactional schedule.

rdkafka.h and INTRODUCTION.md ("Transactional Producer") distinguish three kinds of errors. A fatal
error ends the producer. An abortable error ends the transaction. After a retriable error the same
call resumes where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from ackbench.experiments.trial.clients.librdkafka.client import Client
from ackbench.experiments.trial.clients.librdkafka.library import error_text, library
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.producer.attempts import SETTLED, AttemptsFile
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.loop import follow_schedule, refuse_remaining
from ackbench.experiments.trial.clients.producer.transactions_file import (
    NOT_REPORTED,
    REPORTED_ABORTED,
    REPORTED_COMMITTED,
    REPORTED_FENCED,
    attach_transactions,
)
from ackbench.experiments.trial.clients.settings.librdkafka import (
    delivery_timeout_ms,
    transaction_timeout_ms,
)
from ackbench.infra.errors import HarnessError

FENCED: Final = -144
INVALID_PRODUCER_EPOCH: Final = 47
PRODUCER_FENCED: Final = 90
FENCED_CODES: Final = frozenset({FENCED, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
"""The errors of a producer whose epoch the coordinator has raised (KIP-360, KIP-588).

Either another producer took the `transactional.id`, or `transaction.timeout.ms` had passed.
librdkafka has one code of its own, the brokers have two. librdkafka treats all as fatal.
"""
UNKNOWN_MEMBER_ID: Final = 25
TIMEOUT_MARGIN_S: Final = 5.0
"""How long to wait beyond a timeout: after `transaction.timeout.ms` the coordinator aborts."""
_SLICE_MS: Final = 100


@dataclass(frozen=True)
class TransactionError:
    """Why a call of the transactional API failed."""

    code: int
    text: str
    fatal: bool
    """The producer accepts no further record or call."""
    retriable: bool
    """The same call can be repeated and resumes."""
    requires_abort: bool

    @classmethod
    def take(cls, error: int | None) -> Self | None:
        """Read an `rd_kafka_error_t` and free it; return `None` for a null pointer."""
        if not error:
            return None
        lib = library()
        taken = cls(
            code=int(lib.rd_kafka_error_code(error)),
            text=lib.rd_kafka_error_string(error).decode(errors="replace"),
            fatal=bool(lib.rd_kafka_error_is_fatal(error)),
            retriable=bool(lib.rd_kafka_error_is_retriable(error)),
            requires_abort=bool(lib.rd_kafka_error_txn_requires_abort(error)),
        )
        lib.rd_kafka_error_destroy(error)
        return taken

    @classmethod
    def not_a_member(cls) -> Self:
        """Return the error of a consumer that its group has removed: it has no generation.

        Such a consumer must not send its offsets. The coordinator accepts offsets that carry
        neither member nor generation, as it did before KIP-447.
        """
        return cls(
            UNKNOWN_MEMBER_ID,
            "the consumer is no longer a member of its group",
            fatal=False,
            retriable=False,
            requires_abort=True,
        )

    def __str__(self) -> str:
        """Return Kafka's name of the error, and librdkafka's sentence."""
        return f"{error_text(self.code)}: {self.text}"


class TransactionApi:
    """The transactional API of one producer with a `transactional.id`.

    All calls serve delivery reports and release the GIL.

    Args:
        client: the producer.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def init_transactions(self, timeout_s: float) -> None:
        """Take the `transactional.id`.

        The coordinator fences the producer that had it before and aborts its open transaction.

        Raises:
            HarnessError: no coordinator assigned a producer id in time.
        """
        error = self._call(library().rd_kafka_init_transactions, timeout_s)
        if error:
            raise HarnessError(
                f"no coordinator assigned a transactional producer id within {timeout_s:g} s: "
                f"{error}"
            )

    def begin_transaction(self) -> TransactionError | None:
        """Begin a transaction; return the error, or `None`."""
        return TransactionError.take(library().rd_kafka_begin_transaction(self._client.address))

    def commit_transaction(self, timeout_s: float) -> TransactionError | None:
        """Commit; return why it is not committed, as far as the client knows, or `None`."""
        return self._call(library().rd_kafka_commit_transaction, timeout_s)

    def abort_transaction(self, timeout_s: float) -> TransactionError | None:
        """Abort; return why it is not aborted, as far as the client knows, or `None`."""
        return self._call(library().rd_kafka_abort_transaction, timeout_s)

    def send_offsets_to_transaction(
        self, offsets: int, group: int, timeout_s: float
    ) -> TransactionError | None:
        """Add a consumer's offsets to the transaction (KIP-98, KIP-447).

        Args:
            offsets: address of librdkafka's list of partitions, each with its next offset to read.
            group: address of the consumer's `rd_kafka_consumer_group_metadata_t`. The coordinator
                accepts offsets from a member of the group only.
            timeout_s: for the answer of the group's coordinator.

        Returns:
            Why they were not added; `None`: they were.
        """

        def send(client: int, timeout_ms: int) -> Any:
            return library().rd_kafka_send_offsets_to_transaction(
                client, offsets, group, timeout_ms
            )

        return self._call(send, timeout_s)

    def retry(
        self, call: Callable[[float], TransactionError | None], timeout_s: float
    ) -> TransactionError | None:
        """Repeat a call while its error is retriable, up to the timeout; return the last error.

        Args:
            call: takes the remaining time in seconds.
            timeout_s: for all repetitions together.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            error = call(max(0.0, end_s - time.monotonic()))
            if error is None or not error.retriable or time.monotonic() >= end_s:
                return error
            self._client.poll(_SLICE_MS)

    def _call(self, call: Callable[[int, int], Any], timeout_s: float) -> TransactionError | None:
        return TransactionError.take(call(self._client.address, max(1, round(timeout_s * 1000))))


@dataclass(frozen=True)
class TransactionalSchedule:
    """The schedule of a transactional producer.

    The compiled loop sends the records; between them the producer begins, commits and aborts
    transactions. The schedule stays open loop: a slow commit delays the records after it, and
    their latencies count from their intended times.
    """

    client: Client
    job: ProducerJob
    ledger: AttemptsFile
    schedule: Records
    words: Any
    """The buffer in which the loop encodes each record's value."""

    def follow(self) -> None:
        """Run all transactions, or stop at the first error that ends the producer."""
        rows = attach_transactions(self.job.transactions_file, write=True)
        transactions = TransactionApi(self.client)
        for number in range(rows.size):
            first = number * self.job.transaction_records
            error = transactions.begin_transaction()
            if error is None:
                row = rows[number : number + 1]
                error = self._run_transaction(transactions, row, number, first)
                first += self.job.transaction_records
            if error is not None:
                self._refuse_from(first, error.code)
                return

    def _run_transaction(
        self, transactions: TransactionApi, row: Records, number: int, first: int
    ) -> TransactionError | None:
        """Send one transaction's records and end it; return the error that ends the producer."""
        row["begin_ns"] = self._now_ns()
        end = min(first + self.job.transaction_records, self.ledger.rows.size)
        follow_schedule(self.schedule, self.ledger.header, self.ledger.rows, self.words, first, end)
        self._flush()
        error_code = self._first_delivery_error(first, end)
        is_abort_planned = self.job.abort_every > 0 and (number + 1) % self.job.abort_every == 0
        if not is_abort_planned and error_code is None:
            row["commit_requested"] = 1
            error = transactions.retry(transactions.commit_transaction, self._end_timeout_s())
            if error is None or not error.requires_abort:
                return self._record_end(row, REPORTED_COMMITTED, error)
            error_code = error.code
        row["error"] = error_code or 0
        error = transactions.retry(transactions.abort_transaction, self._end_timeout_s())
        return self._record_end(row, REPORTED_ABORTED, error)

    def _record_end(
        self, row: Records, reported: int, error: TransactionError | None
    ) -> TransactionError | None:
        """Write how the transaction ended; return the error, which ends the producer."""
        if error is not None:
            row["error"] = error.code
            is_fenced = error.code in FENCED_CODES or self._fatal_code() in FENCED_CODES
            reported = REPORTED_FENCED if is_fenced else NOT_REPORTED
        row["end_ns"] = self._now_ns()
        row["reported"] = reported
        return error

    def _end_timeout_s(self) -> float:
        """Return how long to retry a commit or abort: the transaction timeout and a margin."""
        return transaction_timeout_ms(self.job.settings) / 1000 + TIMEOUT_MARGIN_S

    def _flush(self) -> None:
        """Wait until every record is delivered or given up.

        Only then can the producer request a commit and know that it covers all records.
        """
        header = self.ledger.header
        timeout_s = delivery_timeout_ms(self.job.settings) / 1000 + TIMEOUT_MARGIN_S
        end_s = time.monotonic() + timeout_s
        while header["settled"][0] < header["accepted"][0] and time.monotonic() < end_s:
            self.client.flush(_SLICE_MS)

    def _first_delivery_error(self, first: int, end: int) -> int | None:
        """Return the error of the first record that was not delivered; `None`: all were."""
        rows = self.ledger.rows[first:end]
        undelivered = np.flatnonzero((rows["state"] != SETTLED) | (rows["error"] != 0))
        return int(rows["error"][undelivered[0]]) if undelivered.size else None

    def _fatal_code(self) -> int | None:
        fatal = self.client.fatal_error()
        return None if fatal is None else fatal[0]

    def _refuse_from(self, first: int, code: int) -> None:
        """Mark all records from `first` on as refused with this error."""
        if not self.ledger.header["fatal_error"][0]:
            self.ledger.header["fatal_error"] = code
            refuse_remaining(self.schedule, self.ledger.rows, first, code)

    def _now_ns(self) -> int:
        return self.job.anchor_ns + time.monotonic_ns()
