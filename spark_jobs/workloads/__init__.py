"""Measures of particular workloads: consumer groups, copiers, keys, fields, and serving brokers.

What belongs here: measures that only trials with such a workload have. Measures that every trial
has belong to `spark_jobs.measures`.
"""
