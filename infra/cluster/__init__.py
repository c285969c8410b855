"""Kafka clusters: what one is, the local one with the process that owns it, and external ones."""
