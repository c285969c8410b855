"""What a mapped task runs: one trial on this machine, or a batch of trials on any host.

A batch is complete in itself: one process starts the cluster, runs the trials, publishes them and
destroys the cluster. So no task depends on the processes or the files of another one, and any
executor may run them, each on a host of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pydantic import ValidationError

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import HealFailed, NotPublished, StorageError, TrialFailed
from ackbench.experiments.messages.phrases import format_count, format_value, one_line
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.orchestration import clusters, trials
from ackbench.experiments.orchestration.permission import (
    check_plan,
    plan_to_run,
    provide_references,
)
from ackbench.experiments.orchestration.plan_needs import references_of
from ackbench.experiments.orchestration.step_context import (
    Interrupted,
    SweepRun,
    sweep_named,
    uri_of_several,
)
from ackbench.experiments.orchestration.task_hosts import task_hosts
from ackbench.experiments.sweep import batch_choice, published, several_hosts
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import read_run_record, record_path
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home

BATCH_VARIABLE: Final = "ACKBENCH_BATCH_TRIALS"
"""The largest number of trials in a batch."""
DEFAULT_BATCH_TRIALS: Final = 5
_LOG: Final = logging.getLogger(__name__)


class Batch(Frozen):
    """What one mapped task runs."""

    label: str
    """Its name on Airflow's page."""
    trials: tuple[str, ...] = ()
    """Their ids, in order; none: the next trial of the plan, when the task starts.

    A task of several hosts runs the batch that its host takes when it starts (`batch_choice`), so
    that these are the trials that are shown until then.
    """


def list_batches(named: str) -> list[dict[str, Any]]:
    """Return what the mapped tasks run, in order, as Airflow hands it on.

    Args:
        named: the sweep's id or URI.

    Raises:
        InputError: `ACKBENCH_BATCH_TRIALS` is no positive integer.
    """
    sweep = sweep_named(named)
    if task_hosts().share_home:
        listed = [Batch(label=trials.label_of(trial)) for trial in sweep.pending_trials()]
    else:
        batches = batches_of(sweep.plan(), sweep.pending(), _max_trials())
        batch_choice.keep_batches(published.locks_location(sweep), batches)
        listed = [Batch(label=_label(ids), trials=ids) for ids in batches]
    return [batch.model_dump(mode="json") for batch in listed]


def batches_of(plan: Plan, pending: Sequence[str], max_trials: int) -> list[tuple[str, ...]]:
    """Return the trials of each batch, in the plan's order.

    The trials of a batch follow each other in the plan and may share a cluster. A trial that needs
    a cluster of its own is a batch. All trials on external clusters are one batch: in parallel they
    would measure each other.

    Args:
        plan: the sweep's plan.
        pending: the ids of the trials to run, in the plan's order.
        max_trials: the largest number of trials in a batch, except on external clusters.
    """
    batches: list[list[TrialSpec]] = []
    for spec in map(plan.trial, pending):
        last = batches[-1] if batches else []
        if last and _may_follow(spec, last, max_trials):
            last.append(spec)
        else:
            batches.append([spec])
    return [tuple(spec.trial_id for spec in batch) for batch in batches]


def _may_follow(spec: TrialSpec, batch: Sequence[TrialSpec], max_trials: int) -> bool:
    if spec.cluster.traits.shared and batch[-1].cluster.traits.shared:
        return True
    shares = not (spec.needs_own_cluster or batch[-1].needs_own_cluster)
    return shares and spec.cluster == batch[-1].cluster and len(batch) < max_trials


def _label(ids: Sequence[str]) -> str:
    span = ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    return f"{span} ({format_count(len(ids), 'trial')})"


def _max_trials() -> int:
    text = os.environ.get(BATCH_VARIABLE) or str(DEFAULT_BATCH_TRIALS)
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{BATCH_VARIABLE}={text} is invalid (allowed: an integer from 1)")
    return int(text)


def run_planned(named: str, planned: Mapping[str, Any], on_start: Callable[[str], None]) -> str:
    """Run a batch, or the next trial; return what was run, for the task's log.

    Args:
        named: the sweep's id or URI.
        planned: an element of `list_batches`.
        on_start: called with the label of the trial or batch, when that is known.

    Raises:
        HarnessError, InputError: as `run_batch` and `trials.run_next_trial`, or `planned` is no
            such element.
    """
    try:
        batch = Batch.model_validate(planned)
    except ValidationError as error:
        problem = describe_validation_error(error, Batch)
        raise InputError(f"a task was given an invalid batch: {problem}") from error
    if not batch.trials:
        return trials.run_next_trial(named, on_start)
    return ", ".join(run_batch(named, batch.trials, on_start))


def run_batch(
    named: str, planned: Sequence[str], on_start: Callable[[str], None] = lambda _: None
) -> Sequence[str]:
    """Run the trials of a batch on clusters of this task; return the ids of those that it sealed.

    A trial that fails stops no other one.

    Args:
        named: the sweep's id, or the URI of a sweep that several hosts run.
        planned: the trials to run, in order, if no batches were listed; otherwise the task runs the
            batch that its host takes. Complete and locked trials are left out.
        on_start: called with the label of the batch.

    Raises:
        InputError: this host cannot or may not run the sweep, its home has another one of that id,
            or another host uses the home.
        TrialFailed: trials have failed; the message names each with the reason.
        HarnessError: topics or groups of the sweep may be left in an external cluster.
        NotPublished: trials are sealed and could not be published; the message has the remedy.
        HealFailed: a fault could not be healed; no host starts another trial.
        Interrupted: that has happened before, on whichever host.
        WaitTimeout: another load held this machine all the time.
    """
    home = Home.from_environment()
    if uri := uri_of_several(named):
        sweep = several_hosts.check_out(home, uri, partial(check_plan, argument=uri))
    else:
        sweep = sweep_named(named)
    run, plan = SweepRun(sweep, home), plan_to_run(home, sweep)
    _require_planned(plan, planned)
    _require_own_home(home, sweep)
    with run.hold("trial", is_last=True), run.machine():
        provide_references(references_of(plan.trials))
        _prepare(home, sweep, plan)
        trials.release_ended_locks(sweep)
        taken = batch_choice.take_batch(published.locks_location(sweep), plan)
        trial_ids = planned if taken is None else taken
        on_start(_label(trial_ids) if trial_ids else "no batch is left")
        try:
            failures = _run_all(run, [plan.trial(trial_id) for trial_id in trial_ids])
        finally:
            left = clusters.destroy_all(home, sweep.sweep_id)
        unpublished = _publish_rest(run, trial_ids)
    if failures:
        count = f"{len(failures)} of {len(trial_ids)} trials failed"
        raise TrialFailed(f"{count}: {'; '.join(failures)}")
    if left:
        raise left
    if unpublished:
        raise NotPublished(
            f"trials are sealed in {sweep.root}, and not published: on this host, run "
            f"ackbench publish {sweep.sweep_id} ({unpublished})"
        )
    return [trial_id for trial_id in trial_ids if sweep.trial(trial_id).is_dir()]


def _require_planned(plan: Plan, trial_ids: Sequence[str]) -> None:
    for trial_id in {*trial_ids} - {trial.trial_id for trial in plan.trials}:
        raise InputError(
            f"a task was given {format_value(trial_id)} as a trial (allowed: those of the plan of "
            f"{plan.sweep_id})"
        )


def _require_own_home(home: Home, sweep: SweepFolder) -> None:
    """Check that no task on another host uses this home: it would destroy clusters of this one.

    Raises:
        InputError: one does, or has not ended by itself.
    """
    record = read_run_record(record_path(home, sweep.sweep_id))
    if record is None or record.machine.has_own_kernel or record.machine.has_restarted:
        return
    if record.waits_until_s is None:
        raise InputError(
            f"home {home.root} is used by {record.describe()}: give each host a home of its own "
            "(ACKBENCH_HOME), or run `ackbench clean` there if that task was killed"
        )


def _prepare(home: Home, sweep: SweepFolder, plan: Plan) -> None:
    """Check that this host can run the sweep, and make what its versions of Kafka need."""
    from ackbench.experiments.planning.new_sweep import check_machine, prepare_kafka
    from ackbench.experiments.trial.clients.process.fork_server import open_fork_server

    check_machine(plan, home)
    prepare_kafka(plan, home, _LOG.info)
    if published.runs_on_several_hosts(sweep):
        several_hosts.record_host(sweep, published.locks_location(sweep))
    else:
        several_hosts.record_machine(sweep)
    open_fork_server()


def _run_all(run: SweepRun, specs: Iterable[TrialSpec]) -> list[str]:
    """Run the trials; return the reasons of those that failed, one line each."""
    failures = []
    for spec in specs:
        try:
            trials.lock_and_run_trial(run, spec, _LOG.info)
        except (Interrupted, StorageError):
            raise
        except (HarnessError, InputError) as error:
            _LOG.error("%s", error)
            failures.append(one_line(str(error)))
            run.publish(partial(_upload_reason, spec.trial_id), again=True)
            if isinstance(error, HealFailed):
                raise
    return failures


def _upload_reason(trial_id: str, sweep: SweepFolder, target: Location) -> None:
    published.publish_reason(sweep, trial_id, target)


def _publish_rest(run: SweepRun, trial_ids: Sequence[str]) -> StorageError | None:
    """Publish the trials of the batch that this host has sealed; return the error, if it failed."""

    def upload(sweep: SweepFolder, target: Location) -> None:
        for trial_id in trial_ids:
            if sweep.trial(trial_id).is_dir():
                published.publish_trial(sweep, trial_id, target)

    return run.publish(upload, again=True)
