"""Kafka clusters: what a cluster is, the local one with the process that owns it, external ones."""
