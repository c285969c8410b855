"""The clients under test: producers, consumers, consumer groups and copiers, over librdkafka or Kafka's own Java programs."""
