"""The clients under test: producers and consumers over the librdkafka that confluent-kafka ships."""
