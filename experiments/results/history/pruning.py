"""Which sweeps are pruned, and their deletion with all that belongs to them.

What is decided is a pure function of the sweeps' ages and sizes (`plan_pruning`). A sweep is
deleted with its logs, its clusters' logs and its runs in MLflow; its summary is left, so that
trends keep its figures. Airflow's history is deleted by age, and the services' logs are cut.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.history.kept import forget_summary, keep_pruned, summary_of
from ackbench.experiments.results.history.pins import pinned_sweeps
from ackbench.experiments.results.history.sizes import home_sizes
from ackbench.experiments.results.history.summary import planned_s
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock, is_in_progress, runs
from ackbench.experiments.sweep.lookup import experiment_of_sweep, sweep_folders, sweep_to_delete
from ackbench.infra.errors import AckbenchError, InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.process.log_tail import cut_log

DAY_S: Final = 86_400.0
_AGE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[hdw])")
_AGE_UNITS_S: Final = {"h": 3_600.0, "d": DAY_S, "w": 7 * DAY_S}
_SIZE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kMGT]?i?)B", re.IGNORECASE)
_PREFIXES: Final = "kmgt"
_MOST_AGE_S: Final = 100 * 365 * DAY_S
_LEFTOVER: Final = ".{}.pruned"
"""The name of a sweep's folder while it is deleted."""
LIMITS_VARIABLE: Final = "ACKBENCH_PRUNE"
"""The limits of the DAG that prunes; it is set where Airflow's tasks run."""
STORE_LIMITS_VARIABLE: Final = "ACKBENCH_PRUNE_STORE"
"""Those of the store that `ACKBENCH_STORE` names."""
SERVICE_LOG_BYTES: Final = 10 * 10**6
"""A larger log of a service of `ackbench up` is cut to a tenth of this."""


@dataclass(frozen=True)
class PruneLimits:
    """What to keep; `None`: no such limit."""

    keep: int | None = None
    """The newest sweeps of each experiment, which are never pruned."""
    older_than_s: float | None = None
    """Prune what is older; without it, all beyond `keep`."""
    max_bytes: float | None = None
    """Then prune the oldest until sweeps, logs and databases take no more than this."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no limit at all."""
        return self.keep is None and self.older_than_s is None and self.max_bytes is None


def limits_of(keep: int | None, older_than: str | None, max_bytes: str | None) -> PruneLimits:
    """Return the limits that options name.

    Raises:
        InputError: one is invalid, or there is none.
    """
    limits = PruneLimits(
        keep=keep,
        older_than_s=None if older_than is None else _age_s(older_than),
        max_bytes=None if max_bytes is None else _bytes(max_bytes),
    )
    if limits.is_empty:
        raise InputError(
            "no limit: name what to keep, as in `ackbench prune --keep 30 --older-than 90d "
            "--max-bytes 50GB`"
        )
    return limits


def machine_limits(text: str, variable: str = LIMITS_VARIABLE) -> PruneLimits:
    """Return the limits that whoever runs a machine has set for the DAG that prunes.

    Args:
        text: the options of `ackbench prune`, such as `keep=30,older-than=90d,max-bytes=50GB`.
        variable: has them.

    Raises:
        InputError: a limit is unknown or invalid, or there is none.
    """
    given = dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    if not given or given.keys() - {"keep", "older-than", "max-bytes"}:
        raise InputError(
            f"{variable}={text[:80]}: {'invalid' if given else 'no limit'}, so that nothing "
            "is pruned; allowed: such as keep=30,older-than=90d,max-bytes=50GB"
        )
    keep = given.get("keep")
    if keep is not None and not (keep.isdecimal() and int(keep) > 0):
        raise InputError(f"{variable}: keep={keep[:40]}; allowed: a whole number from 1")
    return limits_of(int(keep) if keep else None, given.get("older-than"), given.get("max-bytes"))


def _age_s(text: str) -> float:
    match = _AGE.fullmatch(text.strip())
    age_s = float(match["number"]) * _AGE_UNITS_S[match["unit"]] if match else -1.0
    if not 0 < age_s <= _MOST_AGE_S:
        raise InputError(
            f"--older-than {text[:40]}: no age; allowed: a number above 0 with h, d or w, such as "
            "90d (at most 100 years)"
        )
    return age_s


def _bytes(text: str) -> float:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"--max-bytes {text[:40]}: no size; allowed: a number with B, kB, MB, GB, TB, KiB, "
            "MiB, GiB or TiB, such as 50GB"
        )
    unit = match["unit"].lower()
    base = 1024.0 if unit.endswith("i") else 1000.0
    if unit == "i":
        raise InputError(f"--max-bytes {text[:40]}: no size; allowed: such as 50GB or 50GiB")
    power = _PREFIXES.index(unit[0]) + 1 if unit else 0
    return float(match["number"]) * base**power


@dataclass(frozen=True)
class StoredSweep:
    """A sweep of the home, as far as pruning looks at it."""

    sweep_id: str
    experiment: str
    planned_s: float
    bytes: int
    """With its logs and its clusters' logs."""
    pinned: bool = False
    running: bool = False


@dataclass(frozen=True)
class PrunePlan:
    """What to prune, and what is left then."""

    doomed: tuple[StoredSweep, ...]
    """Oldest first."""
    bytes_before: int
    bytes_after: int
    max_bytes: float | None
    airflow_before_s: float
    """Airflow's history up to this time is deleted."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """How many sweeps stay, by the reason."""

    @property
    def is_above_limit(self) -> bool:
        """Whether what must be kept takes more than the limit."""
        return self.max_bytes is not None and self.bytes_after > self.max_bytes


def plan_pruning(
    sweeps: Sequence[StoredSweep], limits: PruneLimits, *, bytes_before: int, now_s: float
) -> PrunePlan:
    """Return what to prune. Pure.

    Pinned and running sweeps stay, and so do the newest `keep` of each experiment. Of the others
    all that are older than the age are pruned; then, until the size fits, the oldest.

    Args:
        sweeps: of the home.
        limits: what to keep.
        bytes_before: what the home takes, without caches.
        now_s: the time, seconds since the epoch.
    """
    newest_first = sorted(sweeps, key=lambda one: (one.planned_s, one.sweep_id), reverse=True)
    free: list[StoredSweep] = []
    kept, seen = {"pinned": 0, "running": 0, "newest": 0, "young": 0}, dict[str, int]()
    for one in newest_first:
        seen[one.experiment] = seen.get(one.experiment, 0) + 1
        if one.pinned or one.running:
            kept["pinned" if one.pinned else "running"] += 1
        elif limits.keep is not None and seen[one.experiment] <= limits.keep:
            kept["newest"] += 1
        else:
            free.append(one)
    by_age = limits.older_than_s is not None or limits.max_bytes is None
    begin_s = now_s - (limits.older_than_s or 0.0)
    doomed = {one.sweep_id for one in free if by_age and one.planned_s < begin_s}
    left = bytes_before - sum(one.bytes for one in free if one.sweep_id in doomed)
    for one in reversed(free):
        if one.sweep_id not in doomed:
            if limits.max_bytes is None or left <= limits.max_bytes:
                kept["young"] += 1
            else:
                doomed.add(one.sweep_id)
                left -= one.bytes
    return PrunePlan(
        doomed=tuple(one for one in reversed(free) if one.sweep_id in doomed),
        bytes_before=bytes_before,
        bytes_after=left,
        max_bytes=limits.max_bytes,
        airflow_before_s=_airflow_before_s(newest_first, doomed, limits, now_s),
        kept={reason: count for reason, count in kept.items() if count},
    )


def _airflow_before_s(
    sweeps: Sequence[StoredSweep], doomed: Collection[str], limits: PruneLimits, now_s: float
) -> float:
    """Return the age limit, or the time of the oldest sweep that stays and is not pinned."""
    if limits.older_than_s is not None:
        return now_s - limits.older_than_s
    left = [one.planned_s for one in sweeps if one.sweep_id not in doomed and not one.pinned]
    return min(left, default=now_s - DAY_S)


def stored_sweeps(home: Home) -> tuple[tuple[StoredSweep, ...], int]:
    """Return the sweeps of a home with their sizes, and what the home takes without its caches."""
    experiments = {
        name: experiment
        for name in sweep_folders(home)
        if (experiment := experiment_of_sweep(name)) and not (home.sweeps / name).is_symlink()
    }
    in_use, pinned = runs(home), pinned_sweeps(home, experiments)
    sizes = home_sizes(home, experiments)
    sweeps = tuple(
        StoredSweep(
            sweep_id=name,
            experiment=experiment,
            planned_s=planned_s(sweep := SweepFolder(home.sweeps / name)),
            bytes=sizes.sweeps[name],
            pinned=name in pinned,
            running=name in in_use and is_in_progress(sweep, in_use[name]),
        )
        for name, experiment in experiments.items()
    )
    return sweeps, sizes.total


def planned_pruning(home: Home, limits: PruneLimits, now_s: float) -> PrunePlan:
    """Return what to prune of a home."""
    sweeps, size_bytes = stored_sweeps(home)
    return plan_pruning(sweeps, limits, bytes_before=size_bytes, now_s=now_s)


def counted_bytes(home: Home) -> int:
    """Return what a home takes on the disk, without its caches."""
    return stored_sweeps(home)[1]


def prune(home: Home, plan: PrunePlan, say: Callable[[str], None]) -> tuple[str, ...]:
    """Delete the sweeps that a plan names, with their logs and their clusters' logs.

    It can be interrupted and called again at any time. A sweep that another process uses now is
    kept.

    Args:
        home: the home of the sweeps.
        plan: of `plan_pruning`.
        say: called with one line for each thing that is done, or kept with the reason.

    Returns:
        The ids of the pruned sweeps.
    """
    _remove_leftovers(home, say)
    pruned = []
    for one in plan.doomed:
        try:
            _prune_sweep(home, one.sweep_id)
        except AckbenchError as error:
            say(f"kept: {one.sweep_id}: {error}")
            continue
        pruned.append(one.sweep_id)
        say(f"pruned sweep {one.sweep_id}")
    _remove_clusters(home, pruned, say)
    _cut_service_logs(home, say)
    return tuple(pruned)


def _prune_sweep(home: Home, sweep_id: str) -> None:
    """Delete a sweep under its lock; its summary stays.

    Raises:
        SweepInUse: a process has started to run it, or to measure it.
        UnknownName, LedgerError: its folder is not that of a valid sweep.
    """
    sweep = sweep_to_delete(home, sweep_id)
    with SweepLock(home, sweep):
        if pinned_sweeps(home, [sweep_id]):
            raise InputError("it was pinned meanwhile")
        summary = summary_of(sweep, home)
        keep_pruned(home, summary.model_copy(update={"pruned_s": time.time()}))
        leftover = sweep.root.with_name(_LEFTOVER.format(sweep_id))
        sweep.root.rename(leftover)
    shutil.rmtree(leftover)
    forget_summary(home, sweep_id)
    logs = home.logs / sweep_id
    if logs.is_dir() and not logs.is_symlink():
        shutil.rmtree(logs)


def _remove_leftovers(home: Home, say: Callable[[str], None]) -> None:
    """Remove the folders of sweeps whose pruning was interrupted."""
    for folder in sorted(home.sweeps.glob(_LEFTOVER.format("*"))):
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
            say(f"removed the rest of {folder.name[1 : -len('.pruned')]}")


def _cut_service_logs(home: Home, say: Callable[[str], None]) -> None:
    """Cut the logs of the services, which `ackbench up` begins again only when it starts."""
    for log in sorted(home.service_logs.glob("*.log")):
        if cut_log(log, SERVICE_LOG_BYTES, SERVICE_LOG_BYTES // 10):
            say(f"cut {log.name} of the services to its end")


def _remove_clusters(home: Home, pruned: Collection[str], say: Callable[[str], None]) -> None:
    if not pruned or not home.clusters.is_dir():
        return
    from ackbench.infra.cluster import cleaning

    report = cleaning.clean(home.clusters, owners=pruned)
    if report.removed:
        say(f"removed the logs of {format_count(len(report.removed), 'cluster')}")
    for name, why in report.kept.items():
        say(f"kept: cluster {name}: {why}")
