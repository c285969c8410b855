"""Warm-up of newly started brokers: write to them until they are about as fast as they get.

A JVM interprets its code until it has run it often enough to compile it. The first thousands of
requests take a new cluster many times as long as later ones (`docs/performance.md`). Without a
warm-up, the cell whose trial happens to run first on a cluster would pay for all others.

This uses confluent-kafka's producer, because nothing of it is measured.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from ackbench.experiments.trial.clients.librdkafka.topics import create_topic, delete_topic
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError

if TYPE_CHECKING:
    from confluent_kafka import Producer

TOPIC: Final = "ackbench-broker-warm-up"
ROUNDS: Final = 6
ROUND_RECORDS: Final = 1_000
"""The JVM compiles code for having run often, so the amount is in requests, not in seconds or bytes
(`docs/performance.md`)."""
_VALUE: Final = b"0" * 100
_SETTINGS: Final = {"acks": "all", "linger.ms": "0", "batch.size": "1000"}
"""Many small requests: what is to be compiled is a request's way through a broker."""
_TIMEOUT_S: Final = 30.0
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


def warm_up_brokers(cluster: Cluster) -> tuple[float, ...]:
    """Write `ROUNDS` rounds to a topic with one partition per broker, replicated to all brokers.

    Returns:
        The duration of each round, seconds.

    Raises:
        HarnessError: the topic could not be created or deleted, or a record was not acknowledged.
    """
    from confluent_kafka import Producer

    nodes = len(cluster.node_ids())
    create_topic(
        cluster.admin_servers,
        TOPIC,
        partitions=nodes,
        replication_factor=nodes,
        config={"min.insync.replicas": "1"},
    )
    settings = {**_SETTINGS, **connection_settings(cluster.bootstrap_servers)}
    producer = Producer(confluent_settings(settings), logger=_LOG)
    durations_s = tuple(_write_round(producer) for _ in range(ROUNDS))
    delete_topic(cluster.admin_servers, TOPIC)
    return durations_s


def _write_round(producer: Producer) -> float:
    """Write one round and wait for its acknowledgements; return how long that took, seconds."""
    errors: list[str] = []
    begin_s = time.monotonic()
    for _ in range(ROUND_RECORDS):
        producer.produce(
            TOPIC, _VALUE, on_delivery=lambda error, _: errors.append(str(error)) if error else None
        )
        producer.poll(0)
    unanswered = producer.flush(_TIMEOUT_S)
    if errors or unanswered:
        first = f"; first error: {errors[0]}" if errors else ""
        raise HarnessError(
            f"warm-up of the brokers failed: {len(errors)} records were refused and {unanswered} "
            f"not answered within {_TIMEOUT_S:g} s{first}"
        )
    return time.monotonic() - begin_s
