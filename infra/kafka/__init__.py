"""Kafka itself: versions, jars, configuration of nodes, formatted storage, logs and the wire protocol. Starts nothing."""
