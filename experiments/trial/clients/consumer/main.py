"""The concurrent consumer's process.

It fetches every partition from its beginning, reads while the trial runs, and stops at the end
offsets that its parent sends.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from ackbench.experiments.trial.clients.consumer.assigned import AssignedConsumer
from ackbench.experiments.trial.clients.consumer.loop import BATCH_RECORDS
from ackbench.experiments.trial.clients.consumer.process import (
    ConsumerJob,
    ConsumerResult,
    FinishRequest,
)
from ackbench.experiments.trial.clients.consumer.reads import ReadsFile
from ackbench.experiments.trial.clients.librdkafka.client import Interceptor
from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import (
    ServedCell,
    ServingOpaque,
)
from ackbench.experiments.trial.clients.librdkafka.interceptors import on_consume_count
from ackbench.experiments.trial.clients.process.client_process import (
    DONE,
    FINISH,
    READY,
    expect_line,
    write_line,
)
from ackbench.experiments.trial.clients.process.mapped_file import attach

FROM_START: Final = -2
"""RD_KAFKA_OFFSET_BEGINNING."""
_REFUSED: Final = frozenset({29, 30, 31})
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED, which no retry changes."""
_REFRESH: Final = "topic.metadata.refresh.interval.ms"
_SLICE_S: Final = 0.05
"""How long the compiled loop runs before the process checks for a message from its parent."""


def main(job_path: Path) -> None:
    """Run the consumer described by this job file.

    Raises:
        AckbenchError: the consumer failed.
    """
    _run(ConsumerJob.model_validate_json(job_path.read_bytes()))


def _run(job: ConsumerJob) -> None:
    rows = ReadsFile(job.reads)
    settings = {
        **job.passed_settings,
        "enable.partition.eof": "true",
        "bootstrap.servers": job.bootstrap_servers,
    }
    served = (
        attach(job.serving, ServedCell) if job.record_serving_brokers else np.zeros(0, ServedCell)
    )
    opaque = np.array([(served.ctypes.data, job.anchor_ns)], ServingOpaque)
    interceptors = (
        (
            Interceptor(
                "on_consume", "ackbench-serving", on_consume_count.address, opaque.ctypes.data
            ),
        )
        if job.record_serving_brokers
        else ()
    )
    with AssignedConsumer(
        settings,
        job.token,
        job.anchor_ns,
        job.log,
        interceptors=interceptors,
        identity=job.identity,
    ) as consumer:
        effective = consumer.effective_settings()
        job.effective.write_text(json.dumps(effective))
        consumer.assign(job.topic, dict.fromkeys(range(job.partitions), FROM_START))
        while not consumer.all_seen():
            _read_slice(consumer, rows)
            consumer.raise_on_errors(_REFUSED)
        write_line(READY)
        _read_until_request(consumer, rows, job.topic, int(effective[_REFRESH]) / 1000)
        request = FinishRequest.model_validate_json(expect_line(FINISH))
        write_line(DONE, _finish(consumer, rows, job.topic, request).model_dump_json())


def _read_slice(consumer: AssignedConsumer, rows: ReadsFile) -> None:
    """Read for `_SLICE_S`; grow the file first if another batch may not fit."""
    if rows.filled + BATCH_RECORDS > rows.rows.size:
        rows.grow()
    rows.filled = consumer.read(rows.rows, rows.filled, _SLICE_S)


def _read_until_request(
    consumer: AssignedConsumer, rows: ReadsFile, topic: str, refresh_s: float
) -> None:
    """Read until the parent sends a message or exits.

    A manual assignment does not follow the topic's partition count, so look for new partitions as
    often as librdkafka does for a subscription: every `refresh_s` seconds; 0 or less: never.
    """
    refreshed_s = time.monotonic()
    while not _parent_wrote_or_exited():
        _read_slice(consumer, rows)
        if 0 < refresh_s < time.monotonic() - refreshed_s:
            consumer.assign_new_partitions(topic, FROM_START, _SLICE_S)
            refreshed_s = time.monotonic()


def _finish(
    consumer: AssignedConsumer, rows: ReadsFile, topic: str, request: FinishRequest
) -> ConsumerResult:
    if max(request.end_offsets, default=0) >= consumer.partitions.size:
        new = range(consumer.partitions.size, max(request.end_offsets) + 1)
        consumer.assign(topic, dict.fromkeys(new, FROM_START))
    consumer.set_end_offsets(request.end_offsets)
    until_s = time.monotonic() + request.timeout_s
    while not consumer.all_read() and time.monotonic() < until_s:
        _read_slice(consumer, rows)
    return ConsumerResult(
        records=rows.filled, at_end=consumer.all_read(), where=consumer.describe_lag()
    )


def _parent_wrote_or_exited() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])
