"""What relays in front of an external cluster cost: its producer's latency and throughput.

Three brokers with SASL_SSL, which run without a supervisor. In each round the same producer sends
to the brokers, through relays, and through relays with a rule that no request meets, at a given
rate and then as fast as it can. The rounds begin with different sides. Behind relays, the relays
have TLS and the producer has none, as in a trial.
"""

from __future__ import annotations

import statistics
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from support.external_brokers import ExternalBrokers, external_brokers
from support.external_sweeps import acls

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.settings.librdkafka import producer_settings
from ackbench.experiments.trial.clients.settings.security import (
    connection_settings,
    register_security,
    security_behind_relay,
)
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.cluster.external import probe_cluster
from ackbench.infra.machine.home import Home
from ackbench.infra.network.external_relays import ExternalRelays
from ackbench.infra.network.rule_actions import RequestRule, RuleAction
from ackbench.infra.network.tls import tls_context
from ackbench.infra.network.treatment import Direction

PARTITIONS: Final = 6
RECORD_BYTES: Final = 200
SETTINGS: Final = {"acks": "all", "enable.idempotence": "true", "linger.ms": "5"}
RATE_RECORDS_PER_S: Final = 1000
SECONDS: Final = 10
BURST_RECORDS: Final = 200_000
UNMET: Final[tuple[str, Direction, RuleAction]] = ("Heartbeat", "requests", "drop")
"""A rule for requests that a producer does not send."""
_TIMEOUT_S: Final = 300.0
_NAME: Final = "ackbench-relays"
"""Begins the names of topics, as the user's permissions have it."""


@dataclass(frozen=True)
class Round:
    """One side of one round."""

    p50_ms: float
    """Of the time from sending a record to its acknowledgement, at the given rate."""
    p99_ms: float
    records_per_s: float
    """As fast as it can."""


@dataclass(frozen=True)
class RelayCosts:
    """The rounds of all sides, in the same order."""

    direct: tuple[Round, ...]
    relayed: tuple[Round, ...]
    ruled: tuple[Round, ...]
    """Behind relays with a rule that no request meets."""

    def ratios(self, measure: str, side: str, base: str = "direct") -> list[float]:
        """Return side / base of each round; other load affects both in one round."""
        return [
            getattr(one, measure) / getattr(other, measure)
            for one, other in zip(getattr(self, side), getattr(self, base), strict=True)
        ]

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the sides."""
        return tuple(field.name for field in fields(self))

    def median(self, side: str, measure: str) -> float:
        """Return the median of a side's rounds."""
        return float(statistics.median(getattr(one, measure) for one in getattr(self, side)))


def relay_costs(home: Home, rounds: int = 7) -> RelayCosts:
    """Start the brokers, run the rounds, and stop the brokers."""
    measured: dict[str, list[Round]] = {"direct": [], "relayed": [], "ruled": []}
    with (
        tempfile.TemporaryDirectory(prefix="ackbench-relays-") as folder,
        external_brokers(home.cache, Path(folder), 3) as brokers,
        brokers.permitting(acls()),
        _sides(brokers) as sides,
    ):
        _measure(brokers, *sides["direct"])  # opens the brokers' files, and is not counted
        for number in range(rounds):
            for name in sorted(sides, reverse=number % 2 == 1):
                measured[name].append(_measure(brokers, *sides[name]))
    return RelayCosts(**{name: tuple(rows) for name, rows in measured.items()})


@contextmanager
def _sides(brokers: ExternalBrokers) -> Iterator[dict[str, tuple[str, dict[str, str]]]]:
    """Yield each side's addresses and security properties."""
    security = brokers.user_security()
    register_security(brokers.sasl, security)
    connection = connection_settings(brokers.sasl)
    behind = security_behind_relay(security)
    with ExitStack() as closing:
        made = {"direct": (brokers.sasl, security)}
        for name in ("relayed", "ruled"):
            relays = ExternalRelays(probe_cluster(connection).addresses, tls_context(connection))
            closing.callback(relays.close)
            register_security(relays.bootstrap_servers, behind)
            made[name] = (relays.bootstrap_servers, behind)
            if name == "ruled":
                relays.impair("rule", [RequestRule(*UNMET)])
        yield made


def _measure(brokers: ExternalBrokers, servers: str, security: dict[str, str]) -> Round:
    paced = _attempts(
        brokers, servers, security, RATE_RECORDS_PER_S * SECONDS, float(RATE_RECORDS_PER_S)
    )
    latency_ms = pc.subtract(paced["settled_ns"], paced["sent_ns"]).to_numpy() / 1e6
    burst = _attempts(brokers, servers, security, BURST_RECORDS, 0.0)
    took_ns = pc.max(burst["settled_ns"]).as_py() - pc.min(burst["sent_ns"]).as_py()
    p50, p99 = map(float, np.percentile(latency_ms, [50, 99]))
    return Round(p50, p99, BURST_RECORDS / (took_ns / 1e9))


def _attempts(
    brokers: ExternalBrokers, servers: str, security: dict[str, str], records: int, rate: float
) -> pa.Table:
    names = [f"{_NAME}-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    for name in names:
        topics.create_topic(brokers.plain, name, partitions=PARTITIONS, replication_factor=3)
    try:
        with tempfile.TemporaryDirectory() as folder:
            job = ProducerJob(
                producer=0,
                bootstrap_servers=servers,
                topic=names[0],
                warm_up_topic=names[1],
                settings=producer_settings({**SETTINGS, **security}),
                records=records,
                rate_records_per_s=rate,
                record_size_bytes=RECORD_BYTES,
                keys=Keys(count=64),
                token=1,
                folder=Path(folder),
            )
            with ProducerProcess(job) as producer:
                producer.wait_ready()
                producer.begin(now_ns() + 100_000_000)
                producer.wait_done(_TIMEOUT_S)
            attempts = attempts_table(job)
    finally:
        for name in names:
            topics.delete_topic(brokers.plain, name)
    if pc.sum(pc.equal(attempts["outcome"], "acked")).as_py() != records:
        raise RuntimeError(f"not all records were acknowledged: {attempts['outcome']}")
    return attempts
