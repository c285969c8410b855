"""Permission to run a plan: this home has made it, or a file of this machine permits it.

It is checked when a plan comes from a store, and again before anything of a plan is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.orchestration.plan_needs import (
    needs_of,
    references_in,
    references_of,
    refuse_without_permission,
)
from ackbench.experiments.orchestration.request import EXPERIMENTS_VARIABLE, offered_files
from ackbench.experiments.orchestration.step_context import RUN_STATE
from ackbench.experiments.planning.catalog.loading import read_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.own_plans import is_own
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.sweep.trial_lock import own_dag_run
from ackbench.experiments.trial.faults.composition.composite import require_known_fault
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.home import Home


def plan_to_run(home: Home, sweep: SweepFolder, files: Iterable[Experiment] = ()) -> Plan:
    """Return the plan of a sweep that is about to be run.

    Args:
        home: the home that runs it.
        sweep: the sweep.
        files: experiments of this machine that a person names, beside those that are offered.

    Raises:
        ExperimentError: this home has not made the plan, and no file permits what it does; or it
            has a fault that this version does not know.
        LedgerError: the plan is damaged, or another sweep's.
    """
    plan = sweep.plan()
    plan.require_sweep(sweep.sweep_id)
    if is_own(home, sweep):
        _require_known_faults(plan.trials)
    else:
        check_plan(plan, sweep.argument, files)
    return plan


def check_plan(plan: Plan, argument: str, files: Iterable[Experiment] = ()) -> None:
    """Check that files of this machine permit what a plan does that this home has not made.

    Args:
        plan: the plan.
        argument: how a command names the sweep.
        files: as for `plan_to_run`.

    Raises:
        ExperimentError: none does, or a fault is unknown.
    """
    _require_known_faults(plan.trials)
    _check(plan.trials, plan.experiment, argument, files)


def require_permission(home: Home, trial: TrialSpec) -> None:
    """Check once more that a trial may be run, when its cluster is about to be started.

    Raises:
        ExperimentError: as `plan_to_run`.
    """
    _require_known_faults([trial])
    if needs_of(trial):
        sweep = SweepFolder(home.sweeps / trial.sweep_id)
        if not (is_own(home, sweep) and trial in sweep.plan().trials):
            _check([trial], trial.experiment, trial.sweep_id, ())


def _require_known_faults(trials: Iterable[TrialSpec]) -> None:
    for trial in trials:
        require_known_fault(trial.fault)


def _check(
    trials: Sequence[TrialSpec], experiment: str, argument: str, files: Iterable[Experiment]
) -> None:
    remedy = (
        f"allowed: if a file of this machine has the same, as in `ackbench run FILE --resume "
        f"{argument}`, or in the folder of {EXPERIMENTS_VARIABLE}"
    )
    own = chain(
        (file for file in files if file.name == experiment), _offered_experiments(experiment)
    )
    refuse_without_permission(trials, own, remedy)


def _offered_experiments(name: str) -> Iterator[Experiment]:
    """Yield the experiments of that name in the operator's folder, with their variables set."""
    for path in offered_files().values():
        try:
            experiment = read_experiment(path)
        except ExperimentError:
            continue
        if experiment.name == name:
            provide_references(references_in(experiment))
            yield experiment


def provide_references(names: Sequence[str]) -> None:
    """Set variables from what Airflow keeps, in a process of a task of Airflow.

    Args:
        names: those that an experiment's file of this machine, or a permitted plan, refers to.
    """
    if names and own_dag_run() and not RUN_STATE.is_command:
        from ackbench.experiments.orchestration.airflow_values import provide_values

        provide_values(names)


def provide_references_of(home: Home, sweep: SweepFolder) -> None:
    """Set the variables that the plan of a sweep refers to, if this machine may run it."""
    try:
        plan = plan_to_run(home, sweep)
    except AckbenchError:
        return
    provide_references(references_of(plan.trials))
