"""Records of a trial to which nothing happened: whatever is found of them after a fault was planted, the planted fault is why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.ledger.schema import ACKED, COMMITTED
from experiments.selftest.copies import LedgerCopy, Rows

Flags = npt.NDArray[np.bool_]
_IDS_OF_A_PRODUCER = 1 << 40


@dataclass(frozen=True)
class Calm:
    """Rows of the three tables that tell of the same records, in the order of the log; equal places are the same record."""

    attempts: Rows
    log: Rows
    reads: Rows

    def at(self, places: Rows) -> Calm:
        """Return some of them."""
        return Calm(self.attempts[places], self.log[places], self.reads[places])


def calm(ledger: LedgerCopy) -> Calm:
    """Find the records that were acknowledged, in a committed transaction or in none, lie in the log once and in order, and were read along once.

    What members of a consumer group read is theirs: the reader along is consumer 0.
    """
    attempted, logged = _ids(ledger, "attempts"), _ids(ledger, "log")
    read = np.where(ledger.values("reads", "consumer") > 0, -1, _ids(ledger, "reads"))
    outcome = np.asarray(ledger.tables["attempts"]["outcome"].cast("string").to_pylist(), dtype=object)
    fit = logged[_once(logged) & _in_order(ledger, logged) & np.asarray(ledger.tables["log"]["intact"])]
    fit = fit[(fit >= 0) & np.isin(fit, attempted[(outcome == ACKED) & _committed(ledger)]) & np.isin(fit, read[_once(read)])]
    return Calm(_where(attempted, fit), _where(logged, fit), _where(read, fit))


def _ids(ledger: LedgerCopy, name: str) -> npt.NDArray[np.int64]:
    """Return producer and seq as one number; below 0: no id of ours."""
    producer, seq = ledger.values(name, "producer"), ledger.values(name, "seq")
    return np.where((producer < 0) | (seq < 0), -1, producer * _IDS_OF_A_PRODUCER + seq)


def _committed(ledger: LedgerCopy) -> Flags:
    """Whether each attempt is of no transaction, or of one whose client was told that it is committed."""
    ended = ledger.tables["transactions"]
    told = np.asarray(ended["outcome"].cast("string").to_pylist(), dtype=object) == COMMITTED
    producer, transaction = ledger.values("attempts", "producer"), ledger.values("attempts", "transaction")
    of = (ledger.values("transactions", "producer") * _IDS_OF_A_PRODUCER + ledger.values("transactions", "transaction"))[told]
    return (transaction < 0) | np.isin(producer * _IDS_OF_A_PRODUCER + transaction, of)


def _once(ids: npt.NDArray[np.int64]) -> Flags:
    _, back, counts = np.unique(ids, return_inverse=True, return_counts=True)
    once: Flags = counts[back] == 1
    return once


def _in_order(ledger: LedgerCopy, ids: npt.NDArray[np.int64]) -> Flags:
    """Whether, of one producer and partition, all before have lower numbers, and all behind have higher ones."""
    ordered = np.zeros(len(ids), dtype=np.bool_)
    stream = np.where(ids < 0, -1, ids // _IDS_OF_A_PRODUCER * 1_000_000 + ledger.values("log", "partition"))
    for of in np.unique(stream[stream >= 0]):
        rows = np.flatnonzero(stream == of)
        rows = rows[np.argsort(ledger.values("log", "offset")[rows])]
        before = np.concatenate(([-1], np.maximum.accumulate(ids[rows])[:-1]))
        behind = np.concatenate((np.minimum.accumulate(ids[rows][::-1])[::-1][1:], [np.iinfo(np.int64).max]))
        ordered[rows] = (before < ids[rows]) & (ids[rows] < behind)
    return ordered


def _where(ids: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> Rows:
    """Return the row of each wanted id."""
    order = np.argsort(ids, kind="stable")
    rows: Rows = order[np.searchsorted(ids, wanted, sorter=order)]
    return rows
