"""What a producer attempted, in a file mapping that outlives it.

The mapping begins with one page of counters; then follow a row a record, at the record's place in the schedule, and a column
of its own for the latencies: brokers' threads write that, the schedule's thread the rows, and neither waits for the other's
cache lines. Only the producer's process writes, and it writes to memory: the kernel keeps what was written when the process is killed, and the
parent reads the file. Nothing is flushed to the disk; that is not needed but when the machine dies, and then the trial has.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from experiments.clients.process.mapped_file import Column, Records
from experiments.clients.record.keys import record_keys
from experiments.ledger.record import KeyOptions
from experiments.ledger.schema import ACKED, ATTEMPTS, REJECTED, UNKNOWN
from infra.errors import HarnessError

COUNTERS_BYTES: Final = 4096


Counters = np.dtype(
    [
        ("records", "<i8"),  # rows in the file
        ("taken_up", "<i8"),  # the schedule is done up to here
        ("accepted", "<i8"),  # librdkafka took so many
        ("settled", "<i8"),  # of them, so many have a delivery report
        ("acked", "<i8"),  # of them, so many without an error
        ("warmed", "<i8"),  # warm-up records settled
        ("warm_up_error", "<i8"),  # the last error of a warm-up record
        ("last_offset", "<i8"),  # of the delivery report before
        (
            "without_offset",
            "<i8",
        ),  # 1: the reports under way are of a batch to which the broker gave no offset
        ("ended_by", "<i8"),  # the error after which the client took nothing more
    ]
)
"""The counters on the first page."""

Attempt = np.dtype(
    [
        ("intended_ns", "<i8"),
        ("sent_ns", "<i8"),
        ("offset", "<i8"),
        ("error", "<i4"),
        ("partition", "<i4"),
        ("state", "<i4"),
        ("status", "<i4"),  # rd_kafka_msg_status_t
    ]
)
"""One record. A row of zeros is a record that was never due."""

RECORD_BYTES: Final = Attempt.itemsize + 8
"""What one record takes: its row and its latency."""

NOT_DUE: Final = 0
DUE: Final = 1
"""About to be handed to librdkafka; a producer killed at that moment leaves it so, and nobody knows."""
SENT: Final = 2
SETTLED: Final = 3
REFUSED: Final = 4
"""produce() did not take it: it never left the process."""


@dataclass(frozen=True)
class AttemptsFile:
    """The mapping, open. `header` has one element, `rows` and `latency_us` one a record; all are views of the file."""

    header: Records
    rows: Records
    latency_us: Column

    @classmethod
    def create(cls, path: Path, records: int) -> AttemptsFile:
        """Make the file, all of its disk space reserved, so that a full disk is an error now and no signal later.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, COUNTERS_BYTES + records * RECORD_BYTES)
        made = cls._mapped(path, mmap.ACCESS_WRITE)
        made.header["records"] = records
        return made

    @classmethod
    def open(cls, path: Path) -> AttemptsFile:
        """Map an existing file, to read.

        Raises:
            HarnessError: there is none, or it is not whole.
        """
        try:
            found = cls._mapped(path, mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise HarnessError(f"the producer left no ledger at {path}: {error}") from error
        if found.header["records"][0] != found.rows.size:
            raise HarnessError(
                f"{path} has room for {found.rows.size} records and was made for {found.header['records'][0]}"
            )
        return found

    @classmethod
    def attach(cls, path: Path) -> AttemptsFile:
        """Map an existing file, to write: the producer's side.

        Raises:
            OSError: there is none.
        """
        return cls._mapped(path, mmap.ACCESS_WRITE)

    def touch(self) -> None:
        """Let the kernel find a page for each row now, and not while the schedule runs."""
        for view in (self.rows.view(np.int64), self.latency_us):
            view[:: mmap.PAGESIZE // view.itemsize] = 0

    @classmethod
    def _mapped(cls, path: Path, access: int) -> AttemptsFile:
        with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=access)
        records = (len(memory) - COUNTERS_BYTES) // RECORD_BYTES
        rows = np.frombuffer(memory, Attempt, records, COUNTERS_BYTES)
        return cls(
            np.frombuffer(memory, Counters, 1),
            rows,
            np.frombuffer(memory, np.int64, records, COUNTERS_BYTES + rows.nbytes),
        )


# ---------- What became of a record, as far as its client can tell: acked, rejected or unknown. Pure.
#
# Sources: librdkafka's `rd_kafka_handle_Produce_error` and `rd_kafka_err_action` (rdkafka_request.c), which say for each error
# whether the message may have been persisted, and its INTRODUCTION.md, "Message persistence status"; for the brokers' codes
# Kafka's own list, https://kafka.apache.org/protocol#protocol_error_codes.
#
# An error code alone can hide an earlier attempt: a record whose first request got no answer and whose retry was refused ends
# with the refusal's code. librdkafka keeps the worst it has seen as the message's *persistence status* and never lowers it
# (`rd_kafka_msgq_set_metadata`, `rd_kafka_retry_msgq`). So a record counts as rejected only where both agree: its code is one
# of the table below, and its status is NOT_PERSISTED.


NOT_PERSISTED: Final = 0
POSSIBLY_PERSISTED: Final = 1
PERSISTED: Final = 2
"""`rd_kafka_msg_status_t` (rdkafka.h)."""

NEVER_APPENDED: Final[dict[int, str]] = {
    # The client's own: the record was never handed to a socket, or no request with it was answered other than by a refusal.
    -192: "_MSG_TIMED_OUT",
    -190: "_UNKNOWN_PARTITION",
    -188: "_UNKNOWN_TOPIC",
    -184: "_QUEUE_FULL",
    -166: "_TIMED_OUT_QUEUE",
    -152: "_PURGE_QUEUE",
    -150: "_FATAL",
    -138: "_INVALID_DIFFERENT_RECORD",
    # The leader's, given before it appends (ReplicaManager.appendToLocalLog, LogValidator).
    2: "INVALID_MSG",
    3: "UNKNOWN_TOPIC_OR_PART",
    5: "LEADER_NOT_AVAILABLE",
    10: "MSG_SIZE_TOO_LARGE",
    17: "TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    21: "INVALID_REQUIRED_ACKS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    47: "INVALID_PRODUCER_EPOCH",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
}
"""Errors that say the record is not in the log, by librdkafka's names.

Not among them, though librdkafka takes them for "not persisted": NOT_LEADER_FOR_PARTITION, which a leader that is deposed
while it waits for its followers answers after it has appended (DelayedProduce), and KAFKA_STORAGE_ERROR, after which part of
a batch may be on the disk.
"""


def delivery_outcome(error: int, status: int) -> str:
    """Return the outcome of a record that its client settled.

    Args:
        error: of the delivery report, `rd_kafka_resp_err_t`.
        status: of the delivery report, `rd_kafka_msg_status_t`.
    """
    if error == 0:
        return ACKED
    return REJECTED if error in NEVER_APPENDED and status == NOT_PERSISTED else UNKNOWN


# ---------- What a producer attempted, as the ledger's table. Pure.


_OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)


def attempts_from_rows(
    rows: Records, latency_us: Column, producer: int, keying: KeyOptions
) -> pa.Table:
    """Return the records that were due as the ledger's `attempts`.

    Args:
        rows: of dtype `Attempt`, in the schedule's order. Rows that were never due end the table: seq stays dense.
        latency_us: how long each took to settle, for those that are settled.
        producer: their producer's number.
        keying: which keys they had.
    """
    rows = rows[: int(np.count_nonzero(rows["state"] != NOT_DUE))]
    seq = np.arange(rows.size, dtype=np.int64)
    taken, settled = np.isin(rows["state"], (SENT, SETTLED)), rows["state"] == SETTLED
    columns = {
        "producer": pa.array(np.full(rows.size, producer, np.int32)),
        "seq": pa.array(seq),
        "key": pa.array(record_keys(seq, keying))
        if keying.keys
        else pa.nulls(rows.size, pa.int64()),
        "intended_ns": pa.array(rows["intended_ns"].copy()),
        "sent_ns": _where(taken, rows["sent_ns"]),
        "settled_ns": _where(settled, rows["sent_ns"] + latency_us[: rows.size] * 1000),
        "outcome": _outcomes(rows),
        "error": pa.array(rows["error"].copy()),
        "partition": _where(settled & (rows["partition"] >= 0), rows["partition"]),
        "offset": _where(settled & (rows["error"] == 0) & (rows["offset"] >= 0), rows["offset"]),
        "transaction": pa.nulls(rows.size, pa.int64()),
    }
    return pa.table([columns[field.name].cast(field.type) for field in ATTEMPTS], schema=ATTEMPTS)


def _where(known: Any, values: Any) -> pa.Array:
    """Null where it is not known."""
    return pa.array(np.ascontiguousarray(values), mask=~known)


def _outcomes(rows: Records) -> pa.Array:
    """Judge each kind of ending once: there are a handful."""
    endings = (
        rows["state"].astype(np.int64) << 40
        | (rows["error"].astype(np.int64) & 0xFFFF_FFFF) << 8
        | rows["status"] & 0xFF
    )
    _, first, kind = np.unique(endings, return_index=True, return_inverse=True)
    judged = np.array([_OUTCOMES.index(_outcome(rows[index])) for index in first], np.int8)
    return pa.DictionaryArray.from_arrays(
        pa.array(judged[kind] if rows.size else judged), pa.array(_OUTCOMES)
    )


def _outcome(row: np.void) -> str:
    if row["state"] == REFUSED:
        return REJECTED
    return (
        delivery_outcome(int(row["error"]), int(row["status"]))
        if row["state"] == SETTLED
        else UNKNOWN
    )
