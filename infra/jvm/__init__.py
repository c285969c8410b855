"""The JVM: which one is used, its environment and trust store, and its start-up caches.

The programs that run in it belong elsewhere: Kafka's to `infra.kafka.commands`.
"""
