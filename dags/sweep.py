"""Run one sweep: which records do Kafka's settings lose, duplicate or delay when brokers fail?

**Trigger** runs an experiment of the catalogue, or a file of the folder that the operator offers
(`ackbench up --experiments FOLDER`). The form can override any axis, the load, the repeats and the
seed.

- `plan` resolves the experiment into trials and writes the sweep's folder. It refuses an invalid
  request with one line.
- `list_trials` lists the trials to run: all, or the missing ones of a sweep that is resumed.
- `provision` starts the Kafka cluster; on an Airflow with several hosts each batch starts its own.
- `trial` runs one trial: load, fault, heal, final read, sealed ledger. There is one mapped task per
  trial; they run one at a time, in the plan's shuffled order. On an Airflow with several hosts, a
  task runs a batch of trials, on a cluster that it starts and destroys.
- `destroy` destroys what `provision` has started, also after a failure.
- `measure` computes the results from the ledgers with Spark.
- `report` renders the sweep's report: verdicts, intervals, latency curves, one timeline per trial.
- `track` writes one MLflow run per trial, and a summary run.
- `verify` publishes the sweep, if it has a store, and fails if a trial is missing, and names it. It
  does not wait for `report` and `track`.
- `alert` reports what the experiment's `alert_on` asks for, also after a failure.
- `finish` records that the sweep is complete, once `verify` and `track` have succeeded.

Lost records are a result, not a failure: a task fails only if the harness could not do its work.
"""

# Airflow parses only files that contain the words "airflow" and "dag"
# (`core.dag_discovery_safe_mode`).
from ackbench.dags.tasks import sweep_dag
from ackbench.experiments.planning.catalog import as_markdown

ackbench_sweep = sweep_dag(
    "ackbench_sweep",
    experiment="quick",
    doc=f"{__doc__}\n## The catalogue\n\n{as_markdown()}\n",
    display_name="ackbench sweep",
)
