"""The producer of a copier: it copies the records that the copier has read to an output topic.

Consume-process-produce as in KIP-98 and KIP-447, with librdkafka's producer. A record is decoded
and encoded again, as an application would do. The copy has the producer, seq, intended time, key
and size of the record that was read. When the group commits is decided in `member_main`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np

from ackbench.experiments.trial.clients.group.consumer import GroupConsumer
from ackbench.experiments.trial.clients.group.jobs import MARGIN_S, CopyTarget, MemberJob
from ackbench.experiments.trial.clients.librdkafka.client import Client
from ackbench.experiments.trial.clients.librdkafka.library import (
    COPY_PAYLOAD,
    NO_ERROR,
    PRODUCER,
    QUEUE_FULL,
    Message,
    error_text,
    library,
)
from ackbench.experiments.trial.clients.librdkafka.value import Words, begin_value, encode
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.producer.loop import KEY_BYTES
from ackbench.experiments.trial.clients.producer.transactions import (
    TransactionApi,
    TransactionError,
)
from ackbench.experiments.trial.clients.record.keys import record_keys
from ackbench.experiments.trial.clients.record.layout import Origin
from ackbench.experiments.trial.clients.settings.librdkafka import delivery_timeout_ms

INIT_TIMEOUT_S: Final = 60.0
_SLICE_MS: Final = 100
_DELIVERY_REPORT: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(Message), ctypes.c_void_p
)


class CopyProducer:
    """The producer of a copier without transactions, as a context manager.

    Args:
        job: the copier's job.
        target: the output topic.
        settings: the producer's settings, `bootstrap.servers` included.
    """

    def __init__(self, job: MemberJob, target: CopyTarget, settings: Mapping[str, str]) -> None:
        self._job, self._target, self._settings = job, target, settings
        self._values: dict[int, Words] = {}
        self._unsettled, self._error = 0, NO_ERROR
        self._callback = _DELIVERY_REPORT(self._on_delivery)
        self._client = self._create_client()

    def __enter__(self) -> Self:
        """Return the producer."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the producer."""
        self._client.__exit__(*error)

    def copy(self, rows: Records) -> str | None:
        """Copy each record of the trial and wait until each copy is settled.

        Args:
            rows: of dtype `reads.ReadRow`.

        Returns:
            Why not all copies are stored; `None`: all of them are.
        """
        if self._client.fatal_error() is not None:
            self._replace_client()
        self._unsettled, self._error = 0, NO_ERROR
        records = rows[rows["origin"] == Origin.TRIAL]
        for row, key in zip(records, self._keys(records), strict=True):
            self._produce(row, key)
        end_s = time.monotonic() + delivery_timeout_ms(self._settings) / 1000 + MARGIN_S
        while self._unsettled and time.monotonic() < end_s:
            self._client.flush(_SLICE_MS)
        if self._unsettled:
            unsettled = f"{self._unsettled} copies were not settled"
            self._replace_client()  # late delivery reports must not count for the next copies
            return unsettled
        return None if self._error == NO_ERROR else error_text(self._error)

    def _create_client(self) -> Client:
        return Client(
            PRODUCER,
            self._settings,
            log=self._job.output_log,
            clock_anchor_ns=self._job.anchor_ns,
            prepare=self._prepare,
        )

    def _replace_client(self) -> None:
        """Close the client and create another one: after a fatal error it accepts no record."""
        self._client.__exit__(None, None, None)
        self._client = self._create_client()

    def _prepare(self, conf: int) -> None:
        library().rd_kafka_conf_set_dr_msg_cb(conf, ctypes.cast(self._callback, ctypes.c_void_p))

    def _on_delivery(self, _client: int, message: Any, _opaque: int) -> None:
        self._unsettled -= 1
        self._error = message.contents.err or self._error

    def _keys(self, rows: Records) -> list[bytes | None]:
        """Return the keys as the records' producer wrote them: big-endian numbers, or none."""
        if not self._target.keys.count:
            return [None] * rows.size
        return [
            key.to_bytes(KEY_BYTES, "big")
            for key in record_keys(np.ascontiguousarray(rows["seq"]), self._target.keys).tolist()
        ]

    def _produce(self, row: np.void, key: bytes | None) -> None:
        """Pass one copy to librdkafka; wait while its queue is full."""
        destination = (
            self._client.topic_handle(self._target.topic),
            int(row["partition"]) % self._target.partitions,
            COPY_PAYLOAD,
        )
        content = (
            self._value(row).ctypes.data,
            self._target.record_size_bytes,
            key,
            KEY_BYTES if key else 0,
            None,
        )
        self._unsettled += 1
        while library().rd_kafka_produce(*destination, *content) != 0:
            code = library().rd_kafka_last_error()
            if code != QUEUE_FULL:
                self._unsettled, self._error = self._unsettled - 1, code
                return
            self._client.poll(_SLICE_MS)

    def _value(self, row: np.void) -> Words:
        producer, size_bytes = int(row["producer"]), self._target.record_size_bytes
        if producer not in self._values:
            self._values[producer] = begin_value(size_bytes, producer, self._job.token)
        encode(self._values[producer], size_bytes, int(row["seq"]), int(row["intended_ns"]))
        return self._values[producer]


class TransactionalCopyProducer(CopyProducer):
    """The producer of a copier with transactions: copies and offsets are committed together.

    Each copier keeps its own `transactional.id` through all generations of its process. The next
    generation fences the one before and aborts the transaction that it left open. A copier that
    the group has removed cannot commit (KIP-447).
    """

    def __init__(self, job: MemberJob, target: CopyTarget, settings: Mapping[str, str]) -> None:
        super().__init__(job, target, settings)
        self._is_open = False
        self._timeout_s = target.transaction_s
        self._init_transactions()

    def copy(self, rows: Records) -> str | None:
        """Begin a transaction, unless one is open, and copy the records in it."""
        error = None if self._is_open else self._transactions.begin_transaction()
        if error is not None:
            return str(error)
        self._is_open = True
        return super().copy(rows)

    def commit(
        self, consumer: GroupConsumer, offsets: Mapping[int, int]
    ) -> TransactionError | None:
        """Commit the copies and these offsets in one transaction.

        Returns:
            Why they are not committed, as far as the producer knows; `None`: they are.
        """
        error = self._transactions.retry(
            lambda timeout_s: consumer.commit_in_transaction(
                self._transactions, offsets, timeout_s
            ),
            self._timeout_s,
        )
        error = error or self._transactions.retry(
            self._transactions.commit_transaction, self._timeout_s
        )
        self._is_open = error is not None
        return error

    def abort(self) -> None:
        """Abort the transaction; replace a producer that cannot, because it was fenced.

        Raises:
            HarnessError: no coordinator gave the new producer an id.
        """
        if (
            self._client.fatal_error() is not None
            or self._transactions.retry(self._transactions.abort_transaction, self._timeout_s)
            is not None
        ):
            self._replace_client()
        self._is_open = False

    def _replace_client(self) -> None:
        super()._replace_client()
        self._init_transactions()

    def _init_transactions(self) -> None:
        self._transactions = TransactionApi(self._client)
        self._transactions.init_transactions(INIT_TIMEOUT_S)
