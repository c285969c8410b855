"""Trials that one task measures: refused at planning where the task cannot have the memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.builders.records import a_spec

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.messages.errors import SparkError
from ackbench.experiments.planning import new_sweep
from ackbench.experiments.planning.capacity import largest_undivided, require_measurable
from ackbench.experiments.planning.new_sweep import plan_new_sweep
from ackbench.experiments.sweep.plan import Plan, TrialSpec, Workload
from ackbench.experiments.sweep.spark_master import (
    MASTER_VARIABLE,
    SETTINGS_VARIABLE,
    is_on_cluster,
    named_master,
    tasks_at_once,
)
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.resources import GIB, MachineResources

MACHINE = MachineResources(memory_bytes=24 * GIB, disk_bytes=500 * GIB, cores=2, root=False)
MILLION = 1_000_000


def a_plan(*trials: TrialSpec) -> Plan:
    """Return a plan with these trials."""
    return Plan(
        sweep_id="s", experiment="e", question="q", seed=1, repeats=1, trials=trials, refused=()
    )


def a_trial(records: int, keys: Keys | None = None, headers: int = 0, **topic: str) -> TrialSpec:
    """Return a trial of a hundred seconds."""
    workload = Workload(
        rate_records_per_s=records / 100, duration_s=100, keys=keys or Keys(), headers=headers
    )
    return a_spec(workload=workload, topic={name.replace("_", "."): topic[name] for name in topic})


def test_200_million_keyed_records_are_refused_with_the_numbers() -> None:
    """Records, bytes of each, what they need, what is there, and what fits."""
    trial = a_trial(200 * MILLION, Keys(placement=True))
    with pytest.raises(MachineError) as refused:
        require_measurable(a_plan(trial), MACHINE, tasks=2)
    assert str(refused.value) == (
        f"trial {trial.trial_id} ({trial.label}) has 200,000,000 records with keys, which one task "
        "measures: 370 bytes per record, 69.2 GiB, and 22.6 GiB are free for it beside the "
        "cluster and Spark's JVM: request at most 64,000,000 records (rate_records_per_s x "
        "duration_s), or measure on Spark executors with that memory (--master)"
    )
    fits = a_trial(64 * MILLION, Keys(placement=True))
    require_measurable(a_plan(fits), MACHINE, tasks=2)


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        (a_trial(100 * MILLION, Keys(pairs="own")), "records with keys, .* 370 bytes per record"),
        (a_trial(100 * MILLION, headers=1), "records with replays, .* 520 bytes per record"),
        (a_trial(100 * MILLION, cleanup_policy="compact"), "with compaction, .* 500 bytes per"),
        (
            a_trial(100 * MILLION, Keys(placement=True), cleanup_policy="compact,delete"),
            "with keys and compaction, .* 690 bytes per record",
        ),
    ],
)
def test_each_trial_that_is_not_divided_is_refused(trial: TrialSpec, words: str) -> None:
    """With what it has that needs all of its records."""
    with pytest.raises(MachineError, match=words):
        require_measurable(a_plan(trial), MACHINE, tasks=1)


def test_a_trial_that_is_divided_is_not_refused() -> None:
    """Its units are of bounded size."""
    plan = a_plan(a_trial(1_000 * MILLION))
    require_measurable(plan, MACHINE, tasks=2)
    assert largest_undivided(plan) is None


def test_trials_that_only_fit_one_after_the_other_are_refused_with_the_master() -> None:
    """Spark measures as many at once as there are cores."""
    plan = a_plan(*(a_trial(40 * MILLION, Keys(placement=True)) for _ in range(3)))
    require_measurable(plan, MACHINE, tasks=1)
    with pytest.raises(MachineError, match=r"measures 2 such trials at once, 28.1 GiB, .*local\[1"):
        require_measurable(plan, MACHINE, tasks=2)
    require_measurable(plan, replace(MACHINE, memory_bytes=40 * GIB), tasks=2)


@pytest.mark.parametrize(
    ("master", "tasks", "elsewhere"),
    [
        (None, 8, False),
        ("local", 1, False),
        ("local[*]", 8, False),
        ("local[3]", 3, False),
        ("local[3,2]", 3, False),
        ("spark://host:7077", 8, True),
        ("sc://host", 8, True),
    ],
)
def test_the_master_says_how_many_tasks_run_at_once_and_where(
    monkeypatch: pytest.MonkeyPatch, master: str | None, tasks: int, *, elsewhere: bool
) -> None:
    """On this machine, at most as many as it names or as there are cores."""
    monkeypatch.delenv(MASTER_VARIABLE, raising=False)
    if master:
        monkeypatch.setenv(MASTER_VARIABLE, master)
    assert is_on_cluster() is elsewhere
    if not elsewhere:
        assert tasks_at_once(8) == tasks


def test_the_master_is_also_that_of_sparks_own_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A team that has one file for all of its jobs names it nowhere else; the nearest one wins."""
    monkeypatch.delenv(MASTER_VARIABLE, raising=False)
    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://host:7077\n")
    assert (named_master(), is_on_cluster()) == ("spark://host:7077", True)
    monkeypatch.setenv(SETTINGS_VARIABLE, "spark.a=1\nspark.master=local[3]")
    assert (named_master(), tasks_at_once(8)) == ("local[3]", 3)
    monkeypatch.setenv(MASTER_VARIABLE, "yarn")
    assert named_master() == "yarn"


@pytest.mark.parametrize(
    ("settings", "file", "message"),
    [
        ("spark", "", r"--conf spark: give Spark's settings as key=value"),
        ("", "\xff", r"/spark-defaults\.conf cannot be read: it is no text"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_one_line_at_planning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: str, file: str, message: str
) -> None:
    """The job would say it after the last trial."""
    monkeypatch.delenv(MASTER_VARIABLE, raising=False)
    monkeypatch.setenv(SETTINGS_VARIABLE, settings)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_bytes(file.encode("latin-1"))
    with pytest.raises(SparkError, match=message):
        is_on_cluster()


def test_on_another_master_the_memory_of_a_task_is_a_remark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """This machine cannot see what an executor has, and refuses nothing for it."""
    file = tmp_path / "keyed.yaml"
    load = {"rate_records_per_s": 100_000, "duration_s": 50}
    file.write_text(
        yaml.safe_dump(
            {
                "name": "keyed",
                "title": "Keys",
                "question": "Where do keys go?",
                "axes": {"acks": "all"},
                "workload": load,
                "keys": {"placement": True},
            }
        )
    )
    monkeypatch.setattr(new_sweep, "check_machine", lambda *_: None)
    for master, said in ((None, False), ("spark://host:7077", True)):
        monkeypatch.delenv(MASTER_VARIABLE, raising=False)
        if master:
            monkeypatch.setenv(MASTER_VARIABLE, master)
        planned = plan_new_sweep(Home(tmp_path / "home"), str(file), downloads=False)
        words = "a task on spark://host:7077 needs 2.0 GiB outside the JVM's heap"
        assert any(remark.startswith(words) for remark in planned.remarks) is said
