"""One Airflow DAG per scheduled experiment, with the tasks of `ackbench_sweep`.

Experiments of the catalogue and of the operator's folder (`ackbench up --experiments FOLDER`).
"""

from ackbench.experiments.orchestration.scheduled import scheduled_dags

scheduled_dags()
