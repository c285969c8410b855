"""Kafka's topic and broker properties, by version: data files made from Kafka's own jars, and their reader."""

from experiments.properties.known import KafkaProperties, Property, kafka_properties, versions

__all__ = ["KafkaProperties", "Property", "kafka_properties", "versions"]
