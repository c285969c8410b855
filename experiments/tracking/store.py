"""Brings a sweep's results into MLflow: flat runs, one a trial, and one summary a sweep; all of it can be made again from the folder.

Without `MLFLOW_TRACKING_URI` they go into the embedded store below the home, which needs no server. Flat, because nested runs
collapse in MLflow's list and their parent shows no charts; `tags.sweep_id` holds them together.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from experiments.ledger.record import Frozen, Status
from experiments.lessons.finding import Finding, finding_of
from experiments.results.read import SweepResults, read_results
from experiments.sweep.folder import SweepFolder
from experiments.tracking.runs import SUMMARY, VANISHING, RunContent, summary_run, trial_run
from infra.errors import HarnessError
from infra.machine.files import sqlite_url
from infra.machine.home import Home

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

MLFLOW_PORT: Final = 5000
COMPARED_AT_ONCE: Final = 40
"""With more runs than this, a link that names each is too long to be of use."""
_PARAMS_AND_TAGS_PER_BATCH: Final = 100
"""MLflow's own limit for either (`mlflow.utils.validation`)."""
_PAGE: Final = 1000
_TRACKED: Final = "mlflow.json"


class TrackedSweep(Frozen):
    """Where a sweep lies in MLflow: `mlflow.json` in its folder, so that links need no MLflow to be made."""

    tracking_uri: str
    """Without credentials."""
    experiment_id: str
    summary_run_id: str
    trial_run_ids: tuple[str, ...]


def track(sweep: SweepFolder, home: Home) -> TrackedSweep:
    """Make or bring up to date the sweep's runs; a second time changes what differs and adds nothing.

    Raises:
        HarnessError: MLflow refused, or cannot be reached.
        LedgerError: the results cannot be read.
    """
    results = read_results(sweep)
    contents = _contents(sweep, results)
    import mlflow.exceptions

    try:
        client = _client(home)
        experiment_id = _experiment(client, f"ackbench/{results.experiment}", home)
        run_ids = _write_all(client, experiment_id, results.sweep_id, contents)
        _attach(client, run_ids[SUMMARY], results, sweep)
    except mlflow.exceptions.MlflowException as error:
        raise HarnessError(
            f"MLflow at {shown(tracking_uri(home))}: {' '.join(str(error).split())}"
        ) from error
    trials = tuple(run_id for key, run_id in run_ids.items() if key != SUMMARY)
    tracked = TrackedSweep(
        tracking_uri=shown(tracking_uri(home)),
        experiment_id=experiment_id,
        summary_run_id=run_ids[SUMMARY],
        trial_run_ids=trials,
    )
    sweep.write_record(sweep.root / _TRACKED, tracked)
    return tracked


def ensure_store(home: Home) -> None:
    """Make the embedded store's tables, once (2 s); set-up does it so that the first sweep need not."""
    if not (home.mlflow / "mlflow.db").is_file():
        _client(home, embedded_uri(home)).search_experiments(max_results=1)


def links(sweep: SweepFolder, home: Home) -> tuple[str, ...]:
    """Return addresses that open the sweep's comparison, not MLflow's landing page; none for one that was never tracked.

    The embedded store is served by `ackbench up`, at the port it was last started with.
    """
    try:
        tracked = TrackedSweep.model_validate_json((sweep.root / _TRACKED).read_bytes())
    except FileNotFoundError:
        return ()
    if tracked.tracking_uri.startswith(("http://", "https://")):
        return tuple(comparison(tracked.tracking_uri.rstrip("/"), sweep.sweep_id, tracked))
    if tracked.tracking_uri == embedded_uri(home):
        return (
            *comparison(served_at(home), sweep.sweep_id, tracked),
            "(open while `ackbench up` runs)",
        )
    return (f"{tracked.tracking_uri}, experiment {tracked.experiment_id}",)


def comparison(server: str, sweep_id: str, tracked: TrackedSweep) -> Sequence[str]:
    """Return the sweep's charts, its parallel coordinates where the runs are few enough to be named, and its summary."""
    runs = f"{server}/#/experiments/{tracked.experiment_id}/runs"
    only_this = quote(f"tags.sweep_id = '{sweep_id}' and tags.kind = 'trial'", safe="")
    charts = f"{runs}?workflowType=machine_learning&compareRunsMode=CHART&searchFilter={only_this}"
    named = [
        quote(json.dumps(ids, separators=(",", ":")), safe="")
        for ids in (tracked.trial_run_ids, [tracked.experiment_id])
    ]
    together = (
        [f"{server}/#/compare-runs?runs={named[0]}&experiments={named[1]}"]
        if 1 < len(tracked.trial_run_ids) <= COMPARED_AT_ONCE
        else []
    )
    return [charts, *together, f"{runs}/{tracked.summary_run_id}"]


def serve_at(home: Home, address: str) -> None:
    """Keep where the embedded store is served, for links."""
    home.mlflow.mkdir(parents=True, exist_ok=True)
    (home.mlflow / "served-at").write_text(address)


def served_at(home: Home) -> str:
    """Return the address at which `ackbench up` serves, or last served, the embedded store."""
    told = home.mlflow / "served-at"
    return told.read_text().strip() if told.is_file() else f"http://127.0.0.1:{MLFLOW_PORT}"


def tracking_uri(home: Home) -> str:
    """Return where runs go: `MLFLOW_TRACKING_URI`, or the embedded store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri(home)


def embedded_uri(home: Home) -> str:
    """Return the store below the home; SQLite, for MLflow refuses plain files since 3.x."""
    return sqlite_url(home.mlflow / "mlflow.db")


def _client(home: Home, uri: str | None = None) -> MlflowClient:
    """Make a client; imports MLflow, which takes a second or more."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault(
        "MLFLOW_LOGGING_LEVEL", "WARNING"
    )  # it tells of every table that it makes
    from mlflow.tracking import MlflowClient

    home.mlflow.mkdir(parents=True, exist_ok=True)
    return MlflowClient(tracking_uri=uri or tracking_uri(home))


def _contents(sweep: SweepFolder, results: SweepResults) -> list[RunContent]:
    plan, records = sweep.plan(), {record.trial_id: record for record in sweep.complete_trials()}
    ran = [trial for trial in results.trials if trial.status is not Status.REFUSED]
    finding = finding_of(sweep, results)
    summary = summary_run(results, _page(results, finding), finding)
    return [
        *(
            trial_run(trial, plan.trial(trial.trial_id), records.get(trial.trial_id))
            for trial in ran
        ),
        summary,
    ]


def _experiment(client: MlflowClient, name: str, home: Home) -> str:
    """Return the experiment's id, made when it is not there; where its files lie is ours to say only in the embedded store."""
    found = client.get_experiment_by_name(name)
    if found:
        return str(found.experiment_id)
    embedded = tracking_uri(home) == embedded_uri(home)
    return str(
        client.create_experiment(
            name,
            artifact_location=(home.mlflow / "artifacts" / name).as_uri() if embedded else None,
        )
    )


def _write_all(
    client: MlflowClient, experiment_id: str, sweep_id: str, contents: Sequence[RunContent]
) -> dict[str, str]:
    """Write each run; return their ids by key."""
    there = _there(client, experiment_id, sweep_id)
    return {
        content.key: _write(client, experiment_id, content, there.get(content.key))
        for content in contents
    }


def _there(client: MlflowClient, experiment_id: str, sweep_id: str) -> dict[str, Run]:
    """Return the sweep's runs by key, all pages of them."""
    page = client.search_runs([experiment_id], f"tags.sweep_id = '{sweep_id}'", max_results=_PAGE)
    found = list(page)
    while page.token:
        page = client.search_runs(
            [experiment_id],
            f"tags.sweep_id = '{sweep_id}'",
            max_results=_PAGE,
            page_token=page.token,
        )
        found += page
    return {run.data.tags["trial_id"]: run for run in found if "trial_id" in run.data.tags}


def _write(client: MlflowClient, experiment_id: str, content: RunContent, old: Run | None) -> str:
    """Bring a run up to date; one that cannot be (params never change in MLflow, metrics never vanish) is made anew."""
    if old and not _fits(old, content):
        client.delete_run(old.info.run_id)
        old = None
    run = old or client.create_run(
        experiment_id, start_time=content.begin_ms, run_name=content.name
    )
    _log(client, run, content)
    client.set_terminated(
        run.info.run_id, "FAILED" if content.failed else "FINISHED", content.end_ms
    )
    return str(run.info.run_id)


def _fits(old: Run, content: RunContent) -> bool:
    same_params = all(content.params.get(name) == value for name, value in old.data.params.items())
    return same_params and old.data.metrics.keys() <= content.metrics.keys()


def _log(client: MlflowClient, run: Run, content: RunContent) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now_ms = time.time_ns() // 1_000_000
    metrics = [
        Metric(name, value, now_ms, 0)
        for name, value in content.metrics.items()
        if run.data.metrics.get(name) != value
    ]
    params = [
        Param(name, value) for name, value in content.params.items() if name not in run.data.params
    ]
    tags = [
        RunTag(name, value)
        for name, value in content.tags.items()
        if run.data.tags.get(name) != value
    ]
    for name in run.data.tags.keys() & VANISHING - content.tags.keys():
        client.delete_tag(run.info.run_id, name)
    client.log_batch(
        run.info.run_id, metrics=metrics, params=params[:_PARAMS_AND_TAGS_PER_BATCH], tags=tags
    )
    for begin in range(_PARAMS_AND_TAGS_PER_BATCH, len(params), _PARAMS_AND_TAGS_PER_BATCH):
        client.log_batch(run.info.run_id, params=params[begin : begin + _PARAMS_AND_TAGS_PER_BATCH])


def _attach(client: MlflowClient, run_id: str, results: SweepResults, sweep: SweepFolder) -> None:
    client.log_text(run_id, results.to_json(), "results.json")
    client.log_text(run_id, _table(results), "table.txt")
    if sweep.report.is_file():
        client.log_artifact(run_id, str(sweep.report))


def _page(results: SweepResults, finding: Finding | None) -> str:
    found = f"{finding.markdown()}\n\n" if finding else ""
    return f"**{results.question.strip()}**\n\n{found}```\n{_table(results)}\n```\n"


def _table(results: SweepResults) -> str:
    """Return the table of the cells as the command prints it, refused ones below it."""
    from rich.console import Console

    from experiments.results.tables import PIPED_WIDTH, print_cells, print_notes

    text = StringIO()
    console = Console(file=text, width=PIPED_WIDTH, color_system=None)
    print_cells(console, results.cells)
    print_notes(console, results)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def shown(uri: str) -> str:
    """Return an address without the password that may be in it."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else uri
