"""A producer that takes over from one that was killed: what its ledger tells, what is sent again, and where the schedule goes on.

It is another session to the brokers: idempotence does not reach across it (KIP-98), so what was stored and never acknowledged is stored again.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from experiments.clients.attempts import DUE, SENT, SETTLED, UNTOUCHED, AttemptsFile
from experiments.clients.compiled import compiled, monotonic_ns, poll, types
from experiments.clients.mapping import Column
from experiments.clients.producing import HEADER, KEY_BYTES, POLL_EVERY_RECORDS, ROWS, SCHEDULE, WORDS, hand_over, key_of, write_key
from experiments.clients.value_compiled import encode

SEQS: Final = types.int64[::1]


@compiled(types.void(SCHEDULE, HEADER, ROWS, WORDS, SEQS))
def send_again(schedule: Any, header: Any, rows: Any, words: Any, seqs: Any) -> None:
    """Hand records over again, each with its own id and intended time, so that a second copy is known for one."""
    clock, key = np.zeros(2, np.int64), np.zeros(KEY_BYTES, np.uint8)
    if schedule[0].keys > 0:
        schedule[0].key, schedule[0].key_bytes = key.ctypes.data, KEY_BYTES
    for index in range(seqs.size):
        seq = seqs[index]
        rows[seq].sent_ns = schedule[0].anchor_ns + monotonic_ns(clock)
        encode(words, schedule[0].size_bytes, seq, rows[seq].intended_ns)
        if schedule[0].keys > 0:
            write_key(key, key_of(schedule, seq))
        header[0].accepted += 1 if hand_over(schedule, rows, seq, words, clock) == 0 else 0
        if index % POLL_EVERY_RECORDS == 0:
            poll(schedule[0].client, 0)


def taken_up(ledger: AttemptsFile) -> int:
    """Return how much of the schedule was taken up, whoever did so."""
    return int(np.count_nonzero(ledger.rows["state"] != UNTOUCHED))


def unsettled(ledger: AttemptsFile) -> Column:
    """Return the records that were taken up and of which nobody was told anything, in the schedule's order."""
    return np.flatnonzero(np.isin(ledger.rows["state"], (DUE, SENT)))


def take_over(ledger: AttemptsFile) -> None:
    """Count anew what a killed producer counted: it died between any two writes, and reports on what it had in flight come no more."""
    header, settled = ledger.header[0], ledger.rows["state"] == SETTLED
    header["taken_up"] = taken_up(ledger)
    header["accepted"] = header["settled"] = np.count_nonzero(settled)
    header["acked"] = np.count_nonzero(settled & (ledger.rows["error"] == 0))
    for counter in ("warmed", "warm_up_error", "last_offset", "without_offset", "ended_by"):
        header[counter] = 0
