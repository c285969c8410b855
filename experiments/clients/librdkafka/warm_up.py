"""Brokers that have just begun, loaded until they are about as fast as they get: a JVM interprets its code until it has seen it often.

The first thousands of requests take a new cluster many times as long as later ones (`docs/performance.md`), so whichever cell's trial is drawn
to be the first on it would pay for all others. It writes with confluent-kafka's producer, as nothing of it is measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from experiments.clients.librdkafka.topics import create_topic, delete_topic
from experiments.clients.settings.security import connecting
from infra.cluster.interface import Cluster
from infra.errors import HarnessError

if TYPE_CHECKING:
    from confluent_kafka import Producer

TOPIC: Final = "ackbench-run-in"
ROUNDS: Final = 6
ROUND_RECORDS: Final = 1_000
"""So much: code is compiled for having been run often, so it is requests that count, not time and not bytes (`docs/performance.md`)."""
_VALUE: Final = b"0" * 100
_SETTINGS: Final = {"acks": "all", "linger.ms": "0", "batch.size": "1000"}
"""Many requests and not many bytes: it is the way of a request through a broker that is to be learned."""
_TIMEOUT_S: Final = 30.0
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


def warm_up_brokers(cluster: Cluster) -> tuple[float, ...]:
    """Write to all brokers of a cluster, replicated to all, `ROUNDS` times; return how long each round took, seconds.

    Raises:
        HarnessError: the topic could not be made or deleted, or a record was not acknowledged.
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
    producer = Producer({**_SETTINGS, **connecting(cluster.bootstrap_servers)}, logger=_LOG)
    rounds = tuple(_round(producer) for _ in range(ROUNDS))
    delete_topic(cluster.admin_servers, TOPIC)
    return rounds


def _round(producer: Producer) -> float:
    """Write a round and wait for its acknowledgements; return how long that took, seconds."""
    refused: list[str] = []
    begin_s = time.monotonic()
    for _ in range(ROUND_RECORDS):
        producer.produce(
            TOPIC,
            _VALUE,
            on_delivery=lambda error, _: refused.append(str(error)) if error else None,
        )
        producer.poll(0)
    left = producer.flush(_TIMEOUT_S)
    if refused or left:
        raise HarnessError(
            f"running the brokers in: {len(refused)} records were refused and {left} not answered within {_TIMEOUT_S:g} s{_first(refused)}"
        )
    return time.monotonic() - begin_s


def _first(refused: Sequence[str]) -> str:
    return f", the first with: {refused[0]}" if refused else ""
