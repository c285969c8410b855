"""The settings of a trial, by scope and name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.ledger.record import Scalar, TrialRecord
from experiments.plan import TrialSpec

SCOPES: Final = ("producer", "consumer", "topic", "broker", "cluster", "workload", "fault")
NOT_SET: Final = "-"


def settings_of_trial(spec: TrialSpec, record: TrialRecord | None = None) -> dict[tuple[str, str], str]:
    """Return what a trial was planned with; of one that ran, the effective settings of clients, topic and brokers."""
    tables: dict[str, Mapping[str, Scalar]] = {
        "producer": record.producer_settings if record else spec.producer,
        "consumer": record.consumer_settings if record else spec.consumer,
        "topic": record.topic_settings if record else spec.topic,
        "broker": record.broker_settings if record else spec.cluster.broker,
        "cluster": {
            "kafka.version": spec.cluster.kafka_version,
            "nodes": spec.cluster.nodes,
            "coordination": spec.cluster.coordination,
            "controllers": spec.cluster.controllers,
            "zookeeper.nodes": spec.cluster.zookeepers,
            **spec.cluster.features,
            "replication.factor": spec.replication_factor,
            "partitions": spec.partitions,
        },
        "workload": {**spec.workload.model_dump(), "client": spec.client, "client.defaults": spec.passed is not None},
        "fault": {"kind": spec.fault.kind, **spec.fault.all_parameters()},
    }
    return {(scope, name): str(value) for scope, values in tables.items() for name, value in values.items()}
