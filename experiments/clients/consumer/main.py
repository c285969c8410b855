"""The reader's own process: fetch every partition, read along, finish where told."""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from experiments.clients.consumer.assigned import AssignedConsumer
from experiments.clients.consumer.loop import BATCH_RECORDS
from experiments.clients.consumer.process import ConsumerEnd, ConsumerJob, ReadPosition
from experiments.clients.consumer.reads import ReadsFile
from experiments.clients.librdkafka.client import Interceptor
from experiments.clients.librdkafka.interceptors import fetched_from
from experiments.clients.librdkafka.noted import Served, Telling
from experiments.clients.process.child import DONE, FINISH, READY, listen, say
from experiments.clients.process.mapped_file import attach

FROM_START: Final = -2
"""RD_KAFKA_OFFSET_BEGINNING."""
_REFRESH: Final = "topic.metadata.refresh.interval.ms"
_SLICE_S: Final = 0.05
"""How long the compiled loop runs before the parent is listened to."""


def main(job_path: Path) -> None:
    """Be the reader.

    Raises:
        AckbenchError: it could not do its job.
    """
    _read(ConsumerJob.model_validate_json(job_path.read_bytes()))


def _read(job: ConsumerJob) -> None:
    rows = ReadsFile(job.reads)
    settings = {
        **job.given,
        "enable.partition.eof": "true",
        "bootstrap.servers": job.bootstrap_servers,
    }
    served = attach(job.serving, Served) if job.record_serving_brokers else np.zeros(0, Served)
    telling = np.array([(served.ctypes.data, job.anchor_ns)], Telling)
    interceptors = (
        (Interceptor("on_consume", "ackbench-serving", fetched_from.address, telling.ctypes.data),)
        if job.record_serving_brokers
        else ()
    )
    with AssignedConsumer(
        settings, job.token, job.anchor_ns, job.log, interceptors=interceptors
    ) as consumer:
        effective = consumer.effective_settings()
        job.effective.write_text(json.dumps(effective))
        consumer.assign(job.topic, dict.fromkeys(range(job.partitions), FROM_START))
        while not consumer.all_seen():
            _read_on(consumer, rows, _SLICE_S)
        say(READY)
        _read_until_told(consumer, rows, job.topic, int(effective[_REFRESH]) / 1000)
        say(
            DONE,
            _finish(
                consumer, rows, job.topic, ReadPosition.model_validate_json(listen(FINISH))
            ).model_dump_json(),
        )


def _read_on(consumer: AssignedConsumer, rows: ReadsFile, timeout_s: float) -> None:
    """Read for a while; with more room, when a further batch may not fit."""
    if rows.filled + BATCH_RECORDS > rows.rows.size:
        rows.grow()
    rows.filled = consumer.read(rows.rows, rows.filled, timeout_s)


def _read_until_told(
    consumer: AssignedConsumer, rows: ReadsFile, topic: str, refresh_s: float
) -> None:
    """Read on; look for new partitions as often as librdkafka itself would for a subscription (never, where that is below zero)."""
    looked_s = time.monotonic()
    while not _told():
        _read_on(consumer, rows, _SLICE_S)
        if 0 < refresh_s < time.monotonic() - looked_s:
            consumer.assign_new(topic, FROM_START, _SLICE_S)
            looked_s = time.monotonic()


def _finish(
    consumer: AssignedConsumer, rows: ReadsFile, topic: str, to: ReadPosition
) -> ConsumerEnd:
    if max(to.end_offsets, default=0) >= consumer.partitions.size:
        consumer.assign(
            topic,
            dict.fromkeys(range(consumer.partitions.size, max(to.end_offsets) + 1), FROM_START),
        )
    consumer.end_at(to.end_offsets)
    until_s = time.monotonic() + to.timeout_s
    while not consumer.all_read() and time.monotonic() < until_s:
        _read_on(consumer, rows, _SLICE_S)
    return ConsumerEnd(records=rows.filled, at_end=consumer.all_read(), where=consumer.where())


def _told() -> bool:
    """Whether the parent has said something, or has gone."""
    return bool(select.select([sys.stdin], [], [], 0)[0])
