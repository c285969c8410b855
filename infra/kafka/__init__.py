"""Kafka itself: versions, jars, node configuration, storage, log files and the wire protocol.

Nothing here starts or stops a node; `infra.cluster` does.
"""
