"""Kept summaries: which are still those of their sweeps, and those of sweeps without a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeGuard

from pydantic import ValidationError

from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.history.store import SummaryStore
from ackbench.experiments.results.history.summary import (
    SUMMARY_FORMAT,
    SweepSummary,
    folder_stamp,
    summary_stamp,
)
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import pruned_folder
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home


def summary_of(sweep: SweepFolder, home: Home) -> SweepSummary:
    """Return the summary of a sweep of this home: the kept one, or a new one that is then kept.

    A sweep that cannot be read has a summary too, with the reason.
    """
    with SummaryStore(home) as store:
        head = store.heads().get(sweep.sweep_id)
        return (
            completed(store, home, head)
            if is_current(head, sweep)
            else rebuilt_summary(store, sweep)
        )


def completed(store: SummaryStore, home: Home, head: SweepSummary) -> SweepSummary:
    """Return a summary with its cells and settings, which are read again if they are damaged."""
    full = store.complete(head)
    if full is not None:
        return full
    if file := file_of(head):
        return read_summary(file) or head
    return rebuilt_summary(store, SweepFolder(home.sweeps / head.sweep_id))


def complete_summaries(home: Home, heads: Iterable[SweepSummary]) -> Iterator[SweepSummary]:
    """Yield summaries with their cells and settings, the oldest first, one after the other."""
    with SummaryStore(home) as store:
        for head in sorted(heads, key=lambda one: (one.planned_s, one.sweep_id)):
            yield completed(store, home, head)


def is_current(summary: SweepSummary | None, sweep: SweepFolder) -> TypeGuard[SweepSummary]:
    """Return whether a kept summary is that of what the sweep's folder holds now.

    Of a sweep with a problem also the folders of its trials count: a file there may be restored.
    """
    if summary is None:
        return False
    return summary.stamp == current_stamp(summary, sweep)


def current_stamp(summary: SweepSummary, sweep: SweepFolder) -> str:
    """Return the stamp that a summary has if it is that of what the sweep's folder holds now."""
    return (folder_stamp if summary.problem else summary_stamp)(sweep)


def rebuilt_summary(store: SummaryStore, sweep: SweepFolder) -> SweepSummary:
    """Make the summary of a sweep, keep it, and return it."""
    # It loads all that reads results.
    from ackbench.experiments.results.history.summarize import summarize

    stamp, stamp_of_folder = summary_stamp(sweep), folder_stamp(sweep)
    summary = summarize(sweep, stamp)
    if summary.problem:
        summary = summary.model_copy(update={"stamp": stamp_of_folder})
    store.keep(summary)
    store.keep_size(sweep.sweep_id, stamp_of_folder, summary.size_bytes)
    return summary


def forget_summary(home: Home, sweep_id: str) -> None:
    """Remove the summary of a sweep that was deleted."""
    with SummaryStore(home) as store:
        store.forget([sweep_id])


def keep_pruned(home: Home, summary: SweepSummary) -> None:
    """Write the summary that is left of a sweep that is pruned: a file of its own, on the disk."""
    path = pruned_file(home, summary.sweep_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, summary.model_dump_json(exclude_defaults=True))


def pruned_file(home: Home, sweep_id: str) -> Path:
    """Return the file of what is left of a pruned sweep."""
    return pruned_folder(home) / f"{sweep_id}.json"


def read_summary(path: Path) -> SweepSummary | None:
    """Return a summary that has a file; `None`: it is damaged, or of another version."""
    try:
        summary = SweepSummary.model_validate_json(read_document(path))
    except (FileNotFoundError, LedgerError, ValidationError):
        return None
    return summary if summary.format == SUMMARY_FORMAT else None


def file_stamp(path: Path) -> str:
    """Return the stamp of a summary that has a file: it changes whenever the file does."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{_OF_A_FILE}{status.st_mtime_ns}.{status.st_size} {path}"


def file_of(summary: SweepSummary) -> Path | None:
    """Return the file of a summary that has one: there is no folder of its sweep in the home."""
    is_of_file = summary.stamp.startswith(_OF_A_FILE)
    return Path(summary.stamp.split(" ", 2)[-1]) if is_of_file else None


_OF_A_FILE: Final = "file "
"""The begin of the stamps of summaries that are not made from a sweep's folder."""
