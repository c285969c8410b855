"""The clients under test: producers, consumers, consumer groups and copiers.

They use librdkafka or Kafka's own Java programs.
"""
