"""Every setting of a sweep: those in which its cells differ, and those that all share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import Cell
from experiments.report.answer import cell_group_names
from experiments.report.data import ReportData
from experiments.results.cells import cell_key
from experiments.results.trials import NOT_SET, SCOPES, settings_of_trial
from experiments.sweep.cell_names import differing_axes
from experiments.sweep.plan import TrialSpec

VARIES: Final = "differs by trial"


@dataclass(frozen=True)
class Setting:
    """One property of all cells that were run."""

    scope: str
    name: str
    values: tuple[str, ...]
    """One a cell, in the results' order."""

    @property
    def shared(self) -> bool:
        """Whether all cells have the same value."""
        return len(set(self.values)) == 1


@dataclass(frozen=True)
class DifferingSettings:
    """A property in which cells differ: which value goes with which cells."""

    scope: str
    name: str
    values: tuple[tuple[str, str], ...]
    """A value, and the names of its cells."""


def differing_settings(
    settings: Sequence[Setting], cells: Sequence[Cell]
) -> list[DifferingSettings]:
    """Return the properties that not all cells share.

    Args:
        settings: all of them.
        cells: in the order of the settings' values.
    """
    axes = differing_axes(cells)
    return [
        DifferingSettings(of.scope, of.name, tuple(_values(of, cells, axes)))
        for of in settings
        if not of.shared
    ]


def _values(
    setting: Setting, cells: Sequence[Cell], axes: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for value in dict.fromkeys(setting.values):
        yield (
            value,
            "; ".join(
                cell_group_names(
                    [cell for cell, of in zip(cells, setting.values, strict=True) if of == value],
                    axes,
                )
            ),
        )


def effective_settings(evidence: ReportData) -> list[Setting]:
    """Return the effective settings, where a trial ran; else those that were planned."""
    by_cell = [_of_cell(evidence, specs) for specs in _specs(evidence)]
    names = sorted(
        {name for cell in by_cell for name in cell},
        key=lambda name: (SCOPES.index(name[0]), name[1]),
    )
    return [
        Setting(scope, name, tuple(cell.get((scope, name), NOT_SET) for cell in by_cell))
        for scope, name in names
    ]


def _specs(evidence: ReportData) -> list[list[TrialSpec]]:
    """Return the planned trials of each cell that was not refused, in the results' order."""
    of_cell: dict[str, list[TrialSpec]] = {}
    for spec in evidence.plan.trials:
        of_cell.setdefault(cell_key(spec.cell), []).append(spec)
    return [
        of_cell[key]
        for key in (cell_key(cell.cell) for cell in evidence.results.cells if cell.refused is None)
        if key in of_cell
    ]


def _of_cell(evidence: ReportData, specs: Sequence[TrialSpec]) -> dict[tuple[str, str], str]:
    """Return a cell's settings; those in which its own trials differ are said to."""
    found: dict[tuple[str, str], str] = {}
    for spec in specs:
        for name, value in settings_of_trial(spec, evidence.records.get(spec.trial_id)).items():
            found[name] = value if found.get(name, value) == value else VARIES
    return found
