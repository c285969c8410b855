"""What a copier makes of what it has read: a record of the same identity in the output topic, alone or in a transaction with the group's offsets.

Consume-process-produce of KIP-98 and KIP-447, with librdkafka's producer. A record is taken apart, as an application does, and made anew: whose it is, its
number, its intended time, its key and its size are those of the record that was read. When the group commits is `member_work`'s.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from experiments.clients.group.consumer import GroupConsumer
from experiments.clients.group.member import MemberJob, Output
from experiments.clients.librdkafka.client import Client
from experiments.clients.librdkafka.library import (
    COPY_PAYLOAD,
    NO_ERROR,
    PRODUCER,
    QUEUE_FULL,
    Message,
    error_text,
    library,
)
from experiments.clients.process.mapped_file import Records
from experiments.clients.producer.loop import KEY_BYTES
from experiments.clients.producer.transactions import TransactionApi, TransactionError
from experiments.clients.record.keys import keys_of
from experiments.clients.record.layout import Origin
from experiments.clients.record.value import Words, begin_value, encode
from experiments.clients.settings.librdkafka import delivery_timeout_ms, transaction_timeout_ms

INIT_TIMEOUT_S: Final = 60.0
MARGIN_S: Final = 5.0
_SLICE_MS: Final = 100
_REPORT: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Message), ctypes.c_void_p)


class CopyOutput:
    """The producer of a copier, as a context manager; without transactions: what is stored stays.

    Args:
        job: whose it is.
        output: what it writes to.
        settings: the producer's, the addresses too.
    """

    def __init__(self, job: MemberJob, output: Output, settings: Mapping[str, str]) -> None:
        self._job, self._output, self._settings = job, output, settings
        self._values: dict[int, Words] = {}
        self._due, self._error = 0, NO_ERROR
        self._callback = _REPORT(self._reported)
        self._client = self._made()

    def __enter__(self) -> Self:
        """Return the copier's producer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the producer."""
        self._client.__exit__(kind, error, trace)

    def copy(self, rows: Records) -> str | None:
        """Make a copy of each record of ours, and return when each is settled; return why not all of them are stored.

        Args:
            rows: of dtype `reads.Read`.
        """
        if self._client.fatal_error() is not None:
            self._begin_anew()
        self._due, self._error = 0, NO_ERROR
        ours = rows[rows["origin"] == Origin.OURS]
        for row, key in zip(ours, self._keys(ours), strict=True):
            self._produce(row, key)
        end_s = time.monotonic() + delivery_timeout_ms(self._settings) / 1000 + MARGIN_S
        while self._due and time.monotonic() < end_s:
            self._client.flush(_SLICE_MS)
        if self._due:
            unsettled = f"{self._due} copies were not settled"
            self._begin_anew()  # or their reports would be taken for those of the next ones
            return unsettled
        return None if self._error == NO_ERROR else error_text(self._error)

    def _made(self) -> Client:
        return Client(
            PRODUCER,
            self._settings,
            log=self._job.output_log,
            clock_ns=self._job.anchor_ns,
            prepare=self._prepare,
        )

    def _begin_anew(self) -> None:
        """Be another producer: this one takes nothing more."""
        self._client.__exit__(None, None, None)
        self._client = self._made()

    def _prepare(self, conf: int) -> None:
        library().rd_kafka_conf_set_dr_msg_cb(conf, ctypes.cast(self._callback, ctypes.c_void_p))

    def _reported(self, _client: int, message: Any, _opaque: int) -> None:
        self._due -= 1
        self._error = message.contents.err or self._error

    def _keys(self, rows: Records) -> list[bytes | None]:
        """Return the keys as the records' producer wrote them: a number, its highest byte first."""
        if not self._output.keying.keys:
            return [None] * rows.size
        return [
            key.to_bytes(KEY_BYTES, "big")
            for key in keys_of(np.ascontiguousarray(rows["seq"]), self._output.keying).tolist()
        ]

    def _produce(self, row: np.void, key: bytes | None) -> None:
        """Hand one copy over; a full queue is waited for."""
        given = (
            self._client.topic(self._output.topic),
            int(row["partition"]) % self._output.partitions,
            COPY_PAYLOAD,
        )
        what = (
            self._value(row).ctypes.data,
            self._output.record_size_bytes,
            key,
            KEY_BYTES if key else 0,
            None,
        )
        self._due += 1
        while library().rd_kafka_produce(*given, *what) != 0:
            code = library().rd_kafka_last_error()
            if code != QUEUE_FULL:
                self._due, self._error = self._due - 1, code
                return
            self._client.poll(_SLICE_MS)

    def _value(self, row: np.void) -> Words:
        producer, size_bytes = int(row["producer"]), self._output.record_size_bytes
        if producer not in self._values:
            self._values[producer] = begin_value(size_bytes, producer, self._job.token)
        encode(self._values[producer], size_bytes, int(row["seq"]), int(row["intended_ns"]))
        return self._values[producer]


class TransactionalCopyOutput(CopyOutput):
    """A transactional producer: the copies and how far their group has read are committed together, or neither is.

    Its `transactional.id` is its own through all its lives: the next life fences the one before, and aborts what that left open. Whoever was thrown
    out of the group is refused the commit (KIP-447).
    """

    def __init__(self, job: MemberJob, output: Output, settings: Mapping[str, str]) -> None:
        super().__init__(job, output, settings)
        self._is_open = False
        self._patience_s = transaction_timeout_ms(settings) / 1000 + MARGIN_S
        self._begin_transactions()

    def copy(self, rows: Records) -> str | None:
        """Begin a transaction, unless one is open, and copy in it."""
        error = None if self._is_open else self._transactions.begin()
        if error is not None:
            return str(error)
        self._is_open = True
        return super().copy(rows)

    def commit(
        self, consumer: GroupConsumer, offsets: Mapping[int, int]
    ) -> TransactionError | None:
        """Commit the copies and these offsets; return why they are not committed, as far as the producer was told."""
        error = self._transactions.insist(
            lambda timeout_s: consumer.commit_within(self._transactions, offsets, timeout_s),
            self._patience_s,
        )
        error = error or self._transactions.insist(self._transactions.commit, self._patience_s)
        self._is_open = error is not None
        return error

    def abort(self) -> None:
        """Have nothing of the transaction shown; a producer that cannot even do that, as it was fenced, is another one from now on.

        Raises:
            HarnessError: no coordinator gave the next one a producer id.
        """
        if (
            self._client.fatal_error() is not None
            or self._transactions.insist(self._transactions.abort, self._patience_s) is not None
        ):
            self._begin_anew()
        self._is_open = False

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._begin_transactions()

    def _begin_transactions(self) -> None:
        self._transactions = TransactionApi(self._client)
        self._transactions.init(INIT_TIMEOUT_S)
