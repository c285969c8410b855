"""Run one sweep: what do Kafka's settings lose, what arrives twice, and how long are we down?

**Trigger** asks for an experiment of the catalogue (or a YAML file) and lets you change any axis, the load, the repeats and the seed.

| task | what it does |
|---|---|
| `plan` | resolves the experiment into trials and writes the sweep's folder; a wish that cannot be is refused here, in one line |
| `turns` | counts the trials that are to be run: all, or those that an earlier run left out |
| `provision` | starts the cluster |
| `trial` | one mapped task a trial, one at a time, in the plan's shuffled order: load, fault, heal, final read, sealed ledger |
| `destroy` | takes the cluster down, whatever happened |
| `measure` | Spark makes the results from the ledgers |
| `report` | the page of the sweep: verdicts, intervals, curves, and a timeline a trial |
| `track` | every trial becomes a run in MLflow, and the sweep a summary |
| `verify` | fails when a trial is missing, and names it |

That Kafka lost records is a result, not a failure: a task is red only when the harness could not do its work.
"""

# Airflow reads only files that hold the words "airflow" and "dag" (`core.dag_discovery_safe_mode`).
from experiments.orchestration.dag import sweep_dag

ackbench_sweep = sweep_dag(
    "ackbench_sweep", experiment="quick", doc=__doc__ or "", display_name="ackbench sweep"
)
