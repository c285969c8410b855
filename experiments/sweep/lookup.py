"""Find sweeps in the home folder, by id, by experiment or by path."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.messages.errors import LedgerError, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_value
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.paths import is_file

STORE_VARIABLE: Final = "ACKBENCH_STORE"
"""Names the store that new sweeps are published to, and whose sweeps belong to the history."""
SUMMARIES: Final = "summaries"
"""The folder of a store with `<sweep>.<digest>.json` for each sweep, also of pruned ones."""
_SWEEP_ID: Final = re.compile(
    r"(?P<experiment>[a-z0-9]+(?:-[a-z0-9]+)*)-(?P<time>[0-9]{8}T[0-9]{6})-[0-9a-f]{4}"
)


def new_sweep_id(experiment: str) -> str:
    """Return `<experiment>-<UTC yyyymmddThhmmss>-<4 hex digits>`.

    Ids sort by time; the digits distinguish sweeps of the same second.
    """
    return f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def is_sweep_id(text: str) -> bool:
    """Return whether a text has the form of a sweep's id; no path and no URI has."""
    return _SWEEP_ID.fullmatch(text) is not None


def time_of_sweep(sweep_id: str) -> str | None:
    """Return when a sweep was planned, UTC, as `20260102T030405`; `None`: it is no sweep's id."""
    match = _SWEEP_ID.fullmatch(sweep_id)
    return match["time"] if match else None


def experiment_of_sweep(sweep_id: str) -> str | None:
    """Return the experiment of a sweep; `None`: it is no sweep's id."""
    match = _SWEEP_ID.fullmatch(sweep_id)
    return match["experiment"] if match else None


def pruned_folder(home: Home) -> Path:
    """Return the folder of what is left of pruned sweeps, one file per sweep."""
    return home.index / "pruned"


def list_sweeps(home: Home) -> tuple[SweepFolder, ...]:
    """Return all sweeps of a home, the newest first."""
    modified_s = sweep_folders(home)
    names = sorted(modified_s, key=lambda name: _created(name, modified_s[name]), reverse=True)
    return tuple(SweepFolder(home.sweeps / name) for name in names)


def sweep_folders(home: Home) -> dict[str, float]:
    """Return the names of the folders that have a plan, and when that was written.

    Names that begin with a dot are those of folders that are being made or deleted.
    """
    found = {}
    try:
        with os.scandir(home.sweeps) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for name in names:
        with suppress(OSError):  # it has none, or was deleted meanwhile
            found[name] = os.stat(f"{home.sweeps}/{name}/{PLAN}").st_mtime  # noqa: PTH116 - fast
    return found


def find_sweep(home: Home, named: str | None) -> SweepFolder:
    """Return a sweep.

    Args:
        home: the home to search.
        named: a sweep's id, its folder, or the name of an experiment for its newest sweep;
            `None`: the newest sweep of all.

    Raises:
        UnknownName: there is no such sweep.
    """
    if named and "://" in named:
        raise UnknownName(
            f"{_scheme(named)}://... is a URI; allowed here: a sweep's id, its folder, or an "
            "experiment"
        )
    sweeps = list_sweeps(home)
    if named is None:
        if not sweeps:
            raise UnknownName(f"no sweep in {home.sweeps} yet: start with `ackbench run quick`")
        return sweeps[0]
    if "/" in named and is_file(Path(named) / PLAN):
        return SweepFolder(Path(named).resolve())
    for sweep in sweeps:
        if named in {sweep.sweep_id, experiment_of_sweep(sweep.sweep_id)}:
            return sweep
    if is_file(pruned_folder(home) / f"{named}.json") and "/" not in named:
        raise UnknownName(pruned_text(named))
    suggestion = did_you_mean(named, [sweep.sweep_id for sweep in sweeps])
    raise UnknownName(f"unknown sweep {named}{suggestion} (in {home.sweeps})")


def pruned_text(sweep_id: str) -> str:
    """Return what there is to know for a reader of a sweep that was pruned."""
    return (
        f"sweep {sweep_id} was pruned: its ledgers and report are deleted; its figures are left in "
        f"`ackbench sweeps` and `ackbench trend {experiment_of_sweep(sweep_id)}`"
    )


def sweep_of_id(home: Home, sweep_id: str) -> SweepFolder:
    """Return the sweep of this home with an id; a path is no id.

    Raises:
        UnknownName: the home has no such sweep.
    """
    for sweep in list_sweeps(home):
        if sweep.sweep_id == sweep_id:
            return sweep
    raise UnknownName(
        f"no sweep has the id {format_value(sweep_id)} in {home.sweeps}: "
        "`ackbench show` names the newest"
    )


def sweep_to_delete(home: Home, sweep_id: str) -> SweepFolder:
    """Return a valid sweep of this home for deletion.

    Other folders, links and folders without a valid plan are refused.

    Args:
        home: the home that holds the sweep.
        sweep_id: the complete id; neither a path nor the name of an experiment.

    Raises:
        UnknownName: the home has no such sweep, or the folder is a link.
        LedgerError: the plan is truncated, of another version, or another sweep's.
    """
    sweep = sweep_of_id(home, sweep_id)
    if sweep.root.is_symlink():
        raise UnknownName(f"{sweep.root} is a link: nothing is deleted through a link")
    planned_id = sweep.plan().sweep_id
    if planned_id != sweep_id:
        raise LedgerError(
            f"{sweep.root / 'plan.json'} is the plan of sweep {planned_id}: "
            "delete the folder by hand if it is not needed"
        )
    return sweep


def _scheme(uri: str) -> str:
    """Return the scheme: the rest may have credentials, as nothing has checked the URI."""
    return uri.partition(":")[0]


def _created(name: str, modified_s: float) -> tuple[str, float]:
    """Return when a sweep was planned: from its id to the second, then from its plan's file."""
    modified = f"{datetime.fromtimestamp(modified_s, UTC):%Y%m%dT%H%M%S}"
    return time_of_sweep(name) or modified, modified_s
