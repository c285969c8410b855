"""Builders of a planned trial, its record and empty ledger tables, with usual values."""

from __future__ import annotations

import pyarrow as pa

from ackbench.experiments.ledger.schema import TABLES
from ackbench.experiments.ledger.trial_manifest import (
    FaultEvidence,
    Keys,
    Phases,
    ProducerSummary,
    Status,
    TrialManifest,
)
from ackbench.experiments.planning.faults import fault_parameters
from ackbench.experiments.sweep.plan import ClusterNeed, FaultRequest, TrialSpec, Workload
from ackbench.experiments.trial.faults.composition.notation import parse_fault

_SHARED = TrialSpec.model_fields.keys() & TrialManifest.model_fields.keys() - {
    "client",
    "fault",
    "topic",
}
"""Fields that a plan and a record both have, in one form."""


def no_rows() -> dict[str, pa.Table]:
    """Return the tables that every ledger has, empty."""
    return {name: schema.empty_table() for name, schema in TABLES.items()}


def a_fault(notation: str) -> FaultRequest:
    """Return a fault as an experiment writes it, with all of its parameters."""
    return parse_fault(notation).with_leaves(
        lambda leaf: leaf.model_copy(
            update={"parameters": fault_parameters(leaf.kind, leaf.parameters)}
        )
    )


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
            rate_records_per_s=1000,
            record_size_bytes=100,
            duration_s=1,
            keys=Keys(count=4),
            producers=1,
        ),
        fault=FaultRequest(kind="none"),
    )
    return spec.model_copy(update=changes)


def planned_as(manifest: TrialManifest) -> TrialSpec:
    """Return a planned trial of which a record is."""
    return a_spec(
        **{name: getattr(manifest, name) for name in _SHARED},
        client="java" if manifest.client.startswith("java") else "librdkafka",
        cluster=ClusterNeed(kafka_version=manifest.kafka_version),
        topic=manifest.topic_settings,
        workload=Workload(
            rate_records_per_s=manifest.rate_records_per_s,
            record_size_bytes=manifest.record_size_bytes,
            duration_s=manifest.duration_s,
            keys=Keys(count=4),
            producers=1,
        ),
        fault=FaultRequest(kind=manifest.fault.kind, parameters=manifest.fault.parameters),
    )


def record_of(spec: TrialSpec, **changes: object) -> TrialManifest:
    """Return the record of a sealed trial as its plan has it, with these fields changed."""
    java = f"java {spec.cluster.version_of_java_clients}"
    planned: dict[str, object] = {
        **{name: getattr(spec, name) for name in _SHARED},
        "client": java if spec.client == "java" else "2.16.1",
        "kafka_version": spec.cluster.kafka_version,
        "producer_settings": spec.producer,
        "consumer_settings": spec.consumer,
        "topic_settings": spec.topic,
        "rate_records_per_s": spec.workload.rate_records_per_s,
        "record_size_bytes": spec.workload.record_size_bytes,
        "duration_s": spec.workload.duration_s,
        "fault": FaultEvidence(
            kind=spec.fault.kind, parameters=spec.fault.all_parameters(), took_effect=True
        ),
    }
    return a_record(**planned | changes)


def a_record(**changes: object) -> TrialManifest:
    """Return the record of a sealed trial with these fields changed."""
    record = TrialManifest(
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
