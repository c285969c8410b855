"""One Airflow DAG per scheduled experiment of the catalogue, with the tasks of `ackbench_sweep`."""

from experiments.orchestration.dag import sweep_dag
from experiments.planning.catalog import catalog_experiments

for experiment in catalog_experiments():
    if experiment.schedule:
        doc = (
            f"# {experiment.title}\n\n{experiment.question}\n\n"
            f"Schedule: `{experiment.schedule}` (UTC). The documentation of `ackbench_sweep` "
            "describes the tasks."
        )
        sweep_dag(
            f"ackbench_{experiment.name}",
            experiment=experiment.name,
            doc=doc,
            schedule=experiment.schedule,
            display_name=f"ackbench {experiment.name}",
        )
