"""The mapped file with a producer's attempts, and the outcome of each record.

The file begins with one page of counters. Then follow one row per record, at the record's position
in the schedule, and a separate column for the latencies: broker threads write the latencies, the
schedule's thread writes the rows, and they do not share cache lines.

Only the producer's process writes, and only to memory. The kernel keeps the pages if the process
crashes, and the parent process reads the file. Nothing is flushed to the disk: that would matter
only if the machine crashed, which also ends the trial.

The outcome of a record is acked, rejected or unknown, as far as its client can know. Sources:
librdkafka's `rd_kafka_handle_Produce_error` and `rd_kafka_err_action` (rdkafka_request.c), which
state for each error whether the message may have been persisted; its INTRODUCTION.md, "Message
persistence status"; Kafka's error codes, https://kafka.apache.org/protocol#protocol_error_codes.

The error code alone can hide an earlier attempt: a record whose first request got no answer and
whose retry was refused ends with the code of the refusal. librdkafka keeps the worst state as the
message's *persistence status* and never lowers it (`rd_kafka_msgq_set_metadata`,
`rd_kafka_retry_msgq`). So a record counts as rejected only if its code is in `NEVER_APPENDED` and
its status is NOT_PERSISTED.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.schema import ATTEMPTS
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.process.mapped_file import Column, Records
from ackbench.experiments.trial.clients.record.keys import record_keys
from ackbench.infra.errors import HarnessError

COUNTERS_BYTES: Final = 4096

Counters = np.dtype(
    [
        ("records", "<i8"),  # rows in the file
        ("next_seq", "<i8"),  # the first record of the schedule that was not attempted
        ("accepted", "<i8"),  # records that librdkafka accepted
        ("settled", "<i8"),  # accepted records with a delivery report
        ("acked", "<i8"),  # settled records without an error
        ("warm_up_settled", "<i8"),  # settled warm-up records
        ("warm_up_error", "<i8"),  # the last error of a warm-up record
        ("last_offset", "<i8"),  # of the previous delivery report
        ("without_offset", "<i8"),  # 1: the broker assigned no offset to the current batch
        ("fatal_error", "<i8"),  # the error after which the client accepted no more; 0: none
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
"""The size of one record: its row and its latency."""

NOT_DUE: Final = 0
DUE: Final = 1
"""About to be passed to librdkafka. If the producer crashes here, the outcome is unknown."""
SENT: Final = 2
SETTLED: Final = 3
REFUSED: Final = 4
"""produce() did not accept it: the record never left the process."""


@dataclass(frozen=True)
class AttemptsFile:
    """The open mapping; all attributes are views of the file.

    `header` has one element, `rows` and `latency_us` have one element per record.
    """

    header: Records
    rows: Records
    latency_us: Column

    @classmethod
    def create(cls, path: Path, records: int) -> AttemptsFile:
        """Create the file and reserve its disk space.

        Without the reservation, a full disk would end the producer later with SIGBUS.

        Raises:
            OSError: the disk is full, or the folder is not writable.
        """
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, COUNTERS_BYTES + records * RECORD_BYTES)
        ledger = cls._map(path, mmap.ACCESS_WRITE)
        ledger.header["records"] = records
        return ledger

    @classmethod
    def open(cls, path: Path) -> AttemptsFile:
        """Map an existing file for reading.

        Raises:
            HarnessError: the file is missing or truncated.
        """
        try:
            ledger = cls._map(path, mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise HarnessError(f"the producer left no ledger at {path}: {error}") from error
        records = int(ledger.header["records"][0])
        if records != ledger.rows.size:
            raise HarnessError(
                f"{path} is truncated: it has room for {ledger.rows.size} records "
                f"and was created for {records}"
            )
        return ledger

    @classmethod
    def attach(cls, path: Path) -> AttemptsFile:
        """Map an existing file for writing, in the producer's process.

        Raises:
            OSError: the file is missing.
        """
        return cls._map(path, mmap.ACCESS_WRITE)

    def touch(self) -> None:
        """Fault in every page now, so that page faults do not delay the schedule."""
        for view in (self.rows.view(np.int64), self.latency_us):
            view[:: mmap.PAGESIZE // view.itemsize] = 0

    @classmethod
    def _map(cls, path: Path, access: int) -> AttemptsFile:
        with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=access)
        records = (len(memory) - COUNTERS_BYTES) // RECORD_BYTES
        rows = np.frombuffer(memory, Attempt, records, COUNTERS_BYTES)
        return cls(
            np.frombuffer(memory, Counters, 1),
            rows,
            np.frombuffer(memory, np.int64, records, COUNTERS_BYTES + rows.nbytes),
        )


NOT_PERSISTED: Final = 0
POSSIBLY_PERSISTED: Final = 1
PERSISTED: Final = 2
"""`rd_kafka_msg_status_t` (rdkafka.h)."""

NEVER_APPENDED: Final[dict[int, str]] = {
    # The client's own codes: the record was never written to a socket, or every request with it
    # was refused.
    -192: "_MSG_TIMED_OUT",
    -190: "_UNKNOWN_PARTITION",
    -188: "_UNKNOWN_TOPIC",
    -184: "_QUEUE_FULL",
    -166: "_TIMED_OUT_QUEUE",
    -152: "_PURGE_QUEUE",
    -150: "_FATAL",
    -138: "_INVALID_DIFFERENT_RECORD",
    # The leader's codes, before it appends (ReplicaManager.appendToLocalLog, LogValidator).
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
"""Errors after which the record is not in the log, with librdkafka's names.

Two errors that librdkafka treats as "not persisted" are not included. NOT_LEADER_FOR_PARTITION: a
leader that loses leadership while it waits for its followers returns it after it has appended
(DelayedProduce). KAFKA_STORAGE_ERROR: a part of the batch may be on the disk.
"""


def delivery_outcome(error: int, status: int) -> str:
    """Return the outcome of a record with a delivery report.

    Args:
        error: of the delivery report, `rd_kafka_resp_err_t`.
        status: of the delivery report, `rd_kafka_msg_status_t`.
    """
    if error == 0:
        return ACKED
    return REJECTED if error in NEVER_APPENDED and status == NOT_PERSISTED else UNKNOWN


_OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)


def attempts_from_rows(rows: Records, latency_us: Column, producer: int, keys: Keys) -> pa.Table:
    """Return the records that were due; schema `ATTEMPTS`.

    Args:
        rows: of dtype `Attempt`, in the schedule's order. The table ends before the first row that
            was never due, so seq is dense.
        latency_us: from sent to settled, for the settled records.
        producer: the producer's number.
        keys: the records' keys.
    """
    rows = rows[: int(np.count_nonzero(rows["state"] != NOT_DUE))]
    seq = np.arange(rows.size, dtype=np.int64)
    sent, settled = np.isin(rows["state"], (SENT, SETTLED)), rows["state"] == SETTLED
    columns = {
        "producer": pa.array(np.full(rows.size, producer, np.int32)),
        "seq": pa.array(seq),
        "key": (
            pa.array(record_keys(seq, keys)) if keys.count else pa.nulls(rows.size, pa.int64())
        ),
        "intended_ns": pa.array(rows["intended_ns"].copy()),
        "sent_ns": _null_unless(sent, rows["sent_ns"]),
        "settled_ns": _null_unless(settled, rows["sent_ns"] + latency_us[: rows.size] * 1000),
        "outcome": _outcomes(rows),
        "error": pa.array(rows["error"].copy()),
        "partition": _null_unless(settled & (rows["partition"] >= 0), rows["partition"]),
        "offset": _null_unless(
            settled & (rows["error"] == 0) & (rows["offset"] >= 0), rows["offset"]
        ),
        "transaction": pa.nulls(rows.size, pa.int64()),
    }
    return pa.table([columns[field.name].cast(field.type) for field in ATTEMPTS], schema=ATTEMPTS)


def _null_unless(known: Any, values: Any) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), mask=~known)


def _outcomes(rows: Records) -> pa.Array:
    """Return each record's outcome; computed once per distinct state, error and status."""
    results = (
        rows["state"].astype(np.int64) << 40
        | (rows["error"].astype(np.int64) & 0xFFFF_FFFF) << 8
        | rows["status"] & 0xFF
    )
    _, first, inverse = np.unique(results, return_index=True, return_inverse=True)
    outcomes = np.array([_OUTCOMES.index(_outcome(rows[index])) for index in first], np.int8)
    return pa.DictionaryArray.from_arrays(
        pa.array(outcomes[inverse] if rows.size else outcomes), pa.array(_OUTCOMES)
    )


def _outcome(row: np.void) -> str:
    if row["state"] == REFUSED:
        return REJECTED
    if row["state"] != SETTLED:
        return UNKNOWN
    return delivery_outcome(int(row["error"]), int(row["status"]))
