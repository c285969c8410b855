"""Kafka's VerifiableProducer and VerifiableConsumer as clients under test, and their reports."""
