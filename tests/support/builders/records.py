"""Builders of a planned trial, its record and empty ledger tables, with usual values."""

from __future__ import annotations

import pyarrow as pa

from experiments.ledger.record import FaultEvidence, Phases, ProducerSummary, Status, TrialRecord
from experiments.ledger.schema import TABLES
from experiments.sweep.plan import ClusterNeed, FaultRequest, TrialSpec, Workload


def no_rows() -> dict[str, pa.Table]:
    """Return the tables that every ledger has, empty."""
    return {name: schema.empty_table() for name, schema in TABLES.items()}


def a_spec(**changes: object) -> TrialSpec:
    """Return a planned trial with these fields changed."""
    spec = TrialSpec(
        sweep_id="sweep",
        trial_id="000-abcdef",
        experiment="planted",
        cell={"acks": 1, "fault": "none"},
        label="acks=1",
        repeat=0,
        order=0,
        seed=42,
        cluster=ClusterNeed(kafka_version="4.3.1"),
        replication_factor=3,
        partitions=1,
        producer={"acks": "1", "socket.timeout.ms": "1000"},
        consumer={},
        topic={},
        workload=Workload(
            rate_records_per_s=1000, record_size_bytes=100, duration_s=1, keys=4, producers=1
        ),
        fault=FaultRequest(kind="none"),
    )
    return spec.model_copy(update=changes)


def a_record(**changes: object) -> TrialRecord:
    """Return the record of a sealed trial with these fields changed."""
    record = TrialRecord(
        sweep_id="sweep",
        trial_id="000-abcdef",
        experiment="planted",
        cell={"acks": 1, "fault": "none"},
        label="acks=1",
        repeat=0,
        order=0,
        seed=42,
        token=99,
        status=Status.SEALED,
        topic="trial",
        kafka_version="4.3.1",
        client="librdkafka 2.16.1",
        producer_settings={"acks": "1"},
        consumer_settings={},
        topic_settings={},
        broker_settings={},
        replication_factor=3,
        partitions=1,
        rate_records_per_s=1000,
        record_size_bytes=100,
        duration_s=1,
        fault=FaultEvidence(kind="none", took_effect=True),
        phases=Phases(load_begin_ns=0, load_end_ns=10**9, settled_ns=10**9, healthy_ns=10**9),
        producers=(
            ProducerSummary(
                producer=0,
                records=0,
                version="2.16.1",
                lateness_us_p50=1,
                lateness_us_p99=2,
                lateness_us_max=3,
            ),
        ),
        end_offsets={0: 0},
        stages_s={},
    )
    return record.model_copy(update=changes)
