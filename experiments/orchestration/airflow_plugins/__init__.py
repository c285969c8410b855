"""Plugins of Airflow's API server, which `ackbench up` names as its plugins folder.

Airflow loads each file of the folder by its path. Nothing else belongs here.
"""
