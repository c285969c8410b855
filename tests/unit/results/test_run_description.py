"""What a sweep ran, in one line."""

from __future__ import annotations

from dataclasses import replace

from support.builders.sweeps import SAFE, TRUTHS, measured_sweep
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.run_description import describe_run, trials_s


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


def test_the_time_of_trials_is_without_that_between_them() -> None:
    """A sweep that was stopped and resumed had no trial then; trials in parallel count once."""
    first, second = list(measured_sweep((SAFE,)).manifests.values())[:2]
    begin_ns = first.phases.load_begin_ns
    ends_ns = {"settled_ns": begin_ns, "healthy_ns": begin_ns + 8 * 10**9}
    first = first.model_copy(
        update={
            "phases": first.phases.model_copy(update=ends_ns),
            "stages_s": {"prepare": 2.0, "load": 8.0, "read": 1.0},
        }
    )

    def later(seconds: int) -> TrialManifest:
        moved_ns = {
            name: getattr(first.phases, name) + seconds * 10**9
            for name in ("load_begin_ns", *ends_ns)
        }
        return second.model_copy(update={"phases": first.phases.model_copy(update=moved_ns)})

    assert trials_s([]) == 0
    assert trials_s([later(90), first]) == 11 + 8
    assert trials_s([first, later(4)]) == 11 + 3


def test_dedicated_controllers_and_several_clusters_are_named(says: Says) -> None:
    """Trials may have clusters of several sizes."""
    data = measured_sweep((SAFE,))
    trials = [
        trial.model_copy(update={"cluster": replace(trial.cluster, controllers=3 * (n % 2))})
        for n, trial in enumerate(data.plan.trials)
    ]
    plan = data.plan.model_copy(update={"trials": tuple(trials)})

    says(described(replace(data, plan=plan)))
