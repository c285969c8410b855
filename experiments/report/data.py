"""All that the page is made of, read once from the sweep's folder. What was not measured is empty, never made up."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.errors import LedgerError
from experiments.ledger.record import TrialRecord
from experiments.ledger.schema import Source
from experiments.lessons.finding import Finding, finding_of
from experiments.results.models import SweepResults
from experiments.results.read import read_results
from experiments.results.rows import Row, rows_by_trial
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan

_DRAWN = ("timeline", "histogram", "outages", "attribution")
_NS_PER_S = 1e9


@dataclass(frozen=True)
class LeaderChange:
    """A partition's new leader."""

    at_s: float
    """After the load's begin."""
    partition: int
    node: int | None
    """`None`: the partition was without a leader."""


@dataclass(frozen=True)
class ReportData:
    """A sweep as the page needs it; rows are grouped by trial."""

    plan: Plan
    results: SweepResults
    records: Mapping[str, TrialRecord]
    """Of sealed and void trials."""
    timeline: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    histogram: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    outages: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    attribution: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    leaders: Mapping[str, Sequence[LeaderChange]] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    """What `experiments.orchestration` noted of the machine that ran the trials; empty: nobody did."""
    finding: Finding | None = None
    """What the sweep says to its experiment's claim; `None`: that makes none."""

    @cached_property
    def slots(self) -> Mapping[tuple[str, str, str], Sequence[Row]]:
        """The histograms by trial, measure and phase: each chart reads its own rows, not a trial's."""
        found: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for trial_id, rows in self.histogram.items():
            for row in rows:
                found[trial_id, row["measure"], row["phase"]].append(row)
        return found


def read_report_data(sweep: SweepFolder) -> ReportData:
    """Return what the sweep's folder holds, also of one that is still running or was never measured.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's record or a table cannot be read; names it.
    """
    results = read_results(sweep)
    records = {record.trial_id: record for record in sweep.whole_trials()}
    return ReportData(
        plan=sweep.plan(),
        results=results,
        records=records,
        **{name: rows_by_trial(sweep, name) for name in _DRAWN},
        leaders={trial_id: _leaders(sweep, record) for trial_id, record in records.items()},
        machine=_machine(sweep),
        finding=finding_of(sweep, results),
    )


def _leaders(sweep: SweepFolder, record: TrialRecord) -> tuple[LeaderChange, ...]:
    """Return the changes of leaders, by the brokers' own logs where they say any, else by the watcher's metadata."""
    path = sweep.trial(record.trial_id) / "events.parquet"
    try:
        events = pq.read_table(
            path, filters=[("kind", "in", ["became_leader", "leader"])]
        ).to_pylist()
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LedgerError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    by_brokers = [event for event in events if event.get("source") == Source.BROKER]
    begin_ns, end_ns = record.phases.load_begin_ns, record.phases.healthy_ns
    within = [
        event
        for event in by_brokers or events
        if begin_ns <= event["at_ns"] <= end_ns and event["partition"] is not None
    ]
    changes = (
        LeaderChange((event["at_ns"] - begin_ns) / _NS_PER_S, event["partition"], event["node"])
        for event in within
    )
    return tuple(sorted(changes, key=lambda change: (change.at_s, change.partition)))


def _machine(sweep: SweepFolder) -> Mapping[str, Any]:
    try:
        noted = json.loads((sweep.root / "machine.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
