"""Puts the page together: what the template needs, as plain values, and the template itself. Equal evidence gives equal bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.contract import Promise
from experiments.ledger.record import Status
from experiments.report import answer as answering
from experiments.report.charts import by_fault, draw, sealed
from experiments.report.evidence import Evidence
from experiments.report.settings import settings_of
from experiments.report.trials import trials_by_cell
from experiments.report.wording import (
    PROMISES,
    ROLES,
    bounds,
    cell_name,
    count,
    differing,
    estimate_words,
    fault_name,
    share_words,
    verdict_class,
    verdict_sign,
    verdict_words,
)
from experiments.report.words import GLOSSARY
from experiments.result_models import CellResult
from experiments.tables import refusals, status_of
from experiments.verdicts import Judgement

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES: Final = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class VerdictView:
    """One field of the verdict table."""

    promise: str
    sign: str
    words: str
    kind: str
    share: str
    reasons: tuple[str, ...]
    source: str
    trials: tuple[str, ...]
    records: str


@dataclass(frozen=True)
class CellView:
    """One row of the tables of cells."""

    name: str
    """Without its fault."""
    fault: str
    role: str
    status: str
    added: bool
    verdicts: tuple[VerdictView, ...]
    figures: tuple[tuple[str, str], ...]


def render(evidence: Evidence) -> str:
    """Return the page."""
    return template("page.html").render(**_values(evidence))


def template(name: str) -> Template:
    """Return a template of ours: what it is given is text unless it says otherwise, and a name that it is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(name)


def _values(evidence: Evidence) -> dict[str, Any]:
    """Return what the template names."""
    results, plan = evidence.results, evidence.plan
    run = [cell for cell in results.cells if cell.refused is None]
    return {
        "results": results,
        "plan": plan,
        "answer": answering.answer(results),
        "harness_failed": answering.harness_failed(results.harness),
        "promises": tuple(PROMISES.values()),
        "cells": _cells(evidence, run),
        "charts": draw(evidence),
        "trials": trials_by_cell(evidence),
        "silent": tuple(_silent(evidence)),
        "refusals": refusals(results.cells),
        "cell_names": _names(run),
        "settings": settings_of(evidence),
        "versions": dict(_versions(evidence)),
        "machine": evidence.machine,
        "glossary": GLOSSARY,
    }


def _names(cells: Sequence[CellResult]) -> tuple[str, ...]:
    axes = differing([cell.cell for cell in cells])
    return tuple(cell_name(cell.cell, axes) for cell in cells)


def _cells(evidence: Evidence, cells: Sequence[CellResult]) -> tuple[tuple[str, tuple[CellView, ...]], ...]:
    """Return the rows by fault, those of cells that were added as controls last."""
    axes = [axis for axis in differing([cell.cell for cell in cells]) if axis != "fault"]
    views = [_cell(evidence, cell, cell_name(cell.cell, axes)) for cell in cells]
    own = [(group.fault, tuple(view for view in views if view.fault == group.fault and not view.added)) for group in by_fault(cells)]
    controls = tuple(view for view in views if view.added)
    return tuple((heading, rows) for heading, rows in (*own, ("controls, added to the experiment's own cells", controls)) if rows)


def _cell(evidence: Evidence, cell: CellResult, name: str) -> CellView:
    by_promise = {judgement.promise: judgement for judgement in cell.judgements}
    sources = {commitment.promise: commitment.source for commitment in cell.commitments}
    verdicts = tuple(_verdict(promise, by_promise.get(promise), sources.get(promise, "")) for promise in Promise)
    return CellView(name, fault_name(cell.cell), ROLES[cell.role], status_of(cell), cell.added, verdicts, tuple(_figures(evidence, cell)))


def _verdict(promise: Promise, judgement: Judgement | None, source: str) -> VerdictView:
    if judgement is None:
        return VerdictView(PROMISES[promise], "?", "not judged", "unknown", "", (), source, (), "")
    return VerdictView(
        PROMISES[promise],
        verdict_sign(judgement),
        verdict_words(judgement),
        verdict_class(judgement),
        share_words(judgement.share).removesuffix(" at 95 %") if judgement.share else "",
        judgement.reasons,
        source,
        judgement.trials,
        _records(judgement),
    )


def _records(judgement: Judgement) -> str:
    """Return the first records that broke the promise, by producer and number."""
    named = [f"{record.trial_id}: producer {record.producer} record {record.seq}" for record in judgement.records if record.seq is not None]
    more = judgement.records_total - len(named)
    return "; ".join([*named, *([f"and {more:,} more in results/anomalies.parquet"] if named and more > 0 else [])])


def _figures(evidence: Evidence, cell: CellResult) -> Iterator[tuple[str, str]]:
    """Yield what was seen, sums over the cell's sealed trials."""
    fates = [trial.fates for trial in sealed(evidence, cell) if trial.fates]
    yield "trials", str(cell.sealed_trials)
    yield "acked", count(cell.acked)
    yield "lost", bounds(cell.lost)
    yield "duplicates", count(cell.duplicates)
    yield "reordered", count(cell.reordered)
    yield "missed", count(cell.missed)
    yield "read again", count(cell.redelivered)
    yield "unknown", count(cell.unknown)
    yield "refused, yet there", count(sum(of.rejected_present for of in fates) if fates else None)
    yield "ack p99", estimate_words(cell.ack_p99_ms)
    yield "longest gap", estimate_words(cell.outage_ms)


def _silent(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yield what says nothing of Kafka, or less than it seems: kind, trial and reason."""
    results = evidence.results
    for trial in results.trials:
        if trial.status in {Status.VOID, Status.FAILED}:
            yield trial.status.value, trial.trial_id, " ".join((trial.reason or "").split()) or "; ".join(trial.fault.evidence)
        if trial.generator_late:
            yield "late", trial.trial_id, f"the generator fell {trial.lateness_p99_ms or 0:,.0f} ms behind its schedule at its 99th percentile"
    yield from (("not run", trial_id, "planned, and not run yet") for trial_id in results.pending)
    yield from (("not measured", trial_id, "its ledger is whole, and the results do not hold it") for trial_id in results.unmeasured)


def _versions(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the versions of what was run, all that occur."""
    kafka = sorted({record.kafka_version for record in evidence.records.values()} or {spec.cluster.kafka_version for spec in evidence.plan.trials})
    clients = sorted({record.client for record in evidence.records.values()})
    ledgers = sorted({str(record.ledger_version) for record in evidence.records.values()})
    yield "Kafka", ", ".join(kafka) or "not known"
    yield "client", ", ".join(clients) or "not known"
    yield "ledger", ", ".join(ledgers) or "not known"
