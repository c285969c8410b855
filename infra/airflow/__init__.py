"""Airflow as a program: its environment and its databases. What it runs is in `dags`."""
