"""The input of the report: everything that it shows, read once from the sweep's folder.

Values that were not measured are empty.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import require_regular_file
from ackbench.experiments.ledger.quantities import Place
from ackbench.experiments.ledger.result_tables import HISTOGRAM
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.formats.counts import listed_counts
from ackbench.experiments.results.lessons.finding import Finding
from ackbench.experiments.results.lessons.of_sweep import finding_of
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.rows import Row, TrialRows, large_table_by_trial, rows_by_trial
from ackbench.experiments.sweep.cell_names import FAULT_AXIS, NO_FAULT, cell_name, differing_axes
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee

_TABLES = ("timeline", "outages", "attribution")
_NS_PER_S = 1e9


@dataclass(frozen=True)
class LeaderChange:
    """A partition changed its leader."""

    at_s: float
    """Seconds after the begin of the load."""
    partition: int
    node: int | None
    """The new leader; None: the partition lost its leader."""


@dataclass(frozen=True)
class FaultGroup:
    """The cells of one fault."""

    number: int
    fault: str
    cells: tuple[CellResult, ...]
    axes: tuple[str, ...]
    """The axes in which cells differ, of all groups, without the fault."""

    def name(self, cell: CellResult) -> str:
        """Return a cell's name within the group."""
        return cell_name(cell.cell, self.axes)


def group_by_fault(cells: Sequence[CellResult]) -> list[FaultGroup]:
    """Return cells by fault; the group without a fault comes last."""
    differing = differing_axes([cell.cell for cell in cells])
    axes = tuple(axis for axis in differing if axis != FAULT_AXIS)
    groups: dict[str, list[CellResult]] = {}
    for cell in cells:
        groups.setdefault(cell.fault_name, []).append(cell)
    faults = sorted(groups, key=lambda fault: (fault == NO_FAULT, fault))
    return [
        FaultGroup(number, fault, tuple(groups[fault]), axes) for number, fault in enumerate(faults)
    ]


@dataclass(frozen=True)
class ReportData:
    """A sweep as the report needs it; rows of tables are grouped by trial."""

    plan: Plan
    results: SweepResults
    manifests: Mapping[str, TrialManifest]
    """The records of sealed and void trials, by trial."""
    timeline: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    histogram: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    outages: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    attribution: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    leaders: Mapping[str, Sequence[LeaderChange]] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    """The machine that ran the trials, from `machine.json`; empty if there is no such file."""
    folder: str = ""
    """The sweep's folder, for commands; empty: they name the sweep by its id."""
    program: str = "ackbench"
    """How commands call ackbench."""
    finding: Finding | None = None
    """Whether the sweep supports the claim of its experiment; None: the experiment makes none."""

    @cached_property
    def cells(self) -> tuple[CellResult, ...]:
        """The cells that were run; the client refuses the others."""
        return tuple(cell for cell in self.results.cells if cell.refused is None)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {cell_key(cell.cell): number for number, cell in enumerate(self.cells, start=1)}

    def verdict_anchor(self, cell: CellResult, guarantee: Guarantee) -> str:
        """Return the id of the page's element with the reasons of a cell's verdict."""
        return f"verdict-{self._numbers[cell_key(cell.cell)]}-{guarantee}"

    @cached_property
    def axes(self) -> list[str]:
        """The axes in which the cells that were run differ."""
        return differing_axes([cell.cell for cell in self.cells])

    @cached_property
    def groups(self) -> list[FaultGroup]:
        """The cells that were run, by fault."""
        return group_by_fault(self.cells)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees that the page shows; conditional ones only if a cell has them."""
        judged = {clause.guarantee for cell in self.results.cells for clause in cell.clauses}
        return tuple(one for one in GUARANTEES if one.applies is None or one in judged)

    @cached_property
    def counts(self) -> tuple[Place, ...]:
        """The counts that the page lists of trials and cells."""
        return listed_counts(self.results.trials)

    def histogram_of(self, trial_id: str, measure: str, phase: str) -> pa.Table:
        """Return a trial's histogram of a measure in a phase, of the schema `HISTOGRAM`."""
        rows = self.histogram.get(trial_id, ())
        if isinstance(rows, TrialRows):
            table = rows.table
        else:
            table = pa.Table.from_pylist(list(rows), schema=HISTOGRAM)
        wanted = pc.and_(pc.equal(table["measure"], measure), pc.equal(table["phase"], phase))
        return table.filter(wanted)


def read_report_data(sweep: SweepFolder) -> ReportData:
    """Return the data of a sweep; the sweep may still be running, or not be measured yet.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's manifest or a table cannot be read; the message names the file.
    """
    results = read_results(sweep)
    manifests = results.manifests
    return ReportData(
        plan=results.plan,
        results=results,
        manifests=manifests,
        leaders={
            trial_id: _leader_changes(sweep, manifest) for trial_id, manifest in manifests.items()
        },
        histogram=large_table_by_trial(sweep, "histogram", results.manifest),
        **{name: rows_by_trial(sweep, name, results.manifest) for name in _TABLES},
        machine=sweep.machine(),
        folder=sweep.argument if sweep.origin else str(sweep.root.resolve()),
        program=str(Path(sys.executable).with_name("ackbench")),
        finding=finding_of(sweep, results),
    )


def _leader_changes(sweep: SweepFolder, manifest: TrialManifest) -> tuple[LeaderChange, ...]:
    """Return the changes of leader from load begin until the cluster was healthy.

    Events from the brokers' logs are preferred, because they have the time of the change itself;
    the metadata poller sees it later.
    """
    path = sweep.trial(manifest.trial_id) / "events.parquet"
    try:
        require_regular_file(pafs.LocalFileSystem(), str(path))
        events = pq.read_table(
            path, filters=[("kind", "in", ["became_leader", "leader"])]
        ).to_pylist()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    broker_events = [event for event in events if event.get("source") == Source.BROKER]
    begin_ns, end_ns = manifest.phases.load_begin_ns, manifest.phases.healthy_ns
    within = [
        event
        for event in broker_events or events
        if begin_ns <= event["at_ns"] <= end_ns and event["partition"] is not None
    ]
    changes = (
        LeaderChange((event["at_ns"] - begin_ns) / _NS_PER_S, event["partition"], event["node"])
        for event in within
    )
    return tuple(sorted(changes, key=lambda change: (change.at_s, change.partition)))
