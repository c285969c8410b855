"""Faults that an operator causes on healthy nodes: leadership and replicas moved, partitions added, a topic recreated, a node replaced."""
