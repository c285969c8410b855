"""`ackbench prune` and `ackbench pin`: limits on what old sweeps take, and what is exempt."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ackbench.experiments.commands.setup import require_run_packages
from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import format_bytes, format_count, format_value
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.orchestration.history import delete_history
from ackbench.experiments.orchestration.tracking.deletion import delete_runs
from ackbench.experiments.orchestration.tracking.store import embedded_uri, tracking_uri
from ackbench.experiments.results.history.pins import (
    is_pinned,
    pin_in_store,
    pins_of_store,
    unpin_in_store,
)
from ackbench.experiments.results.history.pins import pin as pin_sweep
from ackbench.experiments.results.history.pins import unpin as unpin_sweep
from ackbench.experiments.results.history.pruning import (
    LIMITS_VARIABLE,
    STORE_LIMITS_VARIABLE,
    PruneLimits,
    PrunePlan,
    counted_bytes,
    machine_limits,
    planned_pruning,
)
from ackbench.experiments.results.history.pruning import prune as prune_sweeps
from ackbench.experiments.results.history.wording import when_text
from ackbench.experiments.sweep.lookup import STORE_VARIABLE, is_sweep_id
from ackbench.experiments.sweep.published import (
    finished_sweep,
    open_store,
    published_location,
    storage_errors,
    store_of_environment,
)
from ackbench.infra.errors import AckbenchError, InputError
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.ledger.location import Location

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


def prune_store(home: Home, named: str, limits: PruneLimits, *, apply: bool) -> int:
    """Print what is pruned in a store, and prune it if that is requested.

    Args:
        home: keeps copies of the store's summaries.
        named: the store, a folder or a URI.
        limits: what to keep.
        apply: delete; without it, nothing is deleted.

    Raises:
        StorageError: the store cannot be read or written.
    """
    with storage_errors():
        _prune_store(home, open_store(named), limits, echo, apply=apply)
    if not apply:
        echo("dry run: nothing was deleted; --apply deletes")
    return 0


def _prune_store(
    home: Home, store: Location, limits: PruneLimits, say: Callable[[str], None], *, apply: bool
) -> None:
    from ackbench.experiments.results.history import store_pruning  # loads Arrow

    plan = store_pruning.planned_store_pruning(home, store, limits, time.time())
    if not plan.doomed and not plan.kept:
        say(f"no finished sweep is published in {store.uri}")
    for line in _sweep_lines(plan):
        say(line)
    if apply:
        pruned = store_pruning.prune_store(home, store, plan, say)
        if tracking_uri(home) != embedded_uri(home):
            _delete_runs(home, pruned, say)


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
    text, say = os.environ.get(STORE_LIMITS_VARIABLE), partial(_LOG.info, "%s")
    of_store = machine_limits(text, STORE_LIMITS_VARIABLE) if text else None
    plan = planned_pruning(home, limits, time.time())
    for line in plan_lines(plan):
        say(line)
    apply_plan(home, plan, say)
    if of_store:
        store = store_of_environment()
        if store is None:
            raise InputError(f"{STORE_LIMITS_VARIABLE} is set, and {STORE_VARIABLE} is not")
        with storage_errors():
            _prune_store(home, store, of_store, say, apply=True)


def apply_plan(home: Home, plan: PrunePlan, say: Callable[[str], None]) -> None:
    """Delete the sweeps that a plan names, their runs in MLflow, and Airflow's old history.

    Args:
        home: the home.
        plan: what to delete.
        say: called with one line for each thing that is done, or kept with the reason.
    """
    _delete_runs(home, prune_sweeps(home, plan, say), say)
    for line in delete_history(home, plan.airflow_before_s):
        say(line)


def _delete_runs(home: Home, pruned: Sequence[str], say: Callable[[str], None]) -> None:
    try:
        deleted = delete_runs(home, pruned)
    except AckbenchError as error:
        say(f"kept: the runs in MLflow: {error}")
    else:
        if deleted:
            say(f"deleted {deleted:,} runs from MLflow")


def plan_lines(plan: PrunePlan) -> Iterator[str]:
    """Yield what a plan of the home deletes and keeps, one line each."""
    yield from _sweep_lines(plan)
    yield f"Airflow's history before {when_text(plan.airflow_before_s)} UTC is deleted too"


def _sweep_lines(plan: PrunePlan) -> Iterator[str]:
    for one in plan.doomed:
        yield f"prune {one.sweep_id} ({when_text(one.planned_s)}, {format_bytes(one.bytes)})"
    kept = ", ".join(f"{count:,} {reason}" for reason, count in plan.kept.items())
    yield (
        f"prune {format_count(len(plan.doomed), 'sweep')}; keep {sum(plan.kept.values()):,}"
        f"{f' ({kept})' if kept else ''}; {format_bytes(plan.bytes_before)} before, "
        f"about {format_bytes(plan.bytes_after)} after"
    )
    if plan.is_above_limit:
        yield (
            f"above --max-bytes {format_bytes(plan.max_bytes or 0)} even so: the sweeps that are "
            "kept take more; lower --keep, or remove pins"
        )


def pin(home: Home, named: str, *, reason: str, remove: bool) -> int:
    """Pin a sweep, or remove its pin: in the home, and in the store that it is published to.

    Raises:
        UnknownName: there is no such sweep.
        StorageError: the store cannot be read or written; the pin in the home is as requested.
    """
    try:
        sweep = finished_sweep(home, named, echo_error)
    except UnknownName:
        store = store_of_environment() if is_sweep_id(named) else None
        with storage_errors():
            if store is None or store.at(named).read(PLAN) is None:
                raise
        sweep_id, had, where = named, False, " in its store"
    else:
        published = published_location(sweep)
        sweep_id, store = sweep.sweep_id, published.parent if published else None
        where = ", here and in its store" if store else ""
        had = is_pinned(sweep)
        if remove:
            unpin_sweep(sweep)
        else:
            pin_sweep(sweep, reason)
    with storage_errors():
        if store:
            had = had or sweep_id in pins_of_store(store)
            unpin_in_store(store, sweep_id) if remove else pin_in_store(store, sweep_id, reason)
    if remove:
        echo(f"{sweep_id} is {f'no longer pinned{where}' if had else 'not pinned'}")
    else:
        echo(f"{sweep_id} is pinned{where}: `ackbench prune` keeps it")
    return 0
