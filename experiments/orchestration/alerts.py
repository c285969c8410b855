"""Report a sweep for which a condition of its experiment's `alert_on` holds.

It is reported to a webhook (`ACKBENCH_WEBHOOK`) and to notifiers of Airflow (`ACKBENCH_NOTIFIERS`).
Neither may fail the sweep: what could not be reported is logged, and kept in the sweep's folder.
"""

from __future__ import annotations

import html
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from ackbench.experiments.ledger.location import LocationError
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.phrases import format_count, one_line
from ackbench.experiments.messages.visible import visible
from ackbench.experiments.orchestration.request import SweepRequest
from ackbench.experiments.orchestration.step_context import sweep_named
from ackbench.experiments.orchestration.sweep_links import site_page, stored_page
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.field_types import void_limit
from ackbench.experiments.planning.yaml_reader import read_yaml
from ackbench.experiments.results.history.index import IndexFilter, index
from ackbench.experiments.results.history.kept import complete_summaries, summary_of
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.history.trend import MIN_SWEEPS_BEFORE, trend_of
from ackbench.experiments.results.history.wording import change_line, unusual_line
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import published_location
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

WEBHOOK_VARIABLE: Final = "ACKBENCH_WEBHOOK"
"""An address that gets each alert as JSON by POST; it is a secret, and is never printed."""
NOTIFIERS_VARIABLE: Final = "ACKBENCH_NOTIFIERS"
"""`module:name` of notifiers of Airflow, comma-separated; each is called with the context."""
_TIMEOUT_S: Final = 10.0
_RECENT: Final = 5
"""A change of level that began within so many newest sweeps is news."""
_MOST_REASONS: Final = 20
_MOST_CHARACTERS: Final = 500
_LOG: Final = logging.getLogger(__name__)


class Alert(Frozen):
    """What is reported of a sweep; the body of the webhook's request."""

    text: str
    """All of it, for chats: Slack, Mattermost and Teams' workflows show this field.

    `&`, `<` and `>` are entities in it, as Slack requires: `<!channel>` would notify everybody.
    """
    experiment: str
    sweep_id: str | None
    """Null: the sweep could not be planned."""
    reasons: tuple[str, ...]
    link: str | None
    """The sweep's page."""


def alert(sweep_id: str, context: Mapping[str, Any]) -> None:
    """Report a sweep if a condition of its experiment holds.

    Args:
        sweep_id: the sweep's id, or its URI if several hosts run it.
        context: of the task, for notifiers.
    """
    try:
        sweep = sweep_named(sweep_id)
    except AckbenchError as error:
        _LOG.warning("not notified: %s", error)
        return
    found = alert_of(sweep, Home.from_environment())
    if found is None:
        _LOG.info("no condition of alert_on holds")
        return
    problems = _report(found, context)
    if problems:
        replace_file(sweep.unnotified, "".join(f"{problem}\n" for problem in problems))
    else:
        sweep.unnotified.unlink(missing_ok=True)


def alert_of_plan(form: Mapping[str, Any], reason: object, context: Mapping[str, Any]) -> None:
    """Report that a sweep could not be planned, if its experiment reports failures.

    What an invalid experiment asks for is not known: it is reported if a schedule runs it, and not
    if a user who sees the task has requested it.

    Args:
        form: the fields of the request.
        reason: why `plan` has failed; anything but a text: its process has ended.
        context: of the task, for notifiers.
    """
    run_type = getattr(context.get("dag_run"), "run_type", None)
    scheduled = getattr(run_type, "value", run_type) == "scheduled"
    reports = _reports_failures(lambda: SweepRequest.of(form).source(), if_invalid=scheduled)
    _alert_of_experiment(form.get("experiment"), reason, context, reports=reports)


def alert_of_experiment(experiment: str, reason: str | None, context: Mapping[str, Any]) -> None:
    """Report that no sweep of an experiment could be planned, if it reports failures or is invalid.

    Args:
        experiment: a name of the catalogue, or a file.
        reason: why not; `None`: its process has ended.
        context: for notifiers.
    """
    reports = _reports_failures(lambda: experiment, if_invalid=True)
    _alert_of_experiment(experiment, reason, context, reports=reports)


def _alert_of_experiment(
    named: object, reason: object, context: Mapping[str, Any], *, reports: bool
) -> None:
    text = reason if isinstance(reason, str) else "its process ended: see the log of `plan`"
    experiment = visible(one_line(str(named)))[:_MOST_CHARACTERS]
    if not reports:
        _LOG.info("no sweep was planned, and no condition of alert_on holds")
        return
    line = visible(f"failed: no sweep was planned: {one_line(text)}")[:_MOST_CHARACTERS]
    found = Alert(
        text=_chat_text(f"ackbench {experiment}:", line),
        experiment=experiment,
        sweep_id=None,
        reasons=(line,),
        link=None,
    )
    _report(found, context)


def _reports_failures(source: Callable[[], str], *, if_invalid: bool) -> bool:
    try:
        experiment = load_experiment(source())
    except AckbenchError:
        return if_invalid
    return "failed" in experiment.alert_on


def _report(found: Alert, context: Mapping[str, Any]) -> list[str]:
    """Log an alert and send it; return what went wrong."""
    for reason in found.reasons:
        _LOG.warning("%s", reason)
    problems = [*_post(found), *_notify(found, context)]
    for problem in problems:
        _LOG.warning("not notified: %s", problem)
    return problems


def alert_of(sweep: SweepFolder, home: Home) -> Alert | None:
    """Return what is to be reported of a sweep; `None`: nothing."""
    conditions = conditions_of(sweep)
    if not conditions:
        return None
    summary = summary_of(sweep, home)
    reasons = tuple(map(visible, _reasons(sweep, summary, conditions, home)))[:_MOST_REASONS]
    if not reasons:
        return None
    link = page_link(sweep)
    return Alert(
        text=_chat_text(f"ackbench {summary.sweep_id}:", *reasons, *([link] if link else [])),
        experiment=summary.experiment,
        sweep_id=summary.sweep_id,
        reasons=reasons,
        link=link,
    )


def _chat_text(*lines: str) -> str:
    return html.escape("\n".join(lines), quote=False)


def conditions_of(sweep: SweepFolder) -> tuple[str, ...]:
    """Return the conditions of the sweep's own copy of its experiment; none if it has no file."""
    try:
        document = read_yaml(sweep.experiment_yaml)
    except AckbenchError:
        return ()
    return tuple(document.get("alert_on", ())) if isinstance(document, Mapping) else ()


def _reasons(
    sweep: SweepFolder, summary: SweepSummary, conditions: Sequence[str], home: Home
) -> Iterator[str]:
    for condition in conditions:
        limit = void_limit(condition)
        if limit is not None:
            yield from void_reasons(summary, limit)
        elif condition == "violated" and summary.violated:
            yield f"violated: {format_count(summary.violated, 'guarantee')} of Kafka"
        elif condition == "not-expected":
            yield from (f"not expected: {line}" for line in summary.not_expected)
        elif condition == "failed":
            yield from failed_reasons(summary)
        elif condition == "worse-than-trend":
            yield from _trend_reasons(sweep, summary, home)


def void_reasons(summary: SweepSummary, limit: float) -> Iterator[str]:
    """Yield whether more than a share of the trials that ran are void or incomplete."""
    without_effect = summary.void_trials + summary.incomplete_trials
    ran = summary.sealed_trials + without_effect
    if ran and without_effect / ran > limit:
        yield (
            f"void: {without_effect} of {ran} trials had no full effect or were disturbed "
            f"(limit {100 * limit:g} %)"
        )


def failed_reasons(summary: SweepSummary) -> Iterator[str]:
    """Yield what of the sweep the harness did not complete."""
    if summary.problem:
        yield f"failed: {summary.problem}"
    if summary.pending_trials or summary.failed_trials:
        missing = max(summary.pending_trials, summary.failed_trials)
        yield f"failed: {missing} of {summary.planned_trials:,} trials are missing"
    elif not summary.measured and not summary.problem:
        yield "failed: the sweep was not measured"


def _trend_reasons(sweep: SweepFolder, summary: SweepSummary, home: Home) -> Iterator[str]:
    """Yield what is worse than before, on machines like that of the sweep: on others all may be."""
    wanted = IndexFilter(summary.experiment)
    try:
        published = sweep.origin or published_location(sweep)
        store = published.parent if published else None
        found = index(home, wanted, store=store, details=False)
    except (AckbenchError, LocationError) as error:
        _LOG.warning("worse-than-trend: only by the sweeps of this home: %s", error)
        found = index(home, wanted, details=False)
    comparable = [
        one.summary
        for one in found
        if one.summary.planned_s <= summary.planned_s and one.summary.machine == summary.machine
    ]
    trend = trend_of(complete_summaries(home, comparable))
    if not trend.newest_compared:
        _LOG.warning(
            "worse-than-trend: not judged: no figure has %d sweeps before it of the same settings "
            "on such a machine (%d measured sweeps of %s on such machines)",
            MIN_SWEEPS_BEFORE,
            len(trend.sweeps),
            summary.experiment,
        )
    if len(trend.sweeps) < 2:  # noqa: PLR2004 - a trend has a before and an after
        return
    recent = trend.sweeps[-_RECENT:]
    yield from map(unusual_line, trend.unusual)
    yield from (
        change_line(change)
        for change in trend.changes
        if change.worse and change.sweep_id in recent
    )


def page_link(sweep: SweepFolder) -> str | None:
    """Return a link to the sweep's page: of the site, of its store, or to the file."""
    file = sweep.report.as_uri() if sweep.report.is_file() else None
    return site_page(sweep) or stored_page(sweep) or file


def _post(found: Alert) -> Iterator[str]:
    """Send an alert to the webhook, if there is one; yield why that failed."""
    address = os.environ.get(WEBHOOK_VARIABLE)
    if not address:
        return
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"}:
        yield f"{WEBHOOK_VARIABLE} is no http or https address"
        return
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        address,
        data=found.model_dump_json().encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
            response.read(1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        yield f"the webhook at {parts.hostname} ({WEBHOOK_VARIABLE}): {one_line(str(error))}"


def _notify(found: Alert, context: Mapping[str, Any]) -> Iterator[str]:
    """Call the notifiers of Airflow; yield why one failed."""
    for name in filter(None, map(str.strip, os.environ.get(NOTIFIERS_VARIABLE, "").split(","))):
        module, _, attribute = name.partition(":")
        try:
            notifier = getattr(import_module(module), attribute)
            notifier({**context, "alert": json.loads(found.model_dump_json())})
        except Exception as error:  # noqa: BLE001 - whatever the user's notifier raises
            yield f"the notifier {name} ({NOTIFIERS_VARIABLE}): {one_line(repr(error))}"
