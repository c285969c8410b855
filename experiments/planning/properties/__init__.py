"""Kafka's topic and broker properties, by version: data files made from Kafka's own jars, and their reader."""

from experiments.planning.properties.definitions import (
    FEATURES,
    KafkaProperties,
    Property,
    kafka_properties,
    merged,
    versions,
)

__all__ = ["FEATURES", "KafkaProperties", "Property", "kafka_properties", "merged", "versions"]
