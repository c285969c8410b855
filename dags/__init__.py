"""The DAGs that Airflow finds, a file per kind of work, and the tasks that they share."""
