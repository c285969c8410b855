"""The report of a sweep, `report.html`: values for the template, and the template itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.cell_tables import cell_views, figure_table, partitions_note
from ackbench.experiments.pages.report.changes import changes_view
from ackbench.experiments.pages.report.charts import draw_charts
from ackbench.experiments.pages.report.data import ReportData, read_report_data
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache, share_styles
from ackbench.experiments.pages.report.environment import template_environment
from ackbench.experiments.pages.report.finding_plots import plot_chart
from ackbench.experiments.pages.report.guarantee_matrix import guarantee_matrix
from ackbench.experiments.pages.report.open_timelines import open_timelines
from ackbench.experiments.pages.report.settings import differing_settings, effective_settings
from ackbench.experiments.pages.report.trials import trials_by_cell
from ackbench.experiments.pages.report.verdict_lines import verdict_lines
from ackbench.experiments.results.changed_settings import changed_setting_lines
from ackbench.experiments.results.client_versions import version_sentences
from ackbench.experiments.results.expectations import expectation_sentence, expected_of_cells
from ackbench.experiments.results.formats.tables import refusal_lines
from ackbench.experiments.results.hosts import host_sentences
from ackbench.experiments.results.lessons.diagram import draw_experiment
from ackbench.experiments.results.lessons.shortened import describe_shortened
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.run_description import describe_run, next_question
from ackbench.experiments.results.sentences import describe_set_aside, plain_answer
from ackbench.experiments.results.stalls import shorten_stalls
from ackbench.experiments.results.statements import set_aside_trials
from ackbench.experiments.results.trials import LATE_MS
from ackbench.experiments.results.wording import (
    HELD_SIGN,
    LEGEND_OF_OVERLOAD,
    OBSERVED_SIGN,
    UNKNOWN_SIGN,
    UNKNOWN_TEXT,
    UNPROVEN_SIGN,
    VIOLATED_SIGN,
    relay_sentences,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.verdicts.statistics import INTERVAL_LEGEND
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from jinja2 import Template

GLOSSARY: Final[tuple[tuple[str, str], ...]] = (
    (
        "cell, trial",
        (
            "A cell is one combination of settings and fault. A trial is one seeded run of a cell. "
            "Intervals count trials, not records."
        ),
    ),
    (
        "acked",
        (
            "Acknowledged: the client reported success. With acks=0 this means only that the "
            "record was handed to the socket."
        ),
    ),
    (
        "lost",
        (
            "Acknowledged, and missing from the log when it was read to its end. A range where "
            "records of unknown outcome are missing."
        ),
    ),
    ("duplicates", "Copies of a record in the log in addition to the first one."),
    (
        "unknown",
        (
            "The client cannot know whether the record was written: the request timed out, or its "
            "connection broke before the response."
        ),
    ),
    (
        "rejected but in the log",
        "The client reported that the record was not written, but it is in the log.",
    ),
    (
        "reordered",
        (
            "The first copy of a record is in the log after a record that the same producer sent "
            "later to the same partition."
        ),
    ),
    (
        "missed, redelivered",
        "In the log, but never received by the consumer; received by it more than once.",
    ),
    (
        "held",
        (
            "Kafka's documentation guarantees it for these settings, and no trial violated it. "
            "The percentage is the upper end of the interval of the share of violations."
        ),
    ),
    (
        "power not shown",
        (
            "No trial of this sweep showed a violation of this guarantee, in whichever cell. So "
            "the sweep does not show that it would detect one."
        ),
    ),
    ("violated", "Guaranteed, and violated in at least one trial."),
    (
        "not guaranteed",
        (
            "Kafka does not guarantee it for these settings: observed, not observed, or not "
            "measurable."
        ),
    ),
    ("unknown verdict", "The trials do not allow a verdict; the reasons are given with it."),
    (
        "void, incomplete",
        (
            "The fault had no observable effect, or was carried out in part. Such a trial is in no "
            "share or statistic, and cannot show that a guarantee held. It can show that one was "
            "violated, unless it is void because a process died of something else."
        ),
    ),
    (
        "late",
        (
            "The load generator was behind its schedule. A late trial is included in all verdicts, "
            "and marked."
        ),
    ),
    (
        "stalled",
        (
            "Neither Kafka nor the fault kept a client, a broker or the machine from running for a "
            "while. The time of the clients is taken off the outages; the trial is included in all "
            "verdicts that the stall leaves known."
        ),
    ),
    (
        "control, positive control",
        (
            "The control has no fault, and must not lose or duplicate a record. The positive "
            "control must lose records in each of its trials; otherwise ackbench may miss a loss."
        ),
    ),
    (
        "latency",
        (
            "Measured from the intended send time, so that an outage delays later records as it "
            "would delay real ones (no coordinated omission)."
        ),
    ),
    (
        "interval",
        (
            "The exact two-sided 95 % interval of a share (Clopper and Pearson): it contains the "
            "true share in 95 % of all sweeps or more."
        ),
    ),
)
"""The terms of the page; `docs/glossary.md` has all of them."""


_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=%|(?:ms|s|kB|MB)\b)")


SIGNS: Final = {"held": HELD_SIGN, "violated": VIOLATED_SIGN, "unknown": UNKNOWN_SIGN}
"""Signs of what is held, is violated or is unknown, by CSS class."""

LEGEND: Final = (
    ("held", HELD_SIGN, "guaranteed, held"),
    ("held", UNPROVEN_SIGN, "held, power not shown"),
    ("violated", VIOLATED_SIGN, "guaranteed, VIOLATED"),
    ("unknown", UNKNOWN_SIGN, "unknown"),
    ("seen", OBSERVED_SIGN, "not guaranteed, observed"),
    ("unseen", "", "not guaranteed, not observed"),
)
"""CSS class, sign and words of each verdict."""


def write_report(sweep: SweepFolder, home: Home) -> SweepResults:
    """Write `report.html` into the sweep's folder and return the results that it shows.

    The page is replaced as a whole, so that a reader sees the old page or the new one.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's manifest or a table of `results/` cannot be read; the old page stays.
    """
    set_matplotlib_cache(home)
    data = read_report_data(sweep)
    replace_file(sweep.report, render_page(data))
    return data.results


def render_page(data: ReportData) -> str:
    """Return the page of a sweep as HTML; equal data gives equal bytes."""
    values = _template_values(data)
    return share_styles(load_template("page.html").render(**values))


def load_template(name: str) -> Template:
    """Return a template of a report (`experiments.pages.report.environment`)."""
    environment = template_environment()
    environment.filters["sentence"] = as_sentence
    environment.filters["expectation"] = expectation_sentence
    environment.filters["keep_units_together"] = keep_units_together
    environment.globals["signs"] = SIGNS
    environment.globals["legend"] = LEGEND
    environment.globals["interval_legend"] = INTERVAL_LEGEND
    return environment.get_template(name)


def as_sentence(text: str) -> str:
    """Return a phrase of a legend with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def keep_units_together(text: str) -> str:
    """Return the text with a no-break space between each figure and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _template_values(data: ReportData) -> dict[str, Any]:
    results, plan, finding = data.results, data.plan, data.finding
    versions, exceptions = dict(_versions(data)), tuple(_exceptions(results))
    folder = shlex.quote(data.folder or results.sweep_id)
    overloaded = any(cell.overloaded_trials for cell in data.cells)
    settings = effective_settings(data)
    differing = differing_settings(data, settings)
    outcomes = guarantee_matrix(data, by_outcome=True)
    matrix = outcomes if outcomes.has_a_row_per_cell else guarantee_matrix(data)
    cells, note = cell_views(data), partitions_note(data.cells)
    return {
        "results": results,
        "plan": plan,
        "folder": folder,
        "program": shlex.quote(data.program),
        "glossary": GLOSSARY,
        # what was run
        "drawing": draw_experiment(plan),
        "shortened": describe_shortened(plan),
        "changed_settings": tuple(changed_setting_lines(results.changed_settings)),
        "run": describe_run(plan, list(data.manifests.values())),
        "next_question": next_question(
            f"{folder}/experiment.yaml", expects=bool(results.expectations)
        ),
        "settings": settings,
        "differing": differing,
        "versions": versions,
        "machine": data.machine,
        # the answer
        "finding": finding,
        "plot": plot_chart(finding.plot, "finding") if finding and finding.plot else None,
        "answer": plain_answer(results),
        "expected": expected_of_cells(results.expectations),
        "outcomes": outcomes,
        "matrix": matrix,
        "guarantees": tuple(guarantee.label for guarantee in data.guarantees),
        "verdict_lines": verdict_lines(data),
        # what limits it
        "hosts": tuple(map(as_sentence, host_sentences(results.hosts))) if results.hosts else (),
        "client_versions": tuple(map(as_sentence, version_sentences(results.client_versions)))
        if results.client_versions
        else (),
        "relays": tuple(map(as_sentence, relay_sentences(results))),
        "refusals": refusal_lines(results.cells),
        "exceptions": exceptions,
        "overload": LEGEND_OF_OVERLOAD if overloaded else "",
        # what was measured
        "measured": any(trial.attempted is not None for trial in results.trials),
        "cells": cells,
        "figures": figure_table(cells),
        "partitions_note": note,
        "charts": draw_charts(data),
        "changes": changes_view(data),
        "open_timelines": open_timelines(data) if finding is None else None,
        "trials": trials_by_cell(data),
    }


def _exceptions(results: SweepResults) -> Iterator[tuple[str, str, str]]:
    """Yield the trials set aside, hung, late, stalled or missing: status, trial id and reason."""
    for trial in set_aside_trials(results):
        yield trial.status.value, trial.trial_id, describe_set_aside(trial)
    for trial in results.trials:
        if trial.hung_clients:
            yield "hung", trial.trial_id, "; ".join(trial.hung_clients)
        if trial.generator_late:
            lateness = f"{trial.lateness_p99_ms or 0:,.0f} ms late at p99 (limit {LATE_MS:g} ms)"
            yield "late", trial.trial_id, f"the load generator was {lateness}"
        if trial.stalls:
            yield "stalled", trial.trial_id, shorten_stalls(trial.stalls)
    for trial_id in results.pending:
        yield "not run", trial_id, "planned, not run yet"
    for trial_id in results.unmeasured:
        yield "not measured", trial_id, "sealed, but not in the results: run ackbench measure"
    if results.without_digests:
        count = format_count(len(results.without_digests), "trial")
        yield "no digests", count, "sealed before ledger version 5: altered bits may go unnoticed"


def _versions(data: ReportData) -> Iterator[tuple[str, str]]:
    """Yield the versions of Kafka, the client and the ledger; several if the trials differ."""
    manifests = data.manifests.values()
    kafka = sorted(
        {manifest.kafka_version for manifest in manifests}
        or {spec.cluster.kafka_version for spec in data.plan.trials}
    )
    clients = sorted({manifest.client for manifest in manifests})
    ledgers = sorted({str(manifest.ledger_version) for manifest in manifests})
    yield "Kafka", ", ".join(kafka) or UNKNOWN_TEXT
    yield "client", ", ".join(clients) or UNKNOWN_TEXT
    yield "ledger", ", ".join(ledgers) or UNKNOWN_TEXT
