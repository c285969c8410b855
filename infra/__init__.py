"""Kafka clusters, on this machine and external, and what runs with them.

Nodes, their JVM, processes, networks and disks; the machine's files, home and locks; and the
environment of Airflow's processes. Knows nothing of the rest of the project.
"""
