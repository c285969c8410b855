"""Who runs a sweep: the steps that the DAG's tasks call, the DAG itself, and Airflow's environment, embedded or as services."""
