"""A sweep whose trials several hosts run: each has a folder of its own, and the store has all.

The store has the plan, the locks (`experiments.sweep.trial_lock`) and the sealed trials. A host's
folder has the plan and the trials that this host has run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

from pydantic import TypeAdapter

from ackbench.experiments.ledger.digests import with_digest, without_digest
from ackbench.experiments.ledger.location import Location, open_location
from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST
from ackbench.experiments.messages.errors import StorageError
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.sweep.documents import read_document, read_note
from ackbench.experiments.sweep.folder import (
    EXPERIMENT,
    FAILED,
    MACHINE,
    PARTIAL,
    SEVERAL_HOSTS,
    SweepFolder,
    parse_plan,
)
from ackbench.experiments.sweep.host import this_host
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.published import (
    is_planned,
    keep_store,
    locks_location,
    published_location,
    published_uri,
    runs_on_several_hosts,
    storage_errors,
    stored_plan,
)
from ackbench.experiments.sweep.trial_lock import release_abandoned
from ackbench.infra.errors import InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.resources import GIB, this_machine

_HOSTS: Final = "hosts"
_DAG_RUNS: Final = "dag-runs"
"""In a store: which sweep a DAG run has planned, one file per run."""
_HOST: Final = TypeAdapter(dict[str, Any])


def check_out(home: Home, uri: str, check: Callable[[Plan], None]) -> SweepFolder:
    """Return this host's folder of a published sweep; create it from the plan in the store.

    Args:
        home: the home of this host.
        uri: the URI of the sweep.
        check: raises an error if this machine may not run a plan that it has not made: whoever can
            write the store could have changed it.

    Raises:
        UnknownName: there is no sweep at the URI.
        ExperimentError: `check` refuses the plan, and nothing is written.
        LedgerError: the plan is truncated, or another sweep's.
        InputError: one machine runs the sweep, whose locks other hosts do not see; or the home has
            another sweep with this id.
        StorageError: the store cannot be read.
    """
    with storage_errors():
        source = open_location(uri)
        plan, experiment = stored_plan(source), source.read(EXPERIMENT)
        if source.read(SEVERAL_HOSTS) is None:
            raise InputError(f"one machine runs the sweep at {uri}: resume it there, by its id")
    sweep = SweepFolder(home.sweeps / source.name)
    if (sweep.root / PLAN).is_file():
        _require_same(sweep, source, plan)
        return sweep
    fetched = parse_plan(plan, f"{uri}/{PLAN}")
    fetched.require_sweep(sweep.sweep_id)
    check(fetched)
    (sweep.root / "trials").mkdir(parents=True, exist_ok=True)
    keep_store(sweep, source.parent, several_hosts=True)
    if experiment is not None:
        replace_file(sweep.experiment_yaml, experiment)
    replace_file(sweep.root / PLAN, plan)  # a folder without it is no sweep
    return sweep


def _require_same(sweep: SweepFolder, source: Location, plan: bytes) -> None:
    kept = published_uri(sweep)
    if kept != source.uri:
        raise InputError(
            f"{sweep.root} is published to {kept or 'no store'}, and not to {source.uri}: give the "
            "tasks another home"
        )
    if read_document(sweep.root / PLAN) != plan:
        raise InputError(
            f"{sweep.root / PLAN} differs from the plan in {source.uri}: restore it from there"
        )


def note_dag_run(store: Location, dag_run: str, sweep_id: str) -> None:
    """Note in a store which sweep a DAG run has planned, for the host on which it is cleared.

    Raises:
        StorageError: the store cannot be written.
    """
    with storage_errors():
        store.write(_name_of_run(dag_run), sweep_id.encode())


def planned_by(store: Location, dag_run: str) -> str | None:
    """Return the id of the sweep that a DAG run has planned on whichever host; `None`: none.

    Raises:
        StorageError: the store cannot be read.
    """
    with storage_errors():
        noted = store.read(_name_of_run(dag_run))
    return None if noted is None else noted.decode(errors="replace")


def _name_of_run(dag_run: str) -> str:
    return f"{_DAG_RUNS}/{blake2b(dag_run.encode(), digest_size=16).hexdigest()}.txt"


def published_ids(source: Location) -> frozenset[str]:
    """Return the ids of the sealed and void trials in the store.

    Raises:
        StorageError: the store cannot be read.
    """
    with storage_errors():
        names = [name.split("/") for name in source.at("trials").list_files()]
    return frozenset(
        name[0]
        for name in names
        if name[1:] == [TRIAL_MANIFEST] and not name[0].endswith((PARTIAL, FAILED))
    )


def is_published(sweep: SweepFolder, trial_id: str) -> bool:
    """Return whether the store of several hosts has a trial, which is the plan's.

    Raises:
        StorageError: the store cannot be read.
    """
    with storage_errors():
        manifest = locks_location(sweep).read(f"trials/{trial_id}/{TRIAL_MANIFEST}")
    return manifest is not None and is_planned(sweep, trial_id, manifest)


def fetch_trials(sweep: SweepFolder) -> tuple[str, ...]:
    """Copy the trials that other hosts have published into this host's folder, with all tables.

    One that is not the plan's counts as failed here.

    Returns:
        The ids of the copied trials; none if only one host runs the sweep.

    Raises:
        StorageError: a file cannot be read; the trial is not there.
    """
    store = _common_store(sweep)
    if store is None:
        return ()
    sweep.fail_foreign_trials()
    missing = sorted(published_ids(store) & set(sweep.pending()))
    for trial_id in missing:
        partial = sweep.partial(trial_id)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with storage_errors():
            folder = store.at("trials").at(trial_id)
            for name in folder.list_files():
                folder.download(name, partial / name)
        partial.replace(sweep.trial(trial_id))
    foreign = sweep.fail_foreign_trials()
    return tuple(trial_id for trial_id in missing if trial_id not in foreign)


def resume(sweep: SweepFolder, *, complete: bool) -> Sequence[str]:
    """Let trials run again that were locked or stopped, and return what was done, in lines.

    Hold the lock of the sweep.

    Args:
        sweep: the sweep.
        complete: copy the trials that other hosts have published into the sweep's folder, so that
            it is complete.

    Raises:
        TrialLocked: the process of a locked trial lives.
        StorageError: the store of several hosts does not answer.
    """
    released = release_abandoned(locks_location(sweep))
    allow_trials(sweep)
    foreign = sweep.fail_foreign_trials()
    copied = fetch_trials(sweep) if complete else ()
    return [
        *(f"released trial {lock.trial_id}, locked by {lock.describe()}" for lock in released),
        *(f"counts as failed, and is run again: {reason}" for reason in foreign.values()),
        *([f"copied from the store: {format_list(copied)}"] if copied else []),
    ]


def stop_reason(sweep: SweepFolder) -> str | None:
    """Return why no host starts another trial; `None`: nothing has stopped the sweep.

    Raises:
        StorageError: the store of several hosts cannot be read.
    """
    store = _common_store(sweep)
    if store is None:
        return read_note(sweep.stop_reason)
    with storage_errors():
        text = store.read(sweep.stop_reason.name)
    return None if text is None else text.decode(errors="replace")


def stop(sweep: SweepFolder, reason: str) -> None:
    """Have no host start another trial, until the sweep is resumed.

    Raises:
        StorageError: the store of several hosts cannot be written.
    """
    store = _common_store(sweep)
    if store is None:
        replace_file(sweep.stop_reason, reason)
        return
    with storage_errors():
        store.write(sweep.stop_reason.name, reason.encode())


def allow_trials(sweep: SweepFolder) -> None:
    """Undo `stop`.

    Raises:
        StorageError: the store of several hosts cannot be written.
    """
    sweep.stop_reason.unlink(missing_ok=True)
    store = _common_store(sweep)
    if store is not None:
        with storage_errors():
            store.delete(sweep.stop_reason.name)


def _common_store(sweep: SweepFolder) -> Location | None:
    """Return the store that several hosts share; `None`: one host runs the sweep."""
    if sweep.origin:
        return sweep.origin
    return published_location(sweep) if runs_on_several_hosts(sweep) else None


def describe_machine(sweep: SweepFolder) -> dict[str, str | int]:
    """Return the properties of this host that its figures depend on."""
    host = this_host(sweep.root)
    return {
        "system": host.system,
        "processor": host.processor,
        "cores": host.cores,
        "memory, GiB": host.memory_gib,
        "free memory, GiB": this_machine(sweep.root).memory_bytes // GIB,
        "disk": host.disk,
    }


def record_machine(sweep: SweepFolder) -> None:
    """Record the machine of the trials: figures of two machines are not comparable."""
    document = with_digest(json.dumps(describe_machine(sweep), indent=1))
    replace_file(sweep.root / MACHINE, document)


def record_host(sweep: SweepFolder, target: Location) -> None:
    """Record this host's properties in the store.

    Raises:
        StorageError: the store cannot be written.
    """
    with storage_errors():
        target.write(
            f"{_HOSTS}/{this_host(sweep.root).name}.json",
            with_digest(json.dumps(describe_machine(sweep), indent=1)).encode(),
        )


def gather_hosts(sweep: SweepFolder, source: Location) -> None:
    """Write `machine.json` of a sweep from the properties of all of its hosts, here and there.

    Raises:
        StorageError: the store cannot be read or written, or a file in it is damaged.
    """
    with storage_errors():
        hosts = {
            name.removesuffix(".json"): _described(source.at(_HOSTS), name)
            for name in sorted(source.at(_HOSTS).list_files())
        }
        if not hosts:
            return
        document = with_digest(json.dumps(machine_of_hosts(hosts), indent=1))
        replace_file(sweep.root / MACHINE, document)
        source.write(MACHINE, document.encode())


def _described(hosts: Location, name: str) -> dict[str, str | int]:
    """Return the properties of a host, from its file in the store."""
    try:
        content, _ = without_digest(hosts.read(name) or b"{}")
        return _HOST.validate_json(content)
    except ValueError as error:
        raise StorageError(f"{name} in {hosts.uri} is damaged: delete it") from error


def machine_of_hosts(hosts: Mapping[str, Mapping[str, str | int]]) -> dict[str, str]:
    """Return the properties of all hosts as those of one machine: their distinct values.

    Args:
        hosts: the properties of each, by its name.
    """
    names = dict.fromkeys(chain.from_iterable(hosts.values()))
    found = {
        name: dict.fromkeys(str(host[name]) for host in hosts.values() if name in host)
        for name in names
    }
    return {"hosts": format_list([*hosts])} | {
        name: format_list([*values]) for name, values in found.items()
    }
