"""librdkafka's transactions: begun, committed, aborted, and what an error of theirs asks the application to do.

rdkafka.h and INTRODUCTION.md ("Transactional Producer"): a fatal error ends the producer, an abortable one the transaction, and after a
retriable one the same call goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from experiments.clients.librdkafka.client import Client
from experiments.clients.librdkafka.library import error_text, library
from experiments.clients.process.mapped_file import Records
from experiments.clients.producer.attempts import SETTLED, AttemptsFile
from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.loop import follow_schedule, refuse_remaining
from experiments.clients.producer.transactions_file import (
    REPORTED_ABORTED,
    REPORTED_COMMITTED,
    REPORTED_FENCED,
    attach_transactions,
)
from experiments.clients.settings.librdkafka import delivery_timeout_ms, transaction_timeout_ms
from infra.errors import HarnessError

FENCED: Final = -144
INVALID_PRODUCER_EPOCH: Final = 47
PRODUCER_FENCED: Final = 90
FENCED_CODES: Final = frozenset({FENCED, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
"""The coordinator has raised the epoch: another producer took the `transactional.id`, or the transaction's time had passed (KIP-360, KIP-588).

librdkafka's own word for it, and the brokers' two. To librdkafka it is fatal either way.
"""
TIMED_OUT: Final = -185
UNKNOWN_MEMBER_ID: Final = 25
_SLICE_MS: Final = 100


@dataclass(frozen=True)
class TransactionError:
    """Why a call did not do what it was to do."""

    code: int
    text: str
    fatal: bool
    """The producer takes nothing more."""
    retriable: bool
    """The same call may be made again, and goes on."""
    requires_abort: bool

    @classmethod
    def taken(cls, error: int | None) -> Self | None:
        """Read an `rd_kafka_error_t` and free it; `None` when there is none."""
        if not error:
            return None
        ask = library()
        code = int(ask.rd_kafka_error_code(error))
        flags = (
            bool(look(error))
            for look in (
                ask.rd_kafka_error_is_fatal,
                ask.rd_kafka_error_is_retriable,
                ask.rd_kafka_error_txn_requires_abort,
            )
        )
        told = cls(code, ask.rd_kafka_error_string(error).decode(errors="replace"), *flags)
        ask.rd_kafka_error_destroy(error)
        return told

    @classmethod
    def not_a_member(cls) -> Self:
        """Return what a consumer gets that has found itself thrown out of its group, and so has no generation to commit in.

        It must not ask: of offsets that come with neither member nor generation the coordinator takes those of a transaction, as it did before KIP-447.
        """
        return cls(
            UNKNOWN_MEMBER_ID,
            "the consumer is no member of its group any more",
            fatal=False,
            retriable=False,
            requires_abort=True,
        )

    def __str__(self) -> str:
        """Return Kafka's name of the error, and librdkafka's sentence."""
        return f"{error_text(self.code)}: {self.text}"


class TransactionApi:
    """The transactions of one producer, which has a `transactional.id`. All calls serve delivery reports, and hold no GIL.

    Args:
        client: the producer.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def init(self, timeout_s: float) -> None:
        """Take the `transactional.id`: whoever had it before is fenced, and what it left open is aborted.

        Raises:
            HarnessError: no coordinator gave a producer id in time.
        """
        error = self._called(library().rd_kafka_init_transactions, timeout_s)
        if error:
            raise HarnessError(
                f"the producer was given no transactional producer id within {timeout_s:g} s: {error}"
            )

    def begin(self) -> TransactionError | None:
        """Begin one; return why it could not."""
        return TransactionError.taken(library().rd_kafka_begin_transaction(self._client.address))

    def commit(self, timeout_s: float) -> TransactionError | None:
        """Commit; return why it is not committed, as far as the client was told."""
        return self._called(library().rd_kafka_commit_transaction, timeout_s)

    def abort(self, timeout_s: float) -> TransactionError | None:
        """Abort; return why it is not aborted, as far as the client was told."""
        return self._called(library().rd_kafka_abort_transaction, timeout_s)

    def send_offsets(self, offsets: int, group: int, timeout_s: float) -> TransactionError | None:
        """Have the transaction commit, with all else in it, how far a consumer has read; return why it could not (KIP-98, KIP-447).

        Args:
            offsets: librdkafka's list of partitions, each with the offset behind what was read.
            group: the consumer's `rd_kafka_consumer_group_metadata_t`: the coordinator takes it from a member of the group alone.
            timeout_s: for the group's coordinator to answer.
        """

        def send(client: int, timeout_ms: int) -> Any:
            return library().rd_kafka_send_offsets_to_transaction(
                client, offsets, group, timeout_ms
            )

        return self._called(send, timeout_s)

    def retry(
        self, call: Callable[[float], TransactionError | None], patience_s: float
    ) -> TransactionError | None:
        """Make a call again while librdkafka says that it may be, for so long at most; return why it did not succeed."""
        end_s = time.monotonic() + patience_s
        while True:
            error = call(max(0.0, end_s - time.monotonic()))
            if error is None or not error.retriable or time.monotonic() >= end_s:
                return error
            self._client.poll(_SLICE_MS)

    def _called(self, call: Callable[[int, int], Any], timeout_s: float) -> TransactionError | None:
        return TransactionError.taken(call(self._client.address, max(1, round(timeout_s * 1000))))


# ---------- A transactional producer's schedule: the same compiled loop for the records, and between them begin, commit and abort.
#
# The schedule stays open loop. A commit that takes long makes the records behind it late, and they count from their intended time.
#


TIMEOUT_MARGIN_S: Final = 5.0
"""Beyond the transaction's own timeout, after which the coordinator has aborted it anyway."""


@dataclass(frozen=True)
class TransactionalSchedule:
    """One producer at its transactions."""

    client: Client
    job: ProducerJob
    ledger: AttemptsFile
    schedule: Records
    words: Any

    def follow(self) -> None:
        """Follow the schedule to its end, or until the client takes nothing more."""
        rows = attach_transactions(self.job.transactions, write=True)
        transactions = TransactionApi(self.client)
        for number in range(rows.size):
            first = number * self.job.transaction_records
            error = transactions.begin()
            if error is None:
                error = self._one(transactions, rows[number : number + 1], number, first)
                first += self.job.transaction_records
            if error is not None:
                self._give_up(first, error.code)
                return

    def _one(
        self, transactions: TransactionApi, row: Records, number: int, first: int
    ) -> TransactionError | None:
        """Send one transaction's records and end it; return the error after which there is no other."""
        row["begin_ns"] = self._now_ns()
        end = min(first + self.job.transaction_records, self.ledger.rows.size)
        follow_schedule(self.schedule, self.ledger.header, self.ledger.rows, self.words, first, end)
        self._flush()
        undelivered = self._first_error(first, end)
        meant_to_abort = self.job.abort_every > 0 and (number + 1) % self.job.abort_every == 0
        if not meant_to_abort and undelivered is None:
            row["asked"] = 1
            error = transactions.retry(transactions.commit, self._patience_s())
            if error is None or not error.requires_abort:
                return self._told(row, REPORTED_COMMITTED, error)
            undelivered = error.code
        row["error"] = undelivered or 0
        return self._told(
            row, REPORTED_ABORTED, transactions.retry(transactions.abort, self._patience_s())
        )

    def _told(
        self, row: Records, ending: int, error: TransactionError | None
    ) -> TransactionError | None:
        """Write down how it ended; a fatal error, or patience at its end, is the end of them all."""
        if error is not None:
            row["error"] = error.code
            ending = (
                REPORTED_FENCED
                if error.code in FENCED_CODES or self._fatal_code() in FENCED_CODES
                else 0
            )
        row["end_ns"] = self._now_ns()
        row["ending"] = ending
        return error

    def _patience_s(self) -> float:
        """How long the coordinator keeps the transaction, and a little more."""
        return transaction_timeout_ms(self.job.settings) / 1000 + TIMEOUT_MARGIN_S

    def _flush(self) -> None:
        """Have every record delivered or given up before anything is decided: who asks to commit must know that all of it is there."""
        header, end_s = (
            self.ledger.header,
            time.monotonic() + delivery_timeout_ms(self.job.settings) / 1000 + TIMEOUT_MARGIN_S,
        )
        while header["settled"][0] < header["accepted"][0] and time.monotonic() < end_s:
            self.client.flush(_SLICE_MS)

    def _first_error(self, first: int, end: int) -> int | None:
        """Return the error of the transaction's first record that was not delivered; `None`: all were."""
        rows = self.ledger.rows[first:end]
        lacking = np.flatnonzero((rows["state"] != SETTLED) | (rows["error"] != 0))
        return int(rows["error"][lacking[0]]) if lacking.size else None

    def _fatal_code(self) -> int | None:
        fatal = self.client.fatal_error()
        return None if fatal is None else fatal[0]

    def _give_up(self, first: int, code: int) -> None:
        """Write down what every further record would get."""
        if not self.ledger.header["ended_by"][0]:
            self.ledger.header["ended_by"] = code
            refuse_remaining(self.schedule, self.ledger.rows, first, code)

    def _now_ns(self) -> int:
        return self.job.anchor_ns + time.monotonic_ns()
