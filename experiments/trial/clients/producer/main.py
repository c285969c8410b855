"""The producer's process: warm up, send the schedule, wait until all records are settled."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from ackbench.experiments.trial.clients.librdkafka import library as librdkafka
from ackbench.experiments.trial.clients.librdkafka.client import Callbacks, Client, Interceptor
from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import (
    SentRecord,
    ServedCell,
    ServingOpaque,
)
from ackbench.experiments.trial.clients.librdkafka.interceptors import (
    SendOpaque,
    on_acknowledgement_count,
    on_send_digest,
    on_send_identity,
)
from ackbench.experiments.trial.clients.process.client_process import (
    BEGIN,
    DONE,
    READY,
    expect_line,
    write_line,
)
from ackbench.experiments.trial.clients.process.mapped_file import Records, attach
from ackbench.experiments.trial.clients.producer.attempts import AttemptsFile
from ackbench.experiments.trial.clients.producer.content import RecordContent
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.loop import (
    KEY_BYTES,
    WARM_UP_OPAQUE,
    Schedule,
    follow_schedule,
    next_seq,
    on_acknowledgement_latency,
    on_delivery_report,
    recount,
    resend_records,
    unsettled_seqs,
)
from ackbench.experiments.trial.clients.producer.process import summarize
from ackbench.experiments.trial.clients.producer.transactions import (
    TransactionalSchedule,
    TransactionApi,
)
from ackbench.experiments.trial.clients.settings.librdkafka import delivery_timeout_ms
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import wait_until

TIMEOUT_SCAN_S: Final = 2.0
"""librdkafka scans for records past their timeout once a second; this is twice the interval."""
NEVER_NS: Final = np.iinfo(np.int64).max
_SLICE_MS: Final = 100


def main(job_path: Path) -> None:
    """Run the producer.

    Args:
        job_path: its job description, JSON of `ProducerJob`.

    Raises:
        AckbenchError: the job failed.
    """
    _produce(ProducerJob.model_validate_json(job_path.read_bytes()))


def _produce(job: ProducerJob) -> None:
    ledger = AttemptsFile.attach(job.ledger)
    if job.generation > 0:
        recount(ledger)
    fields = attach(job.fields, SentRecord) if job.headers else np.zeros(0, SentRecord)
    send_opaque = np.array([(fields.ctypes.data, fields.size, job.headers)], SendOpaque)
    callbacks = Callbacks(
        on_delivery_report.address, on_acknowledgement_latency.address, ledger.header.ctypes.data
    )
    served = (
        attach(job.serving, ServedCell) if job.record_serving_brokers else np.zeros(0, ServedCell)
    )
    serving_opaque = np.array([(served.ctypes.data, job.anchor_ns)], ServingOpaque)
    content, interceptors = RecordContent(job), []
    if job.identity == "header":
        interceptors.append(
            Interceptor("on_send", "ackbench-id", on_send_identity.address, content.identity)
        )
    if job.headers:
        interceptors.append(
            Interceptor(
                "on_send", "ackbench-fields", on_send_digest.address, send_opaque.ctypes.data
            )
        )
    if job.record_serving_brokers:
        interceptors.append(
            Interceptor(
                "on_acknowledgement",
                "ackbench-serving",
                on_acknowledgement_count.address,
                serving_opaque.ctypes.data,
            )
        )
    settings = {**job.passed_settings, "bootstrap.servers": job.bootstrap_servers}
    with Client(
        librdkafka.PRODUCER,
        settings,
        log=job.log,
        callbacks=callbacks,
        interceptors=tuple(interceptors),
        clock_anchor_ns=job.anchor_ns,
    ) as client:
        job.effective.write_text(json.dumps(client.effective_settings()))
        if job.transaction_records:
            _warm_up_in_transaction(client, job, ledger)
        else:
            _warm_up(client, job, ledger)
        if job.generation == 0:
            ledger.touch()
        realtime = job.rate_records_per_s > 0 and pace_in_realtime()
        write_line(READY)
        schedule, words = _schedule(client, job, content, int(expect_line(BEGIN))), content.words
        begin = next_seq(ledger)
        if job.resend:
            resend_records(schedule, ledger.header, ledger.rows, words, unsettled_seqs(ledger))
        if job.transaction_records:
            TransactionalSchedule(client, job, ledger, schedule, words).follow()
        else:
            follow_schedule(schedule, ledger.header, ledger.rows, words, begin, ledger.rows.size)
        _record_fatal_error(client, ledger)
        _settle(client, ledger, delivery_timeout_ms(job.settings) / 1000 + TIMEOUT_SCAN_S)
        summary = summarize(job, ledger, begin).model_copy(update={"realtime_pacing": realtime})
        write_line(DONE, summary.model_dump_json())


def pace_in_realtime() -> bool:
    """Let this thread run as soon as a record is due; return whether that is allowed.

    Brokers that use all CPUs make it wait for tens of milliseconds else. It has the lowest priority
    of SCHED_RR (sched(7)), which needs CAP_SYS_NICE or an RLIMIT_RTPRIO. librdkafka's own threads
    were started before, and compete with the brokers as an application's do.
    """
    try:
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except OSError:
        return False
    return True


def _warm_up(client: Client, job: ProducerJob, ledger: AttemptsFile) -> None:
    """Get a producer id, the metadata of the topic, and a connection to each partition leader.

    Raises:
        HarnessError: a warm-up record was refused or not acknowledged.
    """
    client.leaders(job.topic, job.warm_up_timeout_s)
    partitions = range(len(client.leaders(job.warm_up_topic, job.warm_up_timeout_s)))
    for partition in partitions:
        _send_warm_up_record(client, job.warm_up_topic, partition)
    wait_until(
        lambda: (
            client.poll(_SLICE_MS) >= 0
            and bool(ledger.header["warm_up_settled"][0] >= len(partitions))
        ),
        awaiting=f"{len(partitions)} warm-up records to settle",
        timeout_s=job.warm_up_timeout_s,
        every_s=0,
        seen=lambda: f"{ledger.header['warm_up_settled'][0]} settled",
    )
    error = int(ledger.header["warm_up_error"][0])
    if error:
        raise HarnessError(f"a warm-up record was not delivered: {librdkafka.error_text(error)}")


def _warm_up_in_transaction(client: Client, job: ProducerJob, ledger: AttemptsFile) -> None:
    """Take the `transactional.id` and warm up in a transaction.

    This also connects the producer to the transaction coordinator.

    Raises:
        HarnessError: no coordinator assigned a producer id, or the transaction was not committed.
    """
    transactions = TransactionApi(client)
    transactions.init_transactions(job.warm_up_timeout_s)
    error = transactions.begin_transaction()
    if error is None:
        _warm_up(client, job, ledger)
        error = transactions.commit_transaction(job.warm_up_timeout_s)
    if error is not None:
        raise HarnessError(f"the warm-up transaction was not committed: {error}")


def _send_warm_up_record(client: Client, topic: str, partition: int) -> None:
    library, key = librdkafka.library(), ctypes.create_string_buffer(KEY_BYTES)
    if (
        library.rd_kafka_produce(
            client.topic_handle(topic),
            partition,
            librdkafka.COPY_PAYLOAD,
            key,
            KEY_BYTES,
            key,
            KEY_BYTES,
            WARM_UP_OPAQUE,
        )
        != 0
    ):
        raise HarnessError(
            f"a warm-up record for partition {partition} of {topic} was refused: "
            f"{librdkafka.error_text(library.rd_kafka_last_error())}"
        )


def _schedule(client: Client, job: ProducerJob, content: RecordContent, start_ns: int) -> Records:
    """Return the schedule for the compiled loop, one row of dtype `Schedule`.

    With a rate, a full queue is final once the load's end and the delivery timeout have passed.
    Without a rate there is no such end: the queue drains as records time out.
    """
    end_ns = start_ns + round(job.duration_s * 1e9)
    give_up_ns = (
        end_ns + delivery_timeout_ms(job.settings) * 1_000_000
        if job.rate_records_per_s
        else NEVER_NS
    )
    keys = (
        job.keys.count,
        job.keys.pair_apart_records if job.keys.pairs != "none" else 0,
        job.keys.pairs == "common",
        job.keys.hot_key_share,
        job.round_robin_partitions,
    )
    row = (
        client.address,
        client.topic_handle(job.topic),
        *content.value_columns,
        *keys,
        *content.key_columns,
        job.rate_records_per_s,
        start_ns,
        job.anchor_ns,
        give_up_ns,
    )
    return np.array([row], Schedule)


def _record_fatal_error(client: Client, ledger: AttemptsFile) -> None:
    """Record the cause of a fatal error instead of `_FATAL`, which only reports that one occurred.

    Also report it on standard error.
    """
    fatal = client.fatal_error()
    if fatal is None:
        return
    ledger.header["fatal_error"] = fatal[0]
    sys.stderr.write(
        "the producer accepts no further records after a fatal error: "
        f"{librdkafka.error_text(fatal[0])}: {fatal[1]}\n"
    )


def _settle(client: Client, ledger: AttemptsFile, timeout_s: float) -> None:
    """Serve delivery reports until every accepted record is settled, or the timeout has passed.

    Records without a report by then stay unsettled: their outcome is unknown.
    """
    end_s = time.monotonic() + timeout_s
    while ledger.header["settled"][0] < ledger.header["accepted"][0] and time.monotonic() < end_s:
        client.flush(_SLICE_MS)
