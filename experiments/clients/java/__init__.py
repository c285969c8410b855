"""Kafka's own Java programs as clients under test: VerifiableProducer and VerifiableConsumer, and what they report."""
