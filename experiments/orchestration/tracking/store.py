"""Write a sweep's results to MLflow: one run per trial and per cell, and a summary run.

Without `MLFLOW_TRACKING_URI` they go to the embedded store below the home, which needs no server.
The runs are not nested: MLflow's list collapses nested runs, and their parent shows no charts. The
tag `sweep_id` connects the runs of a sweep.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from ackbench.experiments.ledger.documents import why_unreadable, without_version
from ackbench.experiments.ledger.trial_manifest import Frozen, Status
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.messages.markdown import code_block, escaped
from ackbench.experiments.messages.phrases import format_value, one_line
from ackbench.experiments.orchestration.tracking.cell_runs import cell_runs
from ackbench.experiments.orchestration.tracking.run_writer import (
    note_tags,
    provenance_tags,
    write_runs,
)
from ackbench.experiments.orchestration.tracking.runs import (
    SUMMARY,
    TRIAL,
    RunContent,
    TrialLedger,
    summary_run,
    trial_run,
)
from ackbench.experiments.orchestration.tracking.views import (
    ANSWER_KEY,
    TAG_PREFIX,
    answer_view,
    is_newest_view,
    outdated_views,
    sweep_view,
)
from ackbench.experiments.results.lessons.finding import Finding
from ackbench.experiments.results.lessons.of_sweep import finding_of
from ackbench.experiments.results.read import SweepResults, read_results
from ackbench.experiments.results.rows import Row, rows_by_trial
from ackbench.experiments.sweep.cell_names import differing_axes, varying_axes
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.published import published_uri
from ackbench.infra.errors import AckbenchError, HarnessError, InputError, MachineError
from ackbench.infra.machine.databases import create_database, is_complete, lock_holder, move_aside
from ackbench.infra.machine.files import exclusive_lock, sqlite_url
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.machine.resources import full_disk
from ackbench.infra.process.log_tail import last_line
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.start import module_command

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

MLFLOW_PORT: Final = 5000
PREFIX_VARIABLE: Final = "ACKBENCH_MLFLOW_PREFIX"
_EXPERIMENTS: Final = "experiments"
"""The table that MLflow fills last when it creates a database: with the experiment `Default`."""
QUIET: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # At INFO it logs every table that it creates.
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}
_SHORTENED: Final = 300
"""Characters of an error of MLflow's that may have an entire SQL statement."""
_LOG: Final = logging.getLogger(__name__)


class TrackedSweep(Frozen):
    """The ids of a sweep in MLflow: `mlflow.json` in its folder, for links without MLflow's API."""

    tracking_uri: str
    """Without credentials."""
    experiment_id: str
    summary_run_id: str
    trial_run_ids: tuple[str, ...]


def track(sweep: SweepFolder, home: Home) -> TrackedSweep:
    """Create the sweep's runs, or update those that exist. Idempotent.

    Raises:
        HarnessError: MLflow refused, or is unreachable.
        LedgerError: the results cannot be read.
    """
    if tracking_uri(home) == embedded_uri(home):
        ensure_store(home, _LOG.warning)
    return _track(sweep, home)


def _track(sweep: SweepFolder, home: Home) -> TrackedSweep:
    results = read_results(sweep)
    table = _table(results)
    timelines = rows_by_trial(sweep, "timeline", results.manifest)
    contents = _run_contents(
        results, finding_of(sweep, results), table, _ledgers(sweep, results), timelines
    )
    with mlflow_errors(home):
        client = open_client(home)
        experiment_id = _experiment_id(client, f"{experiment_prefix()}{results.experiment}", home)
        existing = client.get_experiment(experiment_id).tags
        _save_views(client, experiment_id, existing, results.plan, contents)
        provenance = provenance_tags(results.plan)
        run_ids = write_runs(client, experiment_id, results.sweep_id, contents, provenance)
        _log_artifacts(client, run_ids[SUMMARY], results, table, sweep)
        tracked = _tracked(home, experiment_id, contents, run_ids)
        if is_newest_view(existing, results.sweep_id):
            _describe(client, experiment_id, existing, _experiment_note(results, tracked))
    sweep.write_record(sweep.tracked, tracked)
    return tracked


def _tracked(
    home: Home, experiment_id: str, contents: Sequence[RunContent], run_ids: Mapping[str, str]
) -> TrackedSweep:
    return TrackedSweep(
        tracking_uri=without_credentials(tracking_uri(home)),
        experiment_id=experiment_id,
        summary_run_id=run_ids[SUMMARY],
        trial_run_ids=tuple(run_ids[one.key] for one in contents if one.tags["kind"] == TRIAL),
    )


@contextmanager
def mlflow_errors(home: Home) -> Iterator[None]:
    """Raise the errors of MLflow, and of the database of the embedded store, as one line.

    MLflow itself passes on those of the database's that occur while it opens a store.

    Raises:
        HarnessError: MLflow refused, is unreachable, or another process has locked its database.
        MachineError: the disk is full.
    """
    try:
        yield
    except Exception as error:
        if not _is_of_mlflow(error):
            raise
        text = server_error(tracking_uri(home), error)
        if full := full_disk(error, home.root):
            raise MachineError(f"{text[:_SHORTENED]}; {full}") from error
        if "database is locked" in text and tracking_uri(home) == embedded_uri(home):
            database = database_of_store(home)
            raise HarnessError(
                f"MLflow's database {database} is locked by {lock_holder(database)}: "
                "wait until that process has written, or end it"
            ) from error
        raise HarnessError(text) from error


def _is_of_mlflow(error: Exception) -> bool:
    import mlflow.exceptions
    import sqlalchemy.exc

    own = mlflow.exceptions.MlflowException, sqlalchemy.exc.SQLAlchemyError, sqlite3.Error
    return isinstance(error, own)


def database_of_store(home: Home) -> Path:
    """Return the database of the embedded store."""
    return home.mlflow / "mlflow.db"


def ensure_store(home: Home, say: Callable[[str], None]) -> None:
    """Create the database of the embedded store (about 5 s), unless there is one.

    It is created under another name, in a process of its own, so that a killed one leaves none. An
    incomplete database, which MLflow refuses forever, is made again, and all sweeps of the home
    are tracked again from their folders.

    Args:
        home: has the store.
        say: called with a line if the database is incomplete, and for each sweep that cannot be
            tracked.

    Raises:
        HarnessError: MLflow could not create it; the message has the last line of its output.
    """
    database = database_of_store(home)
    if database.is_file() and is_complete(database, _EXPERIMENTS):
        return
    with exclusive_lock(database):
        is_incomplete = database.is_file() and not is_complete(database, _EXPERIMENTS)
        if is_incomplete:
            say(
                "MLflow's database was incomplete, because its creation was interrupted: it is made"
                " again, and the sweeps are tracked again from their folders; the old file is"
                f" {move_aside(database)}"
            )
        if not database.is_file():
            create_database(database, _create_store)
    for sweep in list_sweeps(home) if is_incomplete else ():
        if sweep.results.is_dir():
            try:
                _track(sweep, home)
            except AckbenchError as error:
                say(f"sweep {sweep.sweep_id} is not tracked: {error}")


def _create_store(database: Path) -> None:
    """Have MLflow create a database; the process closes it at its end."""
    process = spawn_dying_with_parent(
        module_command("ackbench.experiments.orchestration.tracking.store", _store_uri(database)),
        env={**os.environ, **QUIET},
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, output = process.communicate()
    if process.returncode != 0:
        reason = last_line(output.decode(errors="replace"))
        raise HarnessError(f"MLflow could not create its database {database}: {reason}")


def tracked_sweep(sweep: SweepFolder) -> TrackedSweep | None:
    """Return the ids of a sweep in MLflow; `None`: it was never tracked.

    Raises:
        LedgerError: the file with the ids cannot be read, is damaged, or a newer ackbench wrote it.
    """
    path = sweep.tracked
    try:
        content = read_document(path)
        return TrackedSweep.model_validate_json(without_version(content))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        damaged = f"is damaged: write it again with: ackbench run --resume {sweep.sweep_id}"
        raise LedgerError(f"{path} {why_unreadable(content, damaged)}") from error


def newest_tracked(home: Home) -> TrackedSweep | None:
    """Return the ids of the newest sweep of a home that is in its embedded store; `None`: none is.

    A sweep whose file with the ids cannot be read is left out.
    """
    for sweep in list_sweeps(home):
        try:
            tracked = tracked_sweep(sweep)
        except LedgerError:
            continue
        if tracked and in_embedded_store(tracked, home):
            return tracked
    return None


def in_embedded_store(tracked: TrackedSweep, home: Home) -> bool:
    """Return whether a sweep's runs are in the embedded store of this home.

    How long SQLite waits for a lock is in the recorded URI, but does not tell one store from
    another: other versions wait longer or shorter.
    """
    return _without_query(tracked.tracking_uri) == _without_query(embedded_uri(home))


def _without_query(uri: str) -> str:
    return uri.partition("?")[0]


def page_address(tracked: TrackedSweep, home: Home) -> str | None:
    """Return the address of the page that shows a sweep's runs; `None`: their store has none here.

    `ackbench up` serves the embedded store, at the port that it was last started with.
    """
    if tracked.tracking_uri.startswith(("http://", "https://")):
        return tracked.tracking_uri.rstrip("/")
    return server_address(home) if in_embedded_store(tracked, home) else None


def charts_link(server: str, sweep_id: str, tracked: TrackedSweep) -> str:
    """Return the address of the charts of a sweep's trials, side by side: its saved view.

    Args:
        server: the address of MLflow's page.
        sweep_id: the sweep.
        tracked: its ids in MLflow.
    """
    return _view_link(server, tracked, f"compareRunsMode=CHART&viewStateShareKey={sweep_id}")


def answer_link(server: str, tracked: TrackedSweep) -> str:
    """Return the address of the answer of an experiment: the saved view of its cells.

    Args:
        server: the address of MLflow's page.
        tracked: the ids of one of its sweeps in MLflow.
    """
    return _view_link(server, tracked, f"viewStateShareKey={ANSWER_KEY}")


def _view_link(server: str, tracked: TrackedSweep, view: str) -> str:
    """Return the address of a view; without the type MLflow's page opens on traces."""
    runs = f"{server}/#/experiments/{tracked.experiment_id}/runs"
    return f"{runs}?workflowType=machine_learning&{view}"


def report_link(server: str, tracked: TrackedSweep) -> str:
    """Return the address of a sweep's report in MLflow: an artifact of its summary run.

    Args:
        server: the address of MLflow's page.
        tracked: the sweep's ids in MLflow.
    """
    run = f"experiments/{tracked.experiment_id}/runs/{tracked.summary_run_id}"
    return f"{server}/#/{run}/artifacts/report.html"


def record_server_address(home: Home, address: str) -> None:
    """Record the address at which the embedded store is served, for links."""
    home.mlflow.mkdir(parents=True, exist_ok=True)
    (home.mlflow / "served-at").write_text(address)


def server_address(home: Home) -> str:
    """Return the address at which `ackbench up` serves, or last served, the embedded store."""
    record = home.mlflow / "served-at"
    return record.read_text().strip() if record.is_file() else f"http://127.0.0.1:{MLFLOW_PORT}"


def tracking_uri(home: Home) -> str:
    """Return the URI that runs are written to: `MLFLOW_TRACKING_URI`, or the embedded store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri(home)


def experiment_prefix() -> str:
    """Return what the names of experiments in MLflow begin with: `ackbench/`, or as named.

    Raises:
        InputError: `ACKBENCH_MLFLOW_PREFIX` has characters that a filter of MLflow's would read.
    """
    prefix = os.environ.get(PREFIX_VARIABLE) or "ackbench/"
    if not re.fullmatch(r"[\w ./@:+-]{1,200}", prefix):
        raise InputError(
            f"{PREFIX_VARIABLE} is {format_value(prefix)}; allowed: up to 200 letters, digits, "
            "spaces and . / @ : + - _, such as /Shared/ackbench/"
        )
    return prefix


def embedded_uri(home: Home) -> str:
    """Return the URI of the store below the home: SQLite, as MLflow 3 refuses plain files."""
    return _store_uri(home.mlflow / "mlflow.db")


def _store_uri(database: Path) -> str:
    """Return the URI of a store.

    MLflow creates the folder of a `sqlite:///` URI without unquoting it, so that a home whose name
    has to be quoted would get a second folder beside it. It leaves URIs with a driver alone.
    """
    uri = sqlite_url(database)
    return uri if str(database) in uri else uri.replace("sqlite:", "sqlite+pysqlite:", 1)


def open_client(home: Home) -> MlflowClient:
    """Create a client. This imports MLflow, which takes a second or more."""
    _keep_mlflow_quiet()
    from mlflow.tracking import MlflowClient

    home.mlflow.mkdir(parents=True, exist_ok=True)
    return MlflowClient(tracking_uri=tracking_uri(home))


def _keep_mlflow_quiet() -> None:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def load_mlflow() -> None:
    """Import MLflow, with what a client of a store in a database imports when it is created."""
    _keep_mlflow_quiet()
    import mlflow.store.tracking.sqlalchemy_store
    import mlflow.tracking  # noqa: F401 - imported ahead


def _ledgers(sweep: SweepFolder, results: SweepResults) -> dict[str, TrialLedger]:
    """Return the ledgers that the results were computed from, by trial."""
    origin = sweep.origin.uri if sweep.origin else published_uri(sweep)
    root = origin or sweep.root.as_uri()
    measured = results.manifest.trials if results.manifest else {}
    return {name: TrialLedger(f"{root}/trials/{name}", sha) for name, sha in measured.items()}


def _run_contents(
    results: SweepResults,
    finding: Finding | None,
    table: str,
    ledgers: Mapping[str, TrialLedger],
    timelines: Mapping[str, Sequence[Row]],
) -> list[RunContent]:
    """Return the runs of a sweep: those of the trials, of the cells, and the summary."""
    answer = f"{finding.markdown()}\n\n" if finding else ""
    page = f"**{escaped(results.question)}**\n\n{answer}{code_block(table)}\n"
    planned = {spec.trial_id: spec for spec in results.plan.trials}
    axes = differing_axes([spec.cell for spec in results.plan.trials])
    trials = [
        trial_run(
            trial,
            planned[trial.trial_id],
            results.manifests.get(trial.trial_id),
            axes,
            ledgers.get(trial.trial_id),
            timelines.get(trial.trial_id, ()),
        )
        for trial in results.trials
        if trial.status is not Status.REFUSED and trial.trial_id in planned
    ]
    summary = summary_run(results, page, finding)
    return [run.storable() for run in (*trials, *cell_runs(results, axes), summary)]


def _experiment_id(client: MlflowClient, name: str, home: Home) -> str:
    """Return the experiment's id; create it if it does not exist.

    Only in the embedded store ackbench chooses the artifacts' location; a server has its own.
    """
    from mlflow.exceptions import MlflowException

    existing = client.get_experiment_by_name(name)
    if existing is None:
        embedded = tracking_uri(home) == embedded_uri(home)
        location = (home.mlflow / "artifacts" / name).as_uri() if embedded else None
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:  # another sweep of the experiment may have created it meanwhile
            existing = client.get_experiment_by_name(name)
            if existing is None:
                raise
    return str(existing.experiment_id)


def save_charts(sweep: SweepFolder, home: Home, tracked: TrackedSweep) -> None:
    """Track a sweep again, if newer ones have replaced the view of its charts.

    Raises:
        HarnessError, LedgerError: as `track`.
    """
    with mlflow_errors(home):
        existing = open_client(home).get_experiment(tracked.experiment_id).tags
    if TAG_PREFIX + sweep.sweep_id not in existing:
        _track(sweep, home)


def _describe(
    client: MlflowClient, experiment_id: str, existing: Mapping[str, str], note: str
) -> None:
    """Set the description of the experiment, unless a person has written it."""
    for name, value in note_tags(existing, note).items():
        client.set_experiment_tag(experiment_id, name, value)


def _save_views(
    client: MlflowClient,
    experiment_id: str,
    existing: Mapping[str, str],
    plan: Plan,
    contents: Sequence[RunContent],
) -> None:
    """Save the view of the sweep's charts, and of the newest sweep also that of the answer."""
    begins = [content.begin_ms for content in contents if content.begin_ms is not None]
    created_ms = min(begins, default=0)
    axes = varying_axes([spec.cell for spec in plan.trials])
    views = [sweep_view(plan.sweep_id, axes, contents, repeats=plan.repeats)]
    if is_newest_view(existing, plan.sweep_id):
        views.insert(0, answer_view(axes, contents))
    for view in views:
        client.set_experiment_tag(experiment_id, view.tag, view.value(created_ms))
    for tag in outdated_views(existing, newest=plan.sweep_id):
        client.delete_experiment_tag(experiment_id, tag)


def _log_artifacts(
    client: MlflowClient, run_id: str, results: SweepResults, table: str, sweep: SweepFolder
) -> None:
    client.log_text(run_id, results.to_json(), "results.json")
    client.log_text(run_id, table, "table.txt")
    if sweep.report.is_file():
        client.log_artifact(run_id, str(sweep.report))


def _experiment_note(results: SweepResults, tracked: TrackedSweep) -> str:
    """Return the description of an MLflow experiment, Markdown.

    It begins with links: MLflow's page opens an experiment on traces of language models.
    """
    links = {
        "answer by fault": answer_link("", tracked),
        "charts of the newest sweep": charts_link("", results.sweep_id, tracked),
        "its report": report_link("", tracked),
    }
    shown = " · ".join(f"[{name}]({link.removeprefix('/')})" for name, link in links.items())
    return (
        f"{shown}\n\n{escaped(results.question)}\n\n"
        "One run per cell (tag `kind` is `cell`) with the measures of `ackbench schema experiment` "
        "and the verdict, one per trial (`trial`), and one summary run per sweep (`summary`) with "
        "the table and the report. The tag `sweep_id` connects the runs of a sweep: `ackbench open "
        "mlflow <sweep>` opens its charts. Params have Kafka's property names, metrics those of "
        "`expect`."
    )


def _table(results: SweepResults) -> str:
    """Return the table of the cells as the command prints it, with refused cells below it."""
    from ackbench.experiments.messages.console import PIPED_WIDTH, TerminalConsole
    from ackbench.experiments.results.formats.tables import print_cells, print_notes

    text = StringIO()
    console = TerminalConsole(file=text, width=PIPED_WIDTH, color_system=None, force_terminal=False)
    print_cells(console, results.cells)
    print_notes(console, results)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def without_credentials(uri: str) -> str:
    """Return an address without user name and password."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else uri


def server_error(uri: str, error: Exception) -> str:
    """Return an error of MLflow's as one line that names the address, without its credentials.

    Args:
        uri: the address, which MLflow's own messages repeat.
        error: of MLflow's.
    """
    login, separator, _ = uri.partition("://")[2].rpartition("@")
    reason = one_line(str(error)).replace(f"{login}@", "") if separator else one_line(str(error))
    return f"MLflow at {without_credentials(uri)}: {reason}"


def main() -> None:
    """Create a database of MLflow at the URI on the command line."""
    from mlflow.tracking import MlflowClient

    MlflowClient(tracking_uri=sys.argv[1]).search_experiments(max_results=1)


if __name__ == "__main__":
    main()
