"""Kafka's properties by version: data files extracted from Kafka's own jars, and their reader."""

from ackbench.experiments.planning.properties.definitions import (
    FEATURES,
    KafkaProperties,
    Property,
    defaults_of,
    kafka_properties,
    known_versions,
    merge_versions,
    nearest_properties,
    nearest_version,
    newest_patch,
    resolve_version,
)

__all__ = [
    "FEATURES",
    "KafkaProperties",
    "Property",
    "defaults_of",
    "kafka_properties",
    "known_versions",
    "merge_versions",
    "nearest_properties",
    "nearest_version",
    "newest_patch",
    "resolve_version",
]
