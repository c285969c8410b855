"""One Airflow DAG for each experiment of the catalogue that has a schedule: the tasks of `ackbench_sweep`, begun by the clock (UTC)."""

from experiments.orchestration.dag import sweep_dag
from experiments.planning.catalog import catalog_experiments

for experiment in catalog_experiments():
    if experiment.schedule:
        page = f"# {experiment.title}\n\n{experiment.question}\n\nRuns `{experiment.schedule}` (UTC); `ackbench_sweep` says what each task does."
        sweep_dag(
            f"ackbench_{experiment.name}",
            experiment=experiment.name,
            doc=page,
            schedule=experiment.schedule,
            display_name=experiment.title,
        )
