"""Puts the page together: what the template needs, as plain values, and the template itself. Equal evidence gives equal bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.ledger.record import Status
from experiments.report.answer import compute_answer
from experiments.report.cell_tables import cell_views, figure_table, shown_guarantees
from experiments.report.changes import changes_view
from experiments.report.charts import draw_charts
from experiments.report.data import ReportData, read_report_data
from experiments.report.drawing import set_matplotlib_cache
from experiments.report.finding_plots import plot_chart
from experiments.report.settings import differing_settings, effective_settings
from experiments.report.trials import trials_by_cell
from experiments.results.tables import refusal_lines
from experiments.results.wording import GUARANTEE_NAMES
from experiments.sweep.folder import SweepFolder
from infra.machine.files import replace_file
from infra.machine.home import Home

# ---------- The words that a reader of the page needs; `docs/glossary.md` has all of them.


GLOSSARY: Final[tuple[tuple[str, str], ...]] = (
    (
        "cell, trial",
        "A cell is one combination of settings and fault; a trial is one seeded run of it. Intervals count trials, never records.",
    ),
    (
        "acked",
        "The client reported success. With acks=0 that means only that the record was handed to the socket.",
    ),
    (
        "lost",
        "Acknowledged, and not in the log when it was read to its end. An interval where unknown outcomes leave one.",
    ),
    ("duplicates", "Further copies of a record in the log, beyond its first."),
    (
        "unknown",
        "The client cannot tell whether the record was written: a timeout, or a connection that died under the request.",
    ),
    (
        "refused yet there",
        "The client reported that the record was not written, and it is in the log all the same.",
    ),
    (
        "reordered",
        "Its first copy lies behind a record that the same producer sent later to the same partition.",
    ),
    (
        "missed, read again",
        "In the log, and passed over by the reader; or received by it more than once.",
    ),
    (
        "held",
        "Promised by Kafka's documentation for these settings, and not seen broken; the interval says how much that excludes.",
    ),
    ("violated", "Promised, and seen broken in at least one trial."),
    ("not promised", "These settings do not promise it; whether it was seen is told beside it."),
    ("unknown verdict", "The trials cannot tell; the reasons say why."),
    (
        "void",
        "The fault was not seen to bite. Such a trial is counted, shown, and judged in nothing.",
    ),
    ("late", "The generator itself fell behind its schedule. Such a trial is judged, and marked."),
    (
        "control, positive control",
        "A cell without fault, where nothing may be lost; and one that must lose, or the harness is blind.",
    ),
    (
        "latency",
        "Counted from the time at which the schedule wanted the record sent, so that an outage cannot hide.",
    ),
    (
        "interval",
        "It holds the true share in 95 % of all sweeps (Clopper and Pearson's exact interval).",
    ),
)


if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES: Final = Path(__file__).parent / "templates"
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=%|(?:ms|s|kB|MB)\b)")


def render_page(evidence: ReportData) -> str:
    """Return the page."""
    return load_template("page.html").render(**_values(evidence))


def load_template(name: str) -> Template:
    """Return a template of ours: what it is given is text unless it says otherwise, and a name that it is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["unbroken"] = keep_units_together
    return environment.get_template(name)


def keep_units_together(text: str) -> str:
    """Return a sentence whose figures stay on one line with their units."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _values(evidence: ReportData) -> dict[str, Any]:
    """Return what the template names."""
    results, plan = evidence.results, evidence.plan
    run = [cell for cell in results.cells if cell.refused is None]
    cells, settings = cell_views(evidence, run), effective_settings(evidence)
    return {
        "results": results,
        "plan": plan,
        "finding": evidence.finding,
        "plot": plot_chart(evidence.finding.plot, "finding")
        if evidence.finding and evidence.finding.plot
        else None,
        "answer": compute_answer(results),
        "guarantees": tuple(GUARANTEE_NAMES[guarantee] for guarantee in shown_guarantees(evidence)),
        "cells": cells,
        "figures": figure_table(cells),
        "charts": draw_charts(evidence),
        "changes": changes_view(evidence),
        "trials": trials_by_cell(evidence),
        "measured": any(trial.attempted is not None for trial in results.trials),
        "silent": tuple(_silent(evidence)),
        "refusals": refusal_lines(results.cells),
        "settings": settings,
        "differing": differing_settings(settings, [cell.cell for cell in run]),
        "versions": dict(_versions(evidence)),
        "machine": evidence.machine,
        "glossary": GLOSSARY,
    }


def _silent(evidence: ReportData) -> Iterator[tuple[str, str, str]]:
    """Yield what says nothing of Kafka, or less than it seems: kind, trial and reason."""
    results = evidence.results
    for trial in results.trials:
        if trial.status in {Status.VOID, Status.FAILED}:
            yield (
                trial.status.value,
                trial.trial_id,
                " ".join((trial.reason or "").split()) or "; ".join(trial.fault.evidence),
            )
        if trial.generator_late:
            yield (
                "late",
                trial.trial_id,
                f"the generator fell {trial.lateness_p99_ms or 0:,.0f} ms behind its schedule at its 99th percentile",
            )
    yield from (("not run", trial_id, "planned, and not run yet") for trial_id in results.pending)
    yield from (
        ("not measured", trial_id, "its ledger is whole, and the results do not hold it")
        for trial_id in results.unmeasured
    )


def _versions(evidence: ReportData) -> Iterator[tuple[str, str]]:
    """Yield the versions of what was run, all that occur."""
    kafka = sorted(
        {record.kafka_version for record in evidence.records.values()}
        or {spec.cluster.kafka_version for spec in evidence.plan.trials}
    )
    clients = sorted({record.client for record in evidence.records.values()})
    ledgers = sorted({str(record.ledger_version) for record in evidence.records.values()})
    yield "Kafka", ", ".join(kafka) or "not known"
    yield "client", ", ".join(clients) or "not known"
    yield "ledger", ", ".join(ledgers) or "not known"


# ---------- Makes the page of a sweep, anew each time: `report.html` in the sweep's folder.


def write_report(sweep: SweepFolder, home: Home) -> Path:
    """Write the page and return where it lies; a reader sees the old one or the new one, never half of one.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's record or a table of `results/` cannot be read; the old page stays.
    """
    set_matplotlib_cache(home)
    replace_file(sweep.report, render_page(read_report_data(sweep)))
    return sweep.report
