"""What Airflow finds: one file per kind of work, and the tasks that they share."""
