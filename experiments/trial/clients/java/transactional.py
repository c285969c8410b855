"""Kafka's Java producer with transactions, in a program of ackbench's own.

Kafka's tools jar has no producer that reports both its records and its transactions (see
`docs/decisions/0025`). `TransactionalProducer.java` is Kafka's `KafkaProducer` with the schedule of
librdkafka's transactional producer, and with the options and reports of VerifiableProducer.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.terms import REJECTED
from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.trial.clients.java.outcomes import classify_exception
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.producer.transactions_file import (
    NOT_REPORTED,
    REPORTED_ABORTED,
    REPORTED_COMMITTED,
    REPORTED_FENCED,
    Transaction,
    count_begun,
    transaction_numbers,
    transactions_table,
)
from ackbench.experiments.trial.clients.programs.producer import VerifiableProducer
from ackbench.experiments.trial.clients.programs.program import parse_lines, trial_clock_ns

_BEGUN: Final = "transaction_begun"
_COMMIT_REQUESTED: Final = "transaction_commit_requested"
_ENDINGS: Final = {
    "transaction_committed": REPORTED_COMMITTED,
    "transaction_aborted": REPORTED_ABORTED,
    "transaction_fenced": REPORTED_FENCED,
    "transaction_failed": NOT_REPORTED,
}


class JavaTransactionalProducer(VerifiableProducer):
    """Implements `interface.Producer` with transactions."""

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return the attempts (`programs.tables`), each with its transaction.

        A record of a transaction that was never begun was never sent.
        """
        table = super().attempts(log)
        rows = self._transactions()
        seq = table["seq"].to_numpy()
        is_sent = pa.array(seq < count_begun(rows) * self.job.transaction_records)
        names = table.schema.names
        outcome = pc.if_else(is_sent, table["outcome"].cast(pa.string()), REJECTED)
        numbers = transaction_numbers(seq, rows, self.job.transaction_records)
        for name, column in (("outcome", outcome), ("transaction", numbers)):
            field = table.schema.field(name)
            table = table.set_column(names.index(name), field, column.cast(field.type))
        return table

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return how the transactions ended, as far as they were reported."""
        return transactions_table(
            self._transactions(), self.job.producer, attempts.num_rows, self.job.transaction_records
        )

    def complete_summary(self, summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return the summary with the lateness of the records that no commit delayed."""
        return (
            super()
            .complete_summary(summary, log)
            .model_copy(update={"lateness_is_without_transactions": True})
        )

    def _by_schedule(self, attempts: pa.Table) -> pa.Table:
        return due_in_own_transaction(attempts, self._transactions(), self.job.transaction_records)

    def _transactions(self) -> Records:
        names = (_BEGUN, _COMMIT_REQUESTED, *_ENDINGS)
        lines = parse_lines(self.output.read_bytes(), *names)
        count = -(-self.job.records // self.job.transaction_records)
        return transaction_rows(lines, count, self._ahead_ns)

    def _arguments(self) -> list[str]:
        options = {
            "--transaction-records": self.job.transaction_records,
            "--abort-every": self.job.abort_every,
            "--warm-up-records": self._warm_up_records,
        }
        more = [str(argument) for option in options.items() for argument in option]
        return [*super()._arguments(), *more]


def due_in_own_transaction(attempts: pa.Table, rows: Records, transaction_records: int) -> pa.Table:
    """Return the attempts that were due once their own transaction had begun.

    Args:
        attempts: with the columns seq and intended_ns.
        rows: the producer's transactions, of dtype `Transaction`.
        transaction_records: how many records of the schedule each has.
    """
    number = attempts["seq"].to_numpy() // transaction_records
    is_due = attempts["intended_ns"].to_numpy() >= rows["begin_ns"][number]
    return attempts.filter(pa.array(is_due))


def transaction_rows(lines: pa.Table, count: int, ahead_ns: int) -> Records:
    """Return the transactions that the program reported, of dtype `Transaction`.

    Args:
        lines: the program's lines about transactions, in order; schema `LINE_SCHEMA`.
        count: the number of transactions in the schedule.
        ahead_ns: how far the trial's clock is ahead of the wall clock.
    """
    rows = np.zeros(count, Transaction)
    for line in lines.to_pylist():
        number, at_ns = int(line["value"]), trial_clock_ns(line["timestamp"], ahead_ns)
        if line["name"] == _BEGUN:
            rows["begin_ns"][number] = at_ns
        elif line["name"] == _COMMIT_REQUESTED:
            rows["commit_requested"][number] = 1
        else:
            rows["end_ns"][number] = at_ns
            rows["reported"][number] = _ENDINGS[line["name"]]
            if line["exception"] is not None:
                rows["error"][number] = classify_exception(line["exception"], retries=1)[0]
    return rows
