"""The summary of a sweep: what the index, the trends and the site show of it.

It is kept in the home's index (`experiments.results.history.store`), and made again when the sweep
has changed (`experiments.results.history.summarize`). A pruned sweep leaves its summary behind, so
that trends reach further back than the ledgers.
"""

from __future__ import annotations

import calendar
import json
import os
import time
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from pydantic import Field, model_validator

from ackbench.experiments.ledger.moved import has_moved, lift_settings
from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.ledger.trial_manifest import Cell, Frozen, Label, Role
from ackbench.experiments.sweep.folder import MACHINE, SweepFolder
from ackbench.experiments.sweep.lookup import time_of_sweep
from ackbench.experiments.verdicts.statistics import Estimate, Share

SUMMARY_FORMAT: Final = 2
"""A kept summary of another format is made again; that of a pruned sweep cannot be."""

_STAMPED: Final = (PLAN, "results", "trials", MACHINE)
"""What changes whenever the summary does."""


class CellFigures(Frozen):
    """The figures of one cell. Null: not measured."""

    planned_trials: int
    sealed_trials: int
    void_trials: int
    incomplete_trials: int
    failed_trials: int
    overloaded_trials: int = 0
    """Sealed trials in which the machine was overloaded; summaries of earlier versions have 0."""
    loss: Share | None = None
    """Trials that certainly lost an acknowledged record."""
    duplication: Share | None = None
    ack_ms: dict[str, Estimate] = Field(default_factory=dict)
    """Quantiles of the time to an acknowledgement (`p50`, `p99`, `p99_9`), each the median over
    trials."""
    outage_ms: Estimate | None = None
    """The longest gap of a trial, the median over trials."""
    outage_max_ms: float | None = None
    throughput_records_per_s: Estimate | None = None
    verdicts: dict[str, str] = Field(default_factory=dict)
    """By guarantee: the verdict; `not guaranteed: observed` and `... not observed` otherwise."""


class CellIdentity(Frozen):
    """Which cell it is, and how it was run: mostly the same in all sweeps of an experiment."""

    cell: Cell
    label: Label
    role: Role = Role.CELL
    added: bool = False
    """Whether it is only a control, and not one of the experiment's cells."""
    settings: dict[str, str] = Field(default_factory=dict)
    """`scope name`: value, for settings that are not the same in all cells of the sweep."""

    @cached_property
    def key(self) -> str:
        """Identifies the cell over sweeps."""
        return json.dumps(self.cell, sort_keys=True)


class CellSummary(CellIdentity, CellFigures):
    """One cell of a sweep."""


class SweepSummary(Frozen):
    """One sweep in an index of many."""

    format: int = SUMMARY_FORMAT
    stamp: str
    """Sizes and times of the files that the summary was made from."""
    sweep_id: str
    experiment: str
    question: str
    planned_s: float
    """When it was planned, seconds since the epoch."""
    took_s: float | None = None
    """The time of its sealed and void trials; null: it has none."""
    kafka_versions: tuple[str, ...] = ()
    client_versions: tuple[str, ...] = ()
    machine: dict[str, str] = Field(default_factory=dict)
    """What identifies the machine: figures of two machines are not comparable."""
    lesson: int | None = None
    conclusion: str | None = None
    """Whether the sweep supports its lesson's claim."""
    planned_trials: int = 0
    sealed_trials: int = 0
    void_trials: int = 0
    incomplete_trials: int = 0
    failed_trials: int = 0
    pending_trials: int = 0
    measured: bool = False
    held: int = 0
    violated: int = 0
    unknown: int = 0
    not_guaranteed: int = 0
    not_expected: tuple[str, ...] = ()
    """What did not certainly meet an expectation of the experiment, one line for each cell."""
    size_bytes: int = 0
    problem: str | None = None
    """Why its results cannot be read; one line."""
    settings: dict[str, str] = Field(default_factory=dict)
    """`scope name`: value, for settings that are the same in all cells."""
    cells: tuple[CellSummary, ...] = ()
    pruned_s: float | None = None
    """When the sweep was pruned: only this summary is left."""

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, summary: Any) -> Any:
        """Return an earlier summary, of a load without sections, with all settings in its cells."""
        common = summary.get("settings") if isinstance(summary, dict) else None
        if not isinstance(common, dict) or not has_moved(common):
            return summary
        cells = [
            {**cell, "settings": lift_settings({**common, **cell.get("settings", {})})}
            for cell in summary.get("cells", ())
        ]
        return {**summary, "settings": {}, "cells": cells}

    @cached_property
    def version(self) -> str:
        """The versions of Kafka, as one text."""
        return ", ".join(self.kafka_versions)

    def settings_of(self, cell: CellSummary) -> dict[str, str]:
        """Return all settings of a cell, by `scope name`."""
        return {**self.settings, **cell.settings}


def summary_stamp(sweep: SweepFolder) -> str:
    """Return what changes whenever the summary of a sweep does."""
    root = str(sweep.root)
    return " ".join(_status_text(f"{root}/{name}") for name in _STAMPED)


def folder_stamp(sweep: SweepFolder) -> str:
    """Return what changes whenever a file is added to a sweep or its trials, or replaced there."""
    folders = [str(sweep.root), str(sweep.results)]
    with suppress(OSError), os.scandir(sweep.root / "trials") as trials:
        folders += sorted(trial.path for trial in trials)
    return " ".join(map(_status_text, folders))


def _status_text(path: str) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 - a third of the time, for each of thousands of sweeps
    except OSError:
        return "-"
    return f"{status.st_mtime_ns}.{status.st_size}"


def planned_s(sweep: SweepFolder) -> float:
    """Return when a sweep was planned, seconds since the epoch: by its id, else by its plan."""
    time_text = time_of_sweep(sweep.sweep_id)
    if time_text is not None:
        with suppress(ValueError):  # there is no such day
            return float(calendar.timegm(time.strptime(time_text, "%Y%m%dT%H%M%S")))
    with suppress(OSError):
        return (sweep.root / PLAN).stat().st_mtime
    return 0.0
