"""The memory of a record's value and identity, which the send loop fills and librdkafka copies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ackbench.experiments.trial.clients.librdkafka.value import begin_value
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.record.layout import (
    HEADER_BYTES,
    IDENTITY_BYTES,
    value_with_place,
)

_NONE: Final = 0


class RecordContent:
    """The content of a producer's records, of which the loop writes one after the other.

    Args:
        job: of the producer.
    """

    def __init__(self, job: ProducerJob) -> None:
        self.words = begin_value(job.record_size_bytes, job.producer, job.token)
        """ackbench's own value."""
        self._identity_words = begin_value(HEADER_BYTES, job.producer, job.token)
        self._where = job.identity
        self._value: Any = self.words.view(np.uint8)[: job.record_size_bytes]
        self._identity: Any = np.zeros(IDENTITY_BYTES, np.uint8)
        if job.value is not None:
            content, begin = value_with_place(job.value)
            self._value = np.frombuffer(bytearray(content), np.uint8)
            if job.identity == "text":
                self._identity = self._value[begin : begin + IDENTITY_BYTES]

    @property
    def identity(self) -> int:
        """Address of the identity's text; 0: the value is the identity."""
        return _NONE if self._where == "value" else int(self._identity.ctypes.data)

    @property
    def value_columns(self) -> tuple[int, ...]:
        """The columns of `Schedule` from `size_bytes` to `identity_words`."""
        return (
            self._value.size,
            self._value.ctypes.data,
            self.identity,
            self._identity_words.ctypes.data,
        )

    @property
    def key_columns(self) -> tuple[int, int]:
        """The columns `key` and `key_bytes` of records whose key is no number."""
        return (self.identity, IDENTITY_BYTES) if self._where == "key" else (_NONE, 0)
