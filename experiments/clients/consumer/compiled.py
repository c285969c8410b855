"""A librdkafka consumer that compiled code reads: how it is made, asked for its settings, and closed. How it comes to its partitions is each kind's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from experiments.clients.consumer.loop import Reading
from experiments.clients.librdkafka.client import Client, Interceptor
from experiments.clients.librdkafka.library import CONSUMER, library
from experiments.clients.process.mapped_file import Records

_SCRATCH_BYTES: Final = 1 << 20
"""Larger values are told as well, but their room is made for each."""


class CompiledConsumer:
    """A context manager around the client, its queue, and what the compiled loop is told.

    Args:
        settings: all that is passed, the addresses too.
        token: whose records are ours.
        anchor_ns: epoch = anchor + monotonic clock.
        log: the file for librdkafka's log; without one there is none.
        batch_records: taken from librdkafka at once, at most.
        prepare: called with librdkafka's configuration before the client is made.
        interceptors: called for each record.

    Raises:
        Refused: librdkafka does not take the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        token: int,
        anchor_ns: int,
        log: Path | None,
        batch_records: int,
        *,
        prepare: Callable[[int], None] | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        self._client = Client(
            CONSUMER,
            settings,
            log=log,
            clock_ns=anchor_ns,
            prepare=prepare,
            interceptors=interceptors,
        )
        self._queue = library().rd_kafka_queue_get_consumer(self._client.address)
        self._reading: Records = np.zeros(1, Reading)
        for name, value in (
            ("client", self._client.address),
            ("queue", self._queue),
            ("token", token),
            ("anchor_ns", anchor_ns),
        ):
            self._reading[name] = value
        self._messages, self._scratch = (
            np.zeros(batch_records, np.int64),
            np.zeros(_SCRATCH_BYTES // 8, np.uint64),
        )

    def __enter__(self) -> Self:
        """Return the consumer; nothing is assigned to it yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; a member leaves its group."""
        library().rd_kafka_queue_destroy(self._queue)
        library().rd_kafka_consumer_close(self._client.address)
        self._client.__exit__(kind, error, trace)

    def effective_settings(self) -> dict[str, str]:
        """Return all of its settings; see `Client.effective_settings`."""
        return self._client.effective_settings()
