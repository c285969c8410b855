"""What a sweep ran, in one line."""

from __future__ import annotations

from dataclasses import replace

from support.builders.sweeps import SAFE, TRUTHS, measured_sweep
from support.golden_files import Says

from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.run_description import describe_run


def described(data: ReportData) -> str:
    """Return the line of a sweep."""
    return describe_run(data.plan, list(data.manifests.values()))


def test_the_line_has_time_versions_nodes_load_and_trials(says: Says) -> None:
    """All from the plan and the trials' records."""
    line = described(measured_sweep(TRUTHS))

    assert line.startswith("20")
    says(line)
    assert " records/s for " in line
    assert line.split(", ")[-1].startswith("20 trials in ")


def test_a_sweep_that_is_not_complete_says_how_many_trials_are(says: Says) -> None:
    """Before the first trial there is no time and no client."""
    data = measured_sweep((SAFE,))
    some = replace(data, manifests=dict(list(data.manifests.items())[:2]))

    says(described(some))
    assert described(replace(data, manifests={})).endswith("0 of 5 trials")
    assert "UTC" not in described(replace(data, manifests={}))


def test_dedicated_controllers_and_several_clusters_are_named(says: Says) -> None:
    """Trials may have clusters of several sizes."""
    data = measured_sweep((SAFE,))
    trials = [
        trial.model_copy(update={"cluster": replace(trial.cluster, controllers=3 * (n % 2))})
        for n, trial in enumerate(data.plan.trials)
    ]
    plan = data.plan.model_copy(update={"trials": tuple(trials)})

    says(described(replace(data, plan=plan)))
