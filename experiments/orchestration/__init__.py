"""The run of a sweep: its steps, one after the other or as the DAG's tasks, and Airflow's services.

Measuring and reporting are not here: the steps call the packages that do the work.
"""
