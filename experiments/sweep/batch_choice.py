"""Which batch of a sweep a host runs next: the repeats of each cell spread over the hosts.

Figures of hosts differ. If one host ran all repeats of one cell and another host all of another,
the difference between the hosts would be taken for one between the cells. An executor may start any
task on any host, so the batch is chosen by the task when it starts: that of whose cells this host
has run the fewest repeats, compared with the other hosts.

The sweep (its store, if several hosts run it) keeps the list of batches in `batches/list.json`, and
in `batches/claims/` which host has taken which one. What a host takes depends on when its tasks
start, so balance is approached and not guaranteed: a host that works alone runs everything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.messages.errors import StorageError
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.published import storage_errors
from ackbench.experiments.sweep.trial_lock import locks_of, read_locks, release_ended, take_lock
from ackbench.infra.machine.identity import MachineIdentity

BATCHES: Final = "batches"
_LIST: Final = "list.json"

Batch = tuple[str, ...]
"""The ids of its trials, in order."""
_BATCHES: Final = TypeAdapter(list[Annotated[Batch, Field(min_length=1)]])


def keep_batches(sweep: Location, batches: Sequence[Batch]) -> None:
    """Keep the batches that the tasks of a run choose from; forget those of an earlier run.

    Raises:
        StorageError: they cannot be written.
    """
    kept = sweep.at(BATCHES)
    with storage_errors():
        for lock in locks_of(kept):
            kept.delete(lock)
        kept.write(_LIST, json.dumps([list(batch) for batch in batches]).encode())


def take_batch(sweep: Location, plan: Plan) -> Batch | None:
    """Take the batch that this host runs next.

    Args:
        sweep: where the sweep's locks are.
        plan: its plan.

    Returns:
        The trials of the batch, none if all batches are taken; `None`: no batches were kept.

    Raises:
        StorageError: they cannot be read, or the list is damaged.
    """
    kept = sweep.at(BATCHES)
    batches = _read_batches(kept)
    if batches is None:
        return None
    cells = {trial.trial_id: json.dumps(trial.cell) for trial in plan.trials}
    if not all(cells.keys() >= {*batch} for batch in batches):
        raise _damaged(kept)
    hosts = {lock.trial_id: lock.machine.host for lock in read_locks(kept)}
    for batch in in_order(batches, hosts, MachineIdentity.own().host, cells):
        if take_lock(kept, batch[0]) is not None:
            return batch
    return ()


def release_ended_batches(sweep: Location, pending: Sequence[str]) -> None:
    """Let batches be taken again whose process has ended and whose trials are not all complete.

    Args:
        sweep: where the sweep's locks are.
        pending: the trials that are not complete.

    Raises:
        StorageError: they cannot be read, the list is damaged, or a lock cannot be deleted.
    """
    kept = sweep.at(BATCHES)
    batches = _read_batches(kept) or ()
    release_ended(kept, {batch[0] for batch in batches if not {*batch}.isdisjoint(pending)})


def _read_batches(kept: Location) -> Sequence[Batch] | None:
    with storage_errors():
        content = kept.read(_LIST)
    try:
        return None if content is None else _BATCHES.validate_json(content)
    except ValidationError as error:
        raise _damaged(kept) from error


def _damaged(kept: Location) -> StorageError:
    return StorageError(f"{_LIST} in {kept.uri} is damaged: resume the sweep")


def in_order(
    batches: Sequence[Batch], taken: Mapping[str, str], own: str, cells: Mapping[str, str]
) -> list[Batch]:
    """Return the batches that nobody has taken, in the order in which a host prefers them.

    Args:
        batches: all batches of the run, in the plan's order.
        taken: the host that has taken a batch, by the batch's first trial.
        own: the name of the host.
        cells: the cell of each trial.

    Returns:
        First the batch of whose cells this host has run the fewest repeats, compared with the
        others, per trial; in the plan's order where batches are equal in that.
    """
    lead: Counter[str] = Counter()
    for batch in batches:
        if batch[0] in taken:
            step = 1 if taken[batch[0]] == own else -1
            for trial_id in batch:
                lead[cells[trial_id]] += step
    untaken = [batch for batch in batches if batch[0] not in taken]
    return sorted(untaken, key=lambda batch: sum(lead[cells[one]] for one in batch) / len(batch))
