"""`ackbench prune` and `ackbench pin`: limits on what old sweeps take, and what is exempt."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ackbench.experiments.commands.setup import require_run_packages
from ackbench.experiments.messages.phrases import format_bytes, format_count, format_value
from ackbench.experiments.messages.terminal import echo
from ackbench.experiments.orchestration.history import delete_history
from ackbench.experiments.orchestration.tracking.deletion import delete_runs
from ackbench.experiments.results.history.pins import pin as pin_sweep
from ackbench.experiments.results.history.pins import unpin as unpin_sweep
from ackbench.experiments.results.history.pruning import (
    LIMITS_VARIABLE,
    PruneLimits,
    PrunePlan,
    counted_bytes,
    machine_limits,
    planned_pruning,
)
from ackbench.experiments.results.history.pruning import prune as prune_sweeps
from ackbench.experiments.results.history.wording import when_text
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.infra.errors import AckbenchError, InputError
from ackbench.infra.machine.home import Home

_LOG: Final = logging.getLogger(__name__)


def prune(home: Home, limits: PruneLimits, *, apply: bool) -> int:
    """Print what is pruned, and prune it if that is requested.

    Args:
        home: the home.
        limits: what to keep.
        apply: delete; without it, nothing is deleted.

    Raises:
        MachineError: the home has runs of MLflow, which the light installation cannot delete.
    """
    if apply and home.mlflow.is_dir():
        require_run_packages()  # before a sweep is deleted whose runs would stay
    plan = planned_pruning(home, limits, time.time())
    for line in plan_lines(plan):
        echo(line)
    if not apply:
        echo("dry run: nothing was deleted; --apply deletes")
        return 0
    apply_plan(home, plan, echo)
    echo(f"the home takes {format_bytes(counted_bytes(home))}")
    return 0


def prune_by_request(home: Home, request: Mapping[str, object]) -> None:
    """Prune within the limits of this machine, and log what is done.

    Args:
        home: the home.
        request: the parameters of a DAG run. Whoever may start it deletes no more than who runs
            this machine allows.

    Raises:
        InputError: the request has limits of its own, or the machine has none or invalid ones.
    """
    if request:
        raise InputError(
            f"the run's parameters: {format_value(next(iter(request)))} is unknown; a request does "
            f"not change the limits of this machine ({LIMITS_VARIABLE})"
        )
    limits = machine_limits(os.environ.get(LIMITS_VARIABLE, ""))
    plan = planned_pruning(home, limits, time.time())
    for line in plan_lines(plan):
        _LOG.info("%s", line)
    apply_plan(home, plan, lambda line: _LOG.info("%s", line))


def apply_plan(home: Home, plan: PrunePlan, say: Callable[[str], None]) -> None:
    """Delete the sweeps that a plan names, their runs in MLflow, and Airflow's old history.

    Args:
        home: the home.
        plan: what to delete.
        say: called with one line for each thing that is done, or kept with the reason.
    """
    pruned = prune_sweeps(home, plan, say)
    try:
        deleted = delete_runs(home, pruned)
    except AckbenchError as error:
        say(f"kept: the runs in MLflow: {error}")
    else:
        if deleted:
            say(f"deleted {deleted:,} runs from MLflow")
    for line in delete_history(home, plan.airflow_before_s):
        say(line)


def plan_lines(plan: PrunePlan) -> Iterator[str]:
    """Yield what a plan deletes and keeps, one line each."""
    for one in plan.doomed:
        yield f"prune {one.sweep_id} ({when_text(one.planned_s)}, {format_bytes(one.bytes)})"
    kept = ", ".join(f"{count:,} {reason}" for reason, count in plan.kept.items())
    yield (
        f"prune {format_count(len(plan.doomed), 'sweep')}; keep {sum(plan.kept.values()):,}"
        f"{f' ({kept})' if kept else ''}; {format_bytes(plan.bytes_before)} before, "
        f"about {format_bytes(plan.bytes_after)} after"
    )
    yield f"Airflow's history before {when_text(plan.airflow_before_s)} UTC is deleted too"
    if plan.is_above_limit:
        yield (
            f"above --max-bytes {format_bytes(plan.max_bytes or 0)} even so: the sweeps that are "
            "kept take more; lower --keep, or remove pins"
        )


def pin(home: Home, named: str, *, reason: str, remove: bool) -> int:
    """Pin a sweep, or remove its pin.

    Raises:
        UnknownName: there is no such sweep.
    """
    sweep = find_sweep(home, named)
    if remove:
        had = unpin_sweep(sweep)
        echo(f"{sweep.sweep_id} is {'no longer pinned' if had else 'not pinned'}")
        return 0
    pin_sweep(sweep, reason)
    echo(f"{sweep.sweep_id} is pinned: `ackbench prune` keeps it")
    return 0
