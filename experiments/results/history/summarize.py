"""Makes the summary of a sweep, which reads all of its results and looks at all of its trials.

Whatever is wrong with a sweep ends here: its summary says so, and no other sweep is affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ackbench.experiments.ledger.trial_manifest import SET_ASIDE, Status, TrialManifest
from ackbench.experiments.messages.phrases import fit_line, shorten
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.expectations import not_expected_line
from ackbench.experiments.results.history.summary import CellSummary, SweepSummary, planned_s
from ackbench.experiments.results.lessons.of_sweep import finding_of
from ackbench.experiments.results.models import CellResult, SweepResults, TrialResult
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.run_description import trials_s
from ackbench.experiments.results.trials import settings_of_trial
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import experiment_of_sweep
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.judge import Verdict
from ackbench.experiments.verdicts.statistics import Estimate, estimate
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.files import folder_bytes

_IDENTITY: Final = ("system", "cores")
"""The fields of `machine.json` that stay the same on one machine; free memory does not."""
_QUANTILES: Final = ("p50", "p99", "p99_9")
_MOST_PROBLEM_CHARACTERS: Final = 400


def summarize(sweep: SweepFolder, stamp: str) -> SweepSummary:
    """Return the summary of a sweep, with the reason if it cannot be read, or not completely.

    Args:
        sweep: the sweep.
        stamp: of its files, from before they are read.
    """
    known: dict[str, Any] = {
        "stamp": stamp,
        "sweep_id": sweep.sweep_id,
        "experiment": experiment_of_sweep(sweep.sweep_id) or sweep.sweep_id,
        "question": "",
        "planned_s": planned_s(sweep),
        "size_bytes": folder_bytes(sweep.root),
    }
    try:
        if sweep.origin:
            known["size_bytes"] = sum(sweep.origin.list_files().values())
        for part in _parts(sweep):
            known |= part
    except Exception as error:  # noqa: BLE001 - one sweep never stops the list of all
        known["problem"] = _problem(error)
    return SweepSummary(**known)


def _problem(error: Exception) -> str:
    expected = isinstance(error, AckbenchError | OSError)
    text = str(error) if expected else f"unexpected {type(error).__name__}: {error}"
    return shorten(fit_line(text), _MOST_PROBLEM_CHARACTERS)


def _parts(sweep: SweepFolder) -> Iterator[dict[str, Any]]:
    """Yield what is known of a sweep, until it cannot be read any further."""
    plan = sweep.plan()
    pending = [spec.trial_id for spec in plan.trials if not sweep.trial(spec.trial_id).is_dir()]
    yield {
        "experiment": plan.experiment,
        "question": " ".join(plan.question.split()),
        "lesson": plan.claim.lesson if plan.claim else None,
        "planned_trials": len(plan.trials),
        "pending_trials": len(pending),
        "kafka_versions": tuple(sorted({spec.cluster.kafka_version for spec in plan.trials})),
    }
    yield {"machine": _machine(sweep)}
    if not any(sweep.results.glob("*.parquet")):
        complete = list(sweep.complete_trials())
        yield {
            "took_s": trials_s(complete) or None,
            "sealed_trials": len(complete),
            "failed_trials": sum(sweep.failed(trial_id).is_dir() for trial_id in pending),
            "pending_trials": len(plan.trials) - len(complete),
        }
        return
    results = read_results(sweep, in_full=False)
    manifests = results.manifests
    finding = finding_of(sweep, results)
    yield {
        **_counts(results),
        "took_s": trials_s(manifests.values()) or None,
        "not_expected": tuple(map(not_expected_line, results.not_expected)),
        **_cells(plan, results, manifests),
        "client_versions": tuple(sorted({manifest.client for manifest in manifests.values()})),
        "conclusion": finding.conclusion.value if finding else None,
    }


def _machine(sweep: SweepFolder) -> dict[str, str]:
    machine = sweep.machine()
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
    plan: Plan, results: SweepResults, manifests: Mapping[str, TrialManifest]
) -> dict[str, object]:
    """Return the cells that ran, and the settings that they have in common."""
    ran = [cell for cell in results.cells if cell.refused is None]
    settings = [_settings(plan, cell, manifests) for cell in ran]
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


def _settings(
    plan: Plan, cell: CellResult, manifests: Mapping[str, TrialManifest]
) -> dict[str, str]:
    specs = [spec for spec in plan.trials if spec.cell == cell.cell]
    settings = {
        f"{scope} {name}": value for (scope, name), value in settings_of_trial(specs[0]).items()
    }
    # The first trial may have failed, and left no record.
    clients = [manifests[one.trial_id].client for one in specs if one.trial_id in manifests]
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
        overloaded_trials=cell.overloaded_trials or 0,
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
            judgement.guarantee.name: _verdict_text(judgement.verdict, judgement.violation_seen)
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
