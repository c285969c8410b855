"""The base of the librdkafka consumers whose records compiled code reads.

It creates the client, reports its effective settings and closes it. How partitions are assigned
is up to the subclass: `AssignedConsumer` or `GroupConsumer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np

from ackbench.experiments.trial.clients.consumer.loop import ReaderState
from ackbench.experiments.trial.clients.librdkafka.client import Client, Interceptor
from ackbench.experiments.trial.clients.librdkafka.library import CONSUMER, library
from ackbench.experiments.trial.clients.process.mapped_file import Records

_SCRATCH_BYTES: Final = 1 << 20
"""Values up to this size are copied into one buffer; a larger one gets a buffer of its own."""


class CompiledConsumer:
    """A context manager around the client, its queue, and the state of the compiled loop.

    Args:
        settings: the client's settings, `bootstrap.servers` included.
        token: identifies the trial's records.
        anchor_ns: time since the epoch = anchor + monotonic clock.
        log: the file for librdkafka's log; `None`: no log.
        batch_records: how many records are taken from librdkafka at once, at most.
        prepare: called with librdkafka's configuration before the client is created.
        interceptors: called for each record.

    Raises:
        ConfigRejected: librdkafka rejects the settings.
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
            clock_anchor_ns=anchor_ns,
            prepare=prepare,
            interceptors=interceptors,
        )
        self._queue = library().rd_kafka_queue_get_consumer(self._client.address)
        self._state: Records = np.zeros(1, ReaderState)
        for name, value in (
            ("client", self._client.address),
            ("queue", self._queue),
            ("token", token),
            ("anchor_ns", anchor_ns),
        ):
            self._state[name] = value
        self._messages = np.zeros(batch_records, np.int64)
        self._scratch = np.zeros(_SCRATCH_BYTES // 8, np.uint64)

    def __enter__(self) -> Self:
        """Return the consumer; no partition is assigned yet."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the consumer; a group member leaves its group."""
        library().rd_kafka_queue_destroy(self._queue)
        library().rd_kafka_consumer_close(self._client.address)
        self._client.__exit__(*error)

    def effective_settings(self) -> dict[str, str]:
        """Return all settings of the client; see `Client.effective_settings`."""
        return self._client.effective_settings()
