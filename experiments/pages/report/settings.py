"""The settings of a sweep: those in which its cells differ, and those that all cells share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.trials import NOT_SET, SCOPES, settings_of_trial
from ackbench.experiments.sweep.cell_names import cell_group_names
from ackbench.experiments.sweep.plan import TrialSpec

VARIES: Final = "differs by trial"


@dataclass(frozen=True)
class Setting:
    """One property, with its value in each cell that was run."""

    scope: str
    name: str
    values: tuple[str, ...]
    """One value per cell, in the order of the results."""

    @property
    def shared(self) -> bool:
        """Whether all cells have the same value."""
        return len(set(self.values)) == 1


@dataclass(frozen=True)
class DifferingSettings:
    """A property in which cells differ, with the cells of each value."""

    scope: str
    name: str
    values: tuple[tuple[str, str], ...]
    """Each value with the names of its cells."""


def differing_settings(data: ReportData, settings: Sequence[Setting]) -> list[DifferingSettings]:
    """Return the properties in which the cells differ.

    Args:
        data: of the sweep.
        settings: all properties.
    """
    return [
        DifferingSettings(setting.scope, setting.name, tuple(_cells_by_value(data, setting)))
        for setting in settings
        if not setting.shared
    ]


def _cells_by_value(data: ReportData, setting: Setting) -> Iterator[tuple[str, str]]:
    cells: dict[str, list[Cell]] = {}
    for result, value in zip(data.cells, setting.values, strict=True):
        cells.setdefault(value, []).append(result.cell)
    for value, having in cells.items():
        yield value, "; ".join(cell_group_names(having, data.axes))


def effective_settings(data: ReportData) -> list[Setting]:
    """Return the effective settings of each cell; before its first trial, the planned ones."""
    planned = _planned_trials(data)
    by_cell = [_cell_settings(data, specs) for specs in planned]
    names = sorted(
        {name for cell in by_cell for name in cell},
        key=lambda name: (SCOPES.index(name[0]), name[1]),
    )
    return [
        Setting(scope, name, tuple(cell.get((scope, name), NOT_SET) for cell in by_cell))
        for scope, name in names
    ]


def _planned_trials(data: ReportData) -> list[list[TrialSpec]]:
    """Return the planned trials of each cell that was not refused, in the results' order."""
    by_cell: dict[str, list[TrialSpec]] = {}
    for spec in data.plan.trials:
        by_cell.setdefault(cell_key(spec.cell), []).append(spec)
    keys = (cell_key(cell.cell) for cell in data.cells)
    return [by_cell[key] for key in keys if key in by_cell]


def _cell_settings(data: ReportData, specs: Sequence[TrialSpec]) -> dict[tuple[str, str], str]:
    """Return a cell's settings by scope and name; `VARIES` where its own trials differ."""
    settings: dict[tuple[str, str], str] = {}
    for spec in specs:
        for name, value in settings_of_trial(spec, data.manifests.get(spec.trial_id)).items():
            settings[name] = value if settings.get(name, value) == value else VARIES
    return settings
