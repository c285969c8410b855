"""Pruning of a store that several hosts share: the same limits, over the sweeps of all of them.

Of a pruned sweep the store keeps the summary and the files of the warehouse, so that the history of
every host stays as long as it was. The summary is marked first, and a sweep's plan is deleted last:
a deletion that was interrupted is finished by the next one, from any host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.location import Location
from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST
from ackbench.experiments.messages.phrases import format_bytes
from ackbench.experiments.results.history.kept import read_summary
from ackbench.experiments.results.history.pins import pinned_sweeps, pins_of_store
from ackbench.experiments.results.history.pruning import (
    DAY_S,
    PruneLimits,
    PrunePlan,
    StoredSweep,
    plan_pruning,
)
from ackbench.experiments.results.history.shared import fetch_summaries, write_summary
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.sweep.folder import parse_plan
from ackbench.experiments.sweep.trial_lock import LOCKS
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.home import Home

_REQUESTS: Final = 16


def planned_store_pruning(
    home: Home, store: Location, limits: PruneLimits, now_s: float
) -> PrunePlan:
    """Return what to prune of a store.

    A sweep without a summary has not finished, and is not looked at. One in which a trial is locked
    or something was written within a day counts as running.

    Args:
        home: keeps copies of the summaries; its own pins count as those of the store do.
        store: the store.
        limits: what to keep.
        now_s: the time, seconds since the epoch.

    Raises:
        LocationError: the store cannot be read.
    """
    present = {*store.list_folders()}
    summaries = [
        one
        for sweep_id, one in _summaries(home, store).items()
        if sweep_id in present and one.pruned_s is None
    ]
    pinned = pins_of_store(store) | pinned_sweeps(home, [one.sweep_id for one in summaries])
    stored = partial(_stored, store, pinned, now_s)
    with ThreadPoolExecutor(_REQUESTS) as requests:
        sweeps = tuple(requests.map(stored, summaries))
    size_bytes = sum(one.bytes for one in sweeps)
    return plan_pruning(sweeps, limits, bytes_before=size_bytes, now_s=now_s)


def _summaries(home: Home, store: Location) -> Mapping[str, SweepSummary]:
    """Return the summaries of a store by sweep, also of pruned ones."""
    read = {name: read_summary(path) for name, path in fetch_summaries(home, store).items()}
    return {name: one for name, one in read.items() if one and one.sweep_id == name}


def _stored(
    store: Location, pinned: frozenset[str], now_s: float, summary: SweepSummary
) -> StoredSweep:
    folder = store.at(summary.sweep_id)
    files, written_s = folder.use()
    is_locked = any(name.startswith(f"{LOCKS}/") for name in files)
    return StoredSweep(
        sweep_id=summary.sweep_id,
        experiment=summary.experiment,
        planned_s=summary.planned_s,
        bytes=sum(files.values()),
        pinned=summary.sweep_id in pinned,
        running=is_locked or written_s > now_s - DAY_S,
    )


def prune_store(
    home: Home, store: Location, plan: PrunePlan, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Delete the sweeps that a plan names from a store.

    Args:
        home: keeps copies of the summaries.
        store: the store.
        plan: of `planned_store_pruning`.
        say: called with one line for each thing that is done, or kept with the reason.

    Returns:
        The ids of the pruned sweeps.

    Raises:
        LocationError: the store cannot be read or written.
    """
    summaries = _summaries(home, store)
    _finish_interrupted(store, summaries, say)
    pruned = []
    for one in plan.doomed:
        summary = summaries.get(one.sweep_id)
        why = _why_not_its(store, one.sweep_id)
        if summary is None:
            why = "another host writes its summary"
        elif not why and one.sweep_id in pins_of_store(store):
            why = "it was pinned meanwhile"
        if summary is None or why:
            say(f"kept: {one.sweep_id}: {why}")
            continue
        write_summary(summary.model_copy(update={"pruned_s": time.time()}), store)
        _delete(store.at(one.sweep_id))
        pruned.append(one.sweep_id)
        say(f"pruned sweep {one.sweep_id} in the store, {format_bytes(one.bytes)}")
    return tuple(pruned)


def _finish_interrupted(
    store: Location, summaries: Mapping[str, SweepSummary], say: Callable[[str], None]
) -> None:
    for name in store.list_folders():
        is_pruned = name in summaries and summaries[name].pruned_s is not None
        if is_pruned and store.at(name).list_files():
            if why := _why_not_its(store, name):
                say(f"kept: {name}: {why}")
                continue
            _delete(store.at(name))
            say(f"removed the rest of {name} from the store")


def _why_not_its(store: Location, sweep_id: str) -> str:
    """Return why a folder of a store is not known to be the sweep's; empty: its plan says so."""
    folder = store.at(sweep_id)
    try:
        content = folder.read(PLAN)
        if content is None:
            return f"{folder.uri} has no {PLAN}"
        parse_plan(content, sweep_id).require_sweep(sweep_id)
    except (AckbenchError, InvalidLedger) as error:
        return str(error)
    return ""


def _delete(sweep: Location) -> None:
    """Delete the files of a sweep: no reader sees a trial without all of its tables."""
    names = sweep.list_files().keys() - {PLAN}
    manifests = {name for name in names if name.endswith(f"/{TRIAL_MANIFEST}")}
    with ThreadPoolExecutor(_REQUESTS) as requests:
        list(requests.map(sweep.delete, sorted(manifests)))
        list(requests.map(sweep.delete, sorted(names - manifests)))
    sweep.delete(PLAN)
    sweep.delete_folder()
