"""Measures of particular workloads: consumer groups, copiers, keys, fields, and which broker served whom."""
