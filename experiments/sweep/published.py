"""Sweeps in a folder or an object store: published there trial by trial, and read from there.

The layout is that of a sweep's folder. Object stores have no rename, so the order of the uploads
decides: the tables of a trial come first and `trial.json` last. A trial without it is not there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.documents import why_unreadable, without_version
from ackbench.experiments.ledger.location import Location, LocationError, is_uri, open_location
from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST, Frozen, parse_trial_manifest
from ackbench.experiments.messages.errors import LedgerError, StorageError, UnknownName
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.folder import (
    DAG_RUN,
    FAILED,
    PARTIAL,
    REASON,
    SEVERAL_HOSTS,
    SweepFolder,
    parse_plan,
)
from ackbench.experiments.sweep.lock import is_run_by_another
from ackbench.experiments.sweep.lookup import (
    STORE_VARIABLE,
    SUMMARIES,
    experiment_of_sweep,
    find_sweep,
    is_sweep_id,
    list_sweeps,
    pruned_text,
    time_of_sweep,
)
from ackbench.experiments.sweep.own_plans import MARK
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import QUEUED, activity_text
from ackbench.infra.machine.files import move_into_place, replace_file
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.paths import user_path

_LOCAL: Final = {
    DAG_RUN,
    "progress.json",
    "stopped.txt",
    "store.json",
    "unpublished.txt",
    "unnotified.txt",
    "mlflow.json",
    MARK,
}
"""Files of a sweep's folder that describe its run on this machine; they are not published."""
_PAGE: Final = "report.html"
_FETCHED_TABLES: Final = ("events.parquet",)
"""What the report reads of a trial's ledger; it has a row per event and not per record."""
_REQUESTS: Final = 16
"""Files that are copied at a time."""


class SweepStore(Frozen):
    """Where a sweep is published: `store.json` in its folder."""

    store: str
    """The store's URI, which has no credentials."""
    uri: str
    """The sweep's URI: the folder of its id in the store."""
    several_hosts: bool = False
    """Whether several hosts run its trials, so that only the store has all of them."""


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise the errors of a location as the user's errors."""
    try:
        yield
    except LocationError as error:
        raise StorageError(str(error)) from error


def open_store(text: str) -> Location:
    """Return the store of a URI or a folder, once it answers.

    Raises:
        StorageError: it is no location, or there is no access to it; one line.
    """
    with storage_errors():
        uri = text if is_uri(text) else user_path(text).resolve().as_uri()
        store = open_location(uri)
        store.require_access()
        return store


def store_of_environment() -> Location | None:
    """Return the store that `ACKBENCH_STORE` names for new sweeps; `None`: it names none.

    Raises:
        StorageError: as `open_store`.
    """
    named = os.environ.get(STORE_VARIABLE)
    return open_store(named) if named else None


def keep_store(sweep: SweepFolder, store: Location, *, several_hosts: bool = False) -> None:
    """Record the store in the sweep's folder, for later commands and for the tasks of a DAG."""
    kept = SweepStore(
        store=store.uri, uri=store.at(sweep.sweep_id).uri, several_hosts=several_hosts
    )
    sweep.write_record(sweep.store, kept)
    if several_hosts:
        replace_file(sweep.root / SEVERAL_HOSTS, "{}\n")


def published_uri(sweep: SweepFolder) -> str | None:
    """Return the URI of a sweep in its store; `None`: no store was named for it.

    Raises:
        LedgerError: `store.json` is truncated.
    """
    kept = _kept_store(sweep)
    return kept.uri if kept else None


def runs_on_several_hosts(sweep: SweepFolder) -> bool:
    """Return whether several hosts run the trials of a sweep, so that its store has all of them.

    Raises:
        LedgerError: `store.json` is truncated.
    """
    kept = _kept_store(sweep)
    return bool(kept and kept.several_hosts)


def locks_location(sweep: SweepFolder) -> Location:
    """Return where the locks of the sweep's trials are: its store, or its folder.

    Of a copy of a published sweep that is the original.

    Raises:
        LedgerError: `store.json` is truncated.
        StorageError: the URI in it cannot be opened.
    """
    store = published_location(sweep) if runs_on_several_hosts(sweep) else None
    return sweep.origin or store or open_location(str(sweep.root))


def _kept_store(sweep: SweepFolder) -> SweepStore | None:
    try:
        content = read_document(sweep.store)
        return SweepStore.model_validate_json(without_version(content))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        reason = why_unreadable(content, "is truncated: name the store again")
        raise LedgerError(f"{sweep.store} {reason}") from error


def published_location(sweep: SweepFolder) -> Location | None:
    """Return where a sweep is published; `None`: no store was named for it.

    Raises:
        LedgerError: `store.json` is truncated.
        StorageError: the URI in it cannot be opened.
    """
    uri = published_uri(sweep)
    with storage_errors():
        return open_location(uri) if uri else None


def publish_plan(sweep: SweepFolder, target: Location) -> None:
    """Upload the plan and the other small files of the sweep's folder; older ones are replaced.

    Raises:
        StorageError: a file cannot be written.
    """
    with storage_errors():
        _upload(sweep, target, (name for name in _own_files(sweep) if name != _PAGE))


def publish_trial(sweep: SweepFolder, trial_id: str, target: Location) -> None:
    """Upload a sealed trial, `trial.json` last. A published trial is left as it is.

    Raises:
        StorageError: a file cannot be written; the trial is not there for readers. Or another host
            has published the trial: of two ledgers of one trial the first counts.
    """
    folder = f"trials/{trial_id}"
    with storage_errors():
        manifest = target.read(f"{folder}/{TRIAL_MANIFEST}")
        if manifest == read_document(sweep.trial(trial_id) / TRIAL_MANIFEST):
            return
        if manifest is not None:
            if runs_on_several_hosts(sweep) and is_planned(sweep, trial_id, manifest):
                raise StorageError(
                    f"trial {trial_id} was also run elsewhere, and that ledger is published: "
                    f"delete {sweep.trial(trial_id)}"
                )
            target.delete(f"{folder}/{TRIAL_MANIFEST}")
        names = {path.name for path in sweep.trial(trial_id).iterdir() if path.is_file()}
        _upload(sweep, target, (f"{folder}/{name}" for name in sorted(names - {TRIAL_MANIFEST})))
        target.upload(sweep.trial(trial_id) / TRIAL_MANIFEST, f"{folder}/{TRIAL_MANIFEST}")


def is_planned(sweep: SweepFolder, trial_id: str, manifest: bytes) -> bool:
    """Return whether a `trial.json` is of the sweep's own trial; a damaged one counts as such.

    Args:
        sweep: has the plan.
        trial_id: the trial.
        manifest: the content of `trial.json` in the store.
    """
    with suppress(InvalidLedger):
        return sweep.planned().why_foreign(parse_trial_manifest(manifest, trial_id)) is None
    return True


def publish_reason(sweep: SweepFolder, trial_id: str, target: Location) -> None:
    """Upload why a trial failed.

    Raises:
        StorageError: it cannot be written.
    """
    name = f"trials/{trial_id}{FAILED}/{REASON}"
    if (sweep.root / name).is_file():
        with storage_errors():
            target.upload(sweep.root / name, name)


def publish_page(sweep: SweepFolder, target: Location) -> None:
    """Upload the report.

    Raises:
        StorageError: it cannot be written.
    """
    with storage_errors():
        target.upload(sweep.report, _PAGE)


def publish_sweep(sweep: SweepFolder, target: Location) -> None:
    """Upload everything that is not published yet: plan, trials, results and report.

    It is idempotent. If it fails, `unpublished.txt` of the sweep has the reason.

    Raises:
        StorageError: a file cannot be written; the text says what is missing, and the remedy.
    """
    what = "the sweep is not completely published"
    try:
        with storage_errors():
            published = target.list_files()
        complete = sweep.complete_ids()
        left = list(complete)
        count = len(left)
        left = [
            trial_id for trial_id in left if f"trials/{trial_id}/{TRIAL_MANIFEST}" not in published
        ]
        what = _unpublished(len(left), count)
        publish_plan(sweep, target)
        for published_id in complete:
            publish_trial(sweep, published_id, target)
            left = [trial_id for trial_id in left if trial_id != published_id]
            what = _unpublished(len(left), count)
        if not (runs_on_several_hosts(sweep) and sweep.pending()):
            _publish_results(sweep, target)  # else results and reasons of other hosts are there
    except StorageError as error:
        note_failure(sweep, error)
        remedy = f"publish the rest with: ackbench publish {sweep.sweep_id}"
        raise StorageError(f"{what}; {remedy} ({error})") from error
    sweep.unpublished.unlink(missing_ok=True)


def _unpublished(left: int, total: int) -> str:
    trials = f"{left} of {total} trials, and " if left else ""
    return f"not published: {trials}the results"


def fetch_results(sweep: SweepFolder, source: Location) -> None:
    """Copy the results of a published sweep into its folder on this machine.

    Raises:
        StorageError: a file cannot be read.
    """
    with storage_errors():
        names = [name for name in source.list_files() if name.startswith("results/")]
        _download(source, sweep.root, names)


def note_failure(sweep: SweepFolder, error: StorageError) -> None:
    """Record why an upload failed, until `publish_sweep` has uploaded everything."""
    replace_file(sweep.unpublished, f"{error}\n")


def _publish_results(sweep: SweepFolder, target: Location) -> None:
    """Upload results, report and reasons of failed trials, and delete what is outdated there."""
    results = [
        f"results/{path.name}"
        for path in sorted(sweep.results.glob("*"))
        if path.name == RESULTS_MANIFEST or path.suffix == ".parquet"
    ]
    failed = [
        f"trials/{path.parent.name}/{REASON}"
        for path in sorted(sweep.root.glob(f"trials/*{FAILED}/{REASON}"))
    ]
    with storage_errors():
        _upload(sweep, target, [*results, *failed, *_own_files(sweep)])
        for name in target.list_files():
            outdated = name.startswith("results/") and results and name not in results
            if outdated or (name.endswith(f"{FAILED}/{REASON}") and name not in failed):
                target.delete(name)


def _own_files(sweep: SweepFolder) -> Iterator[str]:
    """Yield the names of the files in the sweep's folder itself that are published."""
    for path in sorted(sweep.root.iterdir()):
        if path.is_file() and path.name not in _LOCAL and not path.name.startswith("."):
            yield path.name


def _upload(sweep: SweepFolder, target: Location, names: Iterable[str]) -> None:
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for done in [pool.submit(target.upload, sweep.root / name, name) for name in names]:
            done.result()


def open_sweep(
    home: Home, named: str | None, notify: Callable[[str], object] | None = None
) -> SweepFolder:
    """Return a sweep to read: of this home, or a copy of a published one.

    Of a sweep that several hosts run, this home has its own trials only: that is a copy too. A
    sweep that this home does not have is looked for in the store of `ACKBENCH_STORE`: by its id, or
    the newest measured one of an experiment or of all.

    Args:
        home: the home of sweeps and copies.
        named: as in `finished_sweep`, or the URI of a published sweep.
        notify: as in `finished_sweep`.

    Raises:
        UnknownName: there is no such sweep.
        StorageError: the URI cannot be read.
    """
    if named and is_uri(named):
        return fetch_sweep(home, named)
    try:
        sweep = finished_sweep(home, named, notify)
    except UnknownName:
        store = None if named and "/" in named else store_of_environment()
        if store is None:
            raise
        with storage_errors():
            is_id = named is not None and is_sweep_id(named)
            sweep_id = named if is_id else _newest_in_store(store, named)
            if sweep_id and store.at(sweep_id).read(PLAN) is not None:
                return fetch_sweep(home, store.at(sweep_id).uri)
            if is_id and named in _summarized(store):
                raise UnknownName(pruned_text(named)) from None
        raise
    uri = published_uri(sweep) if runs_on_several_hosts(sweep) and sweep.pending() else None
    return fetch_sweep(home, uri) if uri else sweep


def _newest_in_store(store: Location, experiment: str | None) -> str | None:
    """Return the id of the newest measured sweep of a store, of an experiment or of all."""
    stored = filter(is_sweep_id, _summarized(store).intersection(store.list_folders()))
    asked = [one for one in stored if experiment in {None, experiment_of_sweep(one)}]
    return max(asked, key=lambda one: (time_of_sweep(one), one), default=None)


def _summarized(store: Location) -> set[str]:
    return {name.partition(".")[0] for name in store.at(SUMMARIES).list_files()}


def finished_sweep(
    home: Home, named: str | None, notify: Callable[[str], object] | None = None
) -> SweepFolder:
    """Return the sweep that is named; of an experiment or of all, the newest whose run has ended.

    If there is none, that is the newest that has begun, else the newest.

    Args:
        home: the home to search.
        named: as in `find_sweep`.
        notify: gets a line if a newer sweep runs or waits.

    Raises:
        UnknownName: there is no such sweep.
    """
    newest = find_sweep(home, named)
    if named not in {None, experiment_of_sweep(newest.sweep_id)}:
        return newest
    asked = [one for one in list_sweeps(home) if named in {None, experiment_of_sweep(one.sweep_id)}]
    for state, is_so in (("whose run has ended", _has_ended), ("that has begun", _has_begun)):
        if sweep := next(filter(is_so, asked), None):
            if notify and sweep.root != newest.root:
                notify(
                    f"{newest.sweep_id} {_unfinished_state(newest)}: this is {sweep.sweep_id}, "
                    f"the newest one {state}"
                )
            return sweep
    return newest


def _has_ended(sweep: SweepFolder) -> bool:
    """Return whether a sweep has trials and nothing runs it, be it complete or interrupted."""
    return _has_begun(sweep) and not is_run_by_another(sweep)


def _has_begun(sweep: SweepFolder) -> bool:
    """Return whether a sweep has trials, on this host or maybe on another one."""
    return sweep.has_begun() or runs_on_several_hosts(sweep)


def _unfinished_state(sweep: SweepFolder) -> str:
    """Return what a sweep is doing that has not finished, as the rest of a sentence."""
    activity = sweep.activity() if is_run_by_another(sweep) else None
    if activity and activity.stage == QUEUED:
        return f"is {activity_text(activity)}"
    return "is in progress" if activity or sweep.has_begun() else "has not begun"


def fetch_sweep(home: Home, uri: str) -> SweepFolder:
    """Copy the small files of a published sweep below the home; the ledgers stay where they are.

    The copy is as new as the store: files that are no longer there are deleted from it.

    Args:
        home: the folder of the copies is in it.
        uri: the URI of one sweep.

    Returns:
        The copy. `SweepFolder.ledgers` is the published sweep.

    Raises:
        UnknownName: there is no sweep at the URI.
        StorageError: the URI cannot be read.
    """
    with storage_errors():
        source = open_location(uri)
        stored_plan(source)
        names = _to_fetch(source.list_files())
        digest = hashlib.sha256(source.uri.encode()).hexdigest()[:16]
        folder = home.published / digest / (source.name.lstrip(".") or "sweep")
        _download(source, folder, names)
    _delete_others(folder, names)
    return SweepFolder(folder, source)


def read_plan(uri: str) -> Plan:
    """Return the plan of a published sweep.

    Args:
        uri: the URI of one sweep.

    Raises:
        UnknownName: there is no sweep at the URI.
        LedgerError: the plan is truncated, or of another version.
        StorageError: the URI cannot be read.
    """
    with storage_errors():
        stored = stored_plan(open_location(uri))
    return parse_plan(stored, f"{uri}/{PLAN}")


def stored_plan(source: Location) -> bytes:
    """Return the plan of a published sweep as it is stored.

    Raises:
        UnknownName: there is no sweep.
    """
    plan = source.read(PLAN)
    if plan is None:
        raise UnknownName(_no_sweep_at(source))
    return plan


def _no_sweep_at(source: Location) -> str:
    """Return the message about a URI without a plan; it names sweeps that are there instead."""
    source.require_access()
    sweeps = [name for name in source.list_folders() if source.at(name).read(PLAN) is not None]
    if sweeps:
        return (
            f"{source.uri} is not a sweep: it holds {len(sweeps)} sweeps; name one, as in "
            f"{source.at(sweeps[-1]).uri}"
        )
    return f"no sweep at {source.uri}: there is no {PLAN}"


def _to_fetch(published: Collection[str]) -> set[str]:
    """Return the names of the files to copy.

    Results that are not all there yet are left out, and so are trials without `trial.json`.
    """
    results = {f"results/{name}.parquet" for name in RESULTS}
    measured = {name for name in published if name in results}
    manifest = {f"results/{RESULTS_MANIFEST}"} & set(published)
    names = {name for name in published if "/" not in name and name not in {*_LOCAL, _PAGE}}
    for name in (name for name in published if name.endswith(f"/{TRIAL_MANIFEST}")):
        folder = name.removesuffix(f"/{TRIAL_MANIFEST}")
        if not folder.endswith((PARTIAL, FAILED)):
            tables = {f"{folder}/{table}" for table in _FETCHED_TABLES}
            names |= {name, *(tables & set(published))}
    names |= {name for name in published if name.endswith(f"{FAILED}/{REASON}")}
    return names | (measured | manifest if measured == results else set())


def _download(source: Location, folder: Path, names: Collection[str]) -> None:
    """Replace the local files one by one, as another command may be reading them."""
    for parent in {(folder / name).parent for name in names}:
        parent.mkdir(parents=True, exist_ok=True)

    def download(name: str) -> None:
        target = folder / name
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        source.download(name, partial)
        move_into_place(partial, target)

    with ThreadPoolExecutor(_REQUESTS) as pool:
        for done in [pool.submit(download, name) for name in names]:
            done.result()


def _delete_others(folder: Path, names: Collection[str]) -> None:
    """Delete files that are no longer published, and the folders that this leaves empty."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):
                path.rmdir()
        elif not path.name.startswith(".") and str(path.relative_to(folder)) not in {*names, _PAGE}:
            path.unlink(missing_ok=True)
