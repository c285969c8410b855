"""The summary of a sweep: what the index, the trends and the site show of it.

It is kept as `<home>/index/<sweep>.json`, and made again when the sweep has changed. A pruned sweep
leaves its summary behind, so that trends reach further back than the ledgers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from experiments.errors import LedgerError
from experiments.ledger.planned import PLAN
from experiments.ledger.record import SET_ASIDE, Cell, Frozen, Role, Status, TrialRecord
from experiments.messages.phrases import one_line
from experiments.results.models import CellResult, SweepResults, TrialResult
from experiments.sweep.folder import MACHINE, SweepFolder
from experiments.sweep.lookup import experiment_of_sweep, pruned_folder, time_of_sweep
from experiments.sweep.plan import Plan
from experiments.verdicts.judge import Verdict
from experiments.verdicts.statistics import Estimate, Share, estimate
from infra.errors import AckbenchError
from infra.machine.files import folder_bytes, replace_file
from infra.machine.home import Home

_FORMAT: Final = 2
"""Of the kept file; a summary of another format is made again."""
_STAMPED: Final = (PLAN, "results", "trials", MACHINE)
"""What changes whenever the summary does."""
_IDENTITY: Final = ("system", "cores")
"""The fields of `machine.json` that stay the same on one machine; free memory does not."""
_QUANTILES: Final = ("p50", "p99", "p99_9")


class CellSummary(Frozen):
    """The figures of one cell. Null: not measured."""

    cell: Cell
    label: str
    role: Role = Role.CELL
    added: bool = False
    """Whether it is only a control, and not one of the experiment's cells."""
    planned_trials: int
    sealed_trials: int
    void_trials: int
    incomplete_trials: int
    failed_trials: int
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
    settings: dict[str, str] = Field(default_factory=dict)
    """`scope name`: value, for settings that are not the same in all cells of the sweep."""

    @property
    def key(self) -> str:
        """Identifies the cell over sweeps."""
        return json.dumps(self.cell, sort_keys=True)


class SweepSummary(Frozen):
    """One sweep in an index of many."""

    format: int = _FORMAT
    stamp: str
    """Sizes and times of the files that the summary was made from."""
    sweep_id: str
    experiment: str
    question: str
    planned_s: float
    """When it was planned, seconds since the epoch."""
    took_s: float | None = None
    """From the plan to its last activity."""
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
    size_bytes: int = 0
    problem: str | None = None
    """Why its results cannot be read; one line."""
    settings: dict[str, str] = Field(default_factory=dict)
    """`scope name`: value, for settings that are the same in all cells."""
    cells: tuple[CellSummary, ...] = ()
    pruned_s: float | None = None
    """When the sweep was pruned: only this summary is left."""

    @property
    def version(self) -> str:
        """The versions of Kafka, as one text."""
        return ", ".join(self.kafka_versions)

    def settings_of(self, cell: CellSummary) -> dict[str, str]:
        """Return all settings of a cell, by `scope name`."""
        return {**self.settings, **cell.settings}


def summary_of(
    sweep: SweepFolder, home: Home, on_new: Callable[[str], None] | None = None
) -> SweepSummary:
    """Return the summary of a sweep of this home: the kept one, or a new one that is then kept.

    A sweep that cannot be read has a summary too, with the reason.

    Args:
        sweep: the sweep.
        home: the home with the sweep.
        on_new: called with the sweep's id before a summary is made, which reads all of its trials.
    """
    kept, stamp = kept_summary(summary_path(home, sweep.sweep_id)), summary_stamp(sweep)
    if kept is not None and kept.stamp == stamp:
        return kept
    if on_new:
        on_new(sweep.sweep_id)
    summary = _summarize(sweep, stamp)
    with suppress(OSError):  # a home that can only be read is read again the next time
        keep_summary(home, summary)
    return summary


def summary_path(home: Home, sweep_id: str, *, pruned: bool = False) -> Path:
    """Return the file of a kept summary; that of a pruned sweep is in a folder of its own."""
    folder = pruned_folder(home) if pruned else home.index
    return folder / f"{sweep_id}.json"


def keep_summary(home: Home, summary: SweepSummary) -> None:
    """Write a summary to the home's index."""
    path = summary_path(home, summary.sweep_id, pruned=summary.pruned_s is not None)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, summary.model_dump_json(exclude_defaults=True), durable=False)


def forget_summary(home: Home, sweep_id: str) -> None:
    """Remove the summary of a sweep that was deleted."""
    summary_path(home, sweep_id).unlink(missing_ok=True)


def kept_summary(path: Path) -> SweepSummary | None:
    """Return a kept summary; `None`: there is none, or it was written by another version."""
    try:
        summary = SweepSummary.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return summary if summary.format == _FORMAT else None


def summary_stamp(sweep: SweepFolder) -> str:
    """Return what changes whenever the summary of a sweep does."""

    def of(name: str) -> str:
        try:
            status = (sweep.root / name).stat()
        except FileNotFoundError:
            return "-"
        return f"{status.st_mtime_ns}.{status.st_size}"

    return " ".join(map(of, _STAMPED))


def _summarize(sweep: SweepFolder, stamp: str) -> SweepSummary:
    head = {
        "stamp": stamp,
        "sweep_id": sweep.sweep_id,
        "planned_s": planned_s(sweep),
        "size_bytes": folder_bytes(sweep.root),
    }
    try:
        plan = sweep.plan()
    except AckbenchError as error:
        experiment = experiment_of_sweep(sweep.sweep_id) or sweep.sweep_id
        return SweepSummary(
            **head, experiment=experiment, question="", problem=one_line(str(error))
        )
    head |= {
        "experiment": plan.experiment,
        "question": one_line(plan.question),
        "lesson": plan.claim.lesson if plan.claim else None,
        "took_s": _took_s(sweep),
        "machine": _machine(sweep),
        "planned_trials": len(plan.trials),
        "kafka_versions": tuple(sorted({spec.cluster.kafka_version for spec in plan.trials})),
    }
    if not any(sweep.results.glob("*.parquet")):
        complete = len(sweep.complete_ids())
        return SweepSummary(
            **head,
            sealed_trials=complete,
            failed_trials=sum(sweep.failed(name).is_dir() for name in sweep.pending()),
            pending_trials=len(plan.trials) - complete,
        )
    from experiments.lessons.finding import finding_of
    from experiments.results.read import read_results

    try:
        results = read_results(sweep)
        records = {one.trial_id: one for one in sweep.complete_trials(results.left_out)}
        finding = finding_of(sweep, results)
    except AckbenchError as error:
        pending = len(sweep.pending())
        return SweepSummary(**head, pending_trials=pending, problem=one_line(str(error)))
    return SweepSummary(
        **head,
        **_counts(results),
        **_cells(plan, results, records),
        client_versions=tuple(sorted({record.client for record in records.values()})),
        conclusion=finding.conclusion.value if finding else None,
    )


def planned_s(sweep: SweepFolder) -> float:
    """Return when a sweep was planned, seconds since the epoch: by its id, else by its plan."""
    time_text = time_of_sweep(sweep.sweep_id)
    if time_text is None:
        return (sweep.root / PLAN).stat().st_mtime
    import calendar

    return float(calendar.timegm(time.strptime(time_text, "%Y%m%dT%H%M%S")))


def _took_s(sweep: SweepFolder) -> float | None:
    activity = sweep.activity()
    if activity is None:
        return None
    return max(activity.since_ns / 1e9 - planned_s(sweep), 0.0)


def _machine(sweep: SweepFolder) -> dict[str, str]:
    try:
        machine = sweep.machine()
    except LedgerError:
        return {}
    return {name: str(machine[name]) for name in _IDENTITY if name in machine}


def _counts(results: SweepResults) -> dict[str, int | bool]:
    statuses = [trial.status.value for trial in results.trials]
    verdicts = [
        judgement.verdict
        for cell in results.cells
        if not cell.added
        for judgement in cell.judgements
    ]
    return {
        **{f"{name}_trials": statuses.count(name) for name in (Status.SEALED, *SET_ASIDE)},
        "pending_trials": len(results.pending),
        "measured": not results.unmeasured
        and any(trial.attempted is not None for trial in results.trials),
        **{verdict.name.lower(): verdicts.count(verdict) for verdict in Verdict},
    }


def _cells(
    plan: Plan, results: SweepResults, records: Mapping[str, TrialRecord]
) -> dict[str, object]:
    """Return the cells that ran, and the settings that they have in common."""
    from experiments.results.cells import judged_trials

    ran = [cell for cell in results.cells if cell.refused is None]
    settings = [_settings(plan, cell, records) for cell in ran]
    common = dict(set.intersection(*(set(one.items()) for one in settings))) if settings else {}
    return {
        "settings": dict(sorted(common.items())),
        "cells": tuple(
            _cell(
                cell,
                judged_trials(results, cell),
                {name: value for name, value in own.items() if name not in common},
            )
            for cell, own in zip(ran, settings, strict=True)
        ),
    }


def _settings(plan: Plan, cell: CellResult, records: Mapping[str, TrialRecord]) -> dict[str, str]:
    from experiments.results.trials import settings_of_trial

    specs = [spec for spec in plan.trials if spec.cell == cell.cell]
    settings = {
        f"{scope} {name}": value for (scope, name), value in settings_of_trial(specs[0]).items()
    }
    # The first trial may have failed, and left no record.
    clients = [records[one.trial_id].client for one in specs if one.trial_id in records]
    return {**settings, "client version": clients[0]} if clients else settings


def _cell(cell: CellResult, trials: Sequence[TrialResult], settings: dict[str, str]) -> CellSummary:
    return CellSummary(
        cell=cell.cell,
        label=cell.label,
        role=cell.role,
        added=cell.added,
        planned_trials=cell.planned_trials,
        sealed_trials=cell.sealed_trials,
        void_trials=cell.void_trials,
        incomplete_trials=cell.incomplete_trials,
        failed_trials=cell.failed_trials,
        loss=cell.loss,
        duplication=cell.duplication,
        ack_ms=dict(_ack_quantiles(trials)),
        outage_ms=cell.outage_ms,
        outage_max_ms=cell.unavailable_ms.max if cell.unavailable_ms else None,
        throughput_records_per_s=estimate(
            [
                trial.throughput_records_per_s
                for trial in trials
                if trial.throughput_records_per_s is not None
            ]
        ),
        verdicts={
            judgement.guarantee.value: _verdict_text(judgement.verdict, judgement.seen)
            for judgement in cell.judgements
        },
        settings=settings,
    )


def _ack_quantiles(trials: Sequence[TrialResult]) -> Iterator[tuple[str, Estimate]]:
    for name in _QUANTILES:
        values = [getattr(trial.latency_ms.ack, name) for trial in trials if trial.latency_ms.ack]
        quantile = estimate(values)
        if quantile is not None:
            yield name, quantile


def _verdict_text(verdict: Verdict, seen: bool | None) -> str:
    if verdict is not Verdict.NOT_GUARANTEED:
        return verdict.value
    return {True: "observed", False: "not observed", None: "not measurable"}[seen]
