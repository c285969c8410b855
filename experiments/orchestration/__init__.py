"""How a sweep runs: the steps of the DAG's tasks, the DAG, and Airflow (embedded or as services).

Measuring and reporting are not here: the steps call the packages that do the work.
"""
