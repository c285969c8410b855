"""A transactional producer's schedule: the same compiled loop for the records, and between them begin, commit and abort.

The schedule stays open loop. A commit that takes long makes the records behind it late, and they count from their intended time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from experiments.clients.attempts import SETTLED, AttemptsFile
from experiments.clients.handle import Client
from experiments.clients.mapping import Records
from experiments.clients.producer_job import ProducerJob
from experiments.clients.producing import drive, refuse_the_rest
from experiments.clients.settings import delivery_timeout_ms, transaction_timeout_ms
from experiments.clients.transact import FENCINGS, TransactionError, Transactions
from experiments.clients.transactions_file import TOLD_ABORTED, TOLD_COMMITTED, TOLD_FENCED, attach_transactions

MARGIN_S: Final = 5.0
"""Beyond the transaction's own timeout, after which the coordinator has aborted it anyway."""
_SLICE_MS: Final = 100


@dataclass(frozen=True)
class Transacting:
    """One producer at its transactions."""

    client: Client
    job: ProducerJob
    ledger: AttemptsFile
    schedule: Records
    words: Any

    def follow(self) -> None:
        """Follow the schedule to its end, or until the client takes nothing more."""
        rows = attach_transactions(self.job.transactions, write=True)
        transactions = Transactions(self.client)
        for number in range(rows.size):
            first = number * self.job.transaction_records
            error = transactions.begin()
            if error is None:
                error = self._one(transactions, rows[number : number + 1], number, first)
                first += self.job.transaction_records
            if error is not None:
                self._give_up(first, error.code)
                return

    def _one(self, transactions: Transactions, row: Records, number: int, first: int) -> TransactionError | None:
        """Send one transaction's records and end it; return the error after which there is no other."""
        row["begin_ns"] = self._now_ns()
        end = min(first + self.job.transaction_records, self.ledger.rows.size)
        drive(self.schedule, self.ledger.header, self.ledger.rows, self.words, first, end)
        self._flush()
        undelivered = self._first_error(first, end)
        meant_to_abort = self.job.abort_every > 0 and (number + 1) % self.job.abort_every == 0
        if not meant_to_abort and undelivered is None:
            row["asked"] = 1
            error = transactions.insist(transactions.commit, self._patience_s())
            if error is None or not error.requires_abort:
                return self._told(row, TOLD_COMMITTED, error)
            undelivered = error.code
        row["error"] = undelivered or 0
        return self._told(row, TOLD_ABORTED, transactions.insist(transactions.abort, self._patience_s()))

    def _told(self, row: Records, ending: int, error: TransactionError | None) -> TransactionError | None:
        """Write down how it ended; a fatal error, or patience at its end, is the end of them all."""
        if error is not None:
            row["error"] = error.code
            ending = TOLD_FENCED if error.code in FENCINGS or self._fatal_code() in FENCINGS else 0
        row["end_ns"] = self._now_ns()
        row["ending"] = ending
        return error

    def _patience_s(self) -> float:
        """How long the coordinator keeps the transaction, and a little more."""
        return transaction_timeout_ms(self.job.settings) / 1000 + MARGIN_S

    def _flush(self) -> None:
        """Have every record delivered or given up before anything is decided: who asks to commit must know that all of it is there."""
        header, end_s = self.ledger.header, time.monotonic() + delivery_timeout_ms(self.job.settings) / 1000 + MARGIN_S
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
            refuse_the_rest(self.schedule, self.ledger.rows, first, code)

    def _now_ns(self) -> int:
        return self.job.anchor_ns + time.monotonic_ns()
