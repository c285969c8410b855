"""Create and update MLflow runs without deleting what a person has added to them.

MLflow cannot change a param or delete a metric. A run that needs this is kept and marked, and a new
one is made. Names that ackbench does not write are never compared, changed or deleted. A run has a
digest of the names that ackbench has written; a description has a digest of its text.
"""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ackbench.experiments.orchestration.tracking.runs import (
    NOTE,
    REMOVABLE_TAGS,
    SUPERSEDED,
    RunContent,
    TrialLedger,
)

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

    from ackbench.experiments.sweep.plan import Plan

NAMES_DIGEST: Final = "ackbench.names"
"""The tag with the digest of the names of the params and metrics that ackbench has written."""
REMOVABLE: Final = "ackbench.removable"
"""The tag with the names of the tags that ackbench has written and may have to delete."""
SERIES_DIGEST: Final = "ackbench.series"
"""The tag with the digest of the points of the run's series."""
NOTE_DIGEST: Final = "ackbench.note"
"""The tag with the digest of the description that ackbench has written."""
SUPERSEDED_BY: Final = "superseded_by"
"""The tag of a run that is kept for its reader, with the id of the run that replaces it."""
_PARAMS_AND_TAGS_PER_BATCH: Final = 100
"""MLflow's limit for each of them (`mlflow.utils.validation`)."""
_METRICS_PER_BATCH: Final = 800
"""MLflow's limit is 1,000 values; the last batch also has params and tags."""
REQUESTS_AT_A_TIME: Final = 8
"""To a server: a run takes several, one after the other."""
_RUNS_PER_PAGE: Final = 1000
_DIGEST_LENGTH: Final = 36
"""Characters of a dataset's digest that MLflow stores."""


def write_runs(
    client: MlflowClient,
    experiment_id: str,
    sweep_id: str,
    contents: Sequence[RunContent],
    provenance: Mapping[str, str],
    at_a_time: int = REQUESTS_AT_A_TIME,
) -> dict[str, str]:
    """Create or update each run; return their ids by key.

    Args:
        client: of MLflow.
        experiment_id: the experiment of the runs.
        sweep_id: the sweep.
        contents: its runs.
        provenance: tags of new runs.
        at_a_time: how many runs are written to a server at a time.
    """
    existing = _existing_runs(client, experiment_id, sweep_id)
    is_server = client.tracking_uri.startswith("http")
    write = partial(_write, client, experiment_id, provenance)
    with ThreadPoolExecutor(at_a_time if is_server else 1) as pool:  # SQLite has one writer
        run_ids = pool.map(write, contents, [existing.get(one.key, ()) for one in contents])
        return dict(zip([one.key for one in contents], run_ids, strict=True))


def _existing_runs(client: MlflowClient, experiment_id: str, sweep_id: str) -> dict[str, list[Run]]:
    """Return the sweep's runs by key, without those that others have replaced.

    A key has several if an earlier tracking was interrupted before it marked the old one.
    """
    runs, token = list["Run"](), None
    while token is None or token:
        page = client.search_runs(
            [experiment_id],
            f"tags.sweep_id = '{sweep_id}'",
            max_results=_RUNS_PER_PAGE,
            page_token=token,
        )
        runs += page
        token = page.token or ""
    by_key: dict[str, list[Run]] = {}
    for run in runs:
        if "trial_id" in run.data.tags and SUPERSEDED_BY not in run.data.tags:
            by_key.setdefault(run.data.tags["trial_id"], []).append(run)
    return by_key


def _write(
    client: MlflowClient,
    experiment_id: str,
    provenance: Mapping[str, str],
    content: RunContent,
    existing: Sequence[Run],
) -> str:
    """Create or update a run, and mark those that it replaces; return its id."""
    fitting = (
        run
        for run in existing
        if can_update(run.data.params, run.data.metrics, run.data.tags, content)
    )
    run = next(fitting, None) or client.create_run(
        experiment_id, start_time=content.begin_ms, run_name=content.name, tags={**provenance}
    )
    run_id = str(run.info.run_id)
    _log(client, run, content)
    if content.ledger:
        _log_ledger(client, run, content.key, content.ledger)
    end_ms = content.end_ms or run.info.end_time  # `None` is now
    client.set_terminated(run_id, "FAILED" if content.failed else "FINISHED", end_ms)
    for old in existing:
        if old.info.run_id != run_id:
            client.set_tag(old.info.run_id, "kind", SUPERSEDED)
            client.set_tag(old.info.run_id, SUPERSEDED_BY, run_id)
    return run_id


def provenance_tags(plan: Plan) -> dict[str, str]:
    """Return the tags that MLflow's page shows as user, source and version of a sweep's runs."""
    tags = {"mlflow.source.name": f"ackbench run {plan.experiment}", "mlflow.source.type": "LOCAL"}
    if plan.experiment_commit:
        tags["mlflow.source.git.commit"] = plan.experiment_commit
    with suppress(OSError, KeyError):  # a container's user may have no name
        tags["mlflow.user"] = getpass.getuser()
    return tags


def _log_ledger(client: MlflowClient, run: Run, trial_id: str, ledger: TrialLedger) -> None:
    """Log the ledger as the run's dataset, by name and digest, unless the run has it."""
    from mlflow.entities import Dataset, DatasetInput

    digest = ledger.sha256[:_DIGEST_LENGTH]
    known = run.inputs.dataset_inputs if run.inputs else ()
    if any(one.dataset.digest == digest for one in known):
        return
    source = json.dumps({"uri": ledger.uri})
    dataset = Dataset(name=trial_id, digest=digest, source_type="uri", source=source)
    client.log_inputs(run.info.run_id, [DatasetInput(dataset)])


def can_update(
    params: Mapping[str, str],
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    content: RunContent,
) -> bool:
    """Return whether a run can become the content without losing anything.

    Args:
        params: the params of the run.
        metrics: its metrics.
        tags: its tags.
        content: what it is to have.

    Returns:
        Whether no param of ackbench's has another value, no point of a series would be left, and
        the names that the content lacks are a person's: without them, the names are those that
        ackbench has written.
    """
    if any(params.get(name, value) != value for name, value in content.params.items()):
        return False
    series = series_digest(content)
    if tags.get(SERIES_DIGEST, series) != series:
        return False
    names = content.metric_names
    common = names_digest(params.keys() & content.params.keys(), metrics.keys() & names)
    others = (params.keys() - content.params.keys()) | (metrics.keys() - names)
    return not others or tags.get(NAMES_DIGEST) == common


def names_digest(params: Iterable[str], metrics: Iterable[str]) -> str:
    """Return the digest of the names of a run's params and metrics."""
    return _digest([*sorted(params), "", *sorted(metrics)])


def series_digest(content: RunContent) -> str:
    """Return the digest of the points of a run's series; empty if it has none."""
    points = [f"{name} {point}" for name, points in content.series.items() for point in points]
    return _digest(points) if points else ""


def note_tags(tags: Mapping[str, str], note: str) -> dict[str, str]:
    """Return the tags that set a description; none if a person has written the present one.

    Args:
        tags: of the run or experiment as it is.
        note: the description that ackbench writes, Markdown.
    """
    present = tags.get(NOTE)
    if present is not None and tags.get(NOTE_DIGEST, _digest([note])) != _digest([present]):
        return {}
    return {NOTE: note, NOTE_DIGEST: _digest([note])}


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def _log(client: MlflowClient, run: Run, content: RunContent) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now_ms, series = time.time_ns() // 1_000_000, series_digest(content)
    metrics = [
        Metric(name, value, now_ms, 0)
        for name, value in content.metrics.items()
        if run.data.metrics.get(name) != value
    ]
    if series and run.data.tags.get(SERIES_DIGEST) != series:
        metrics += [  # last: MLflow's page compares by what it got first
            Metric(name, value, at_ms, step)
            for name, points in content.series.items()
            for step, at_ms, value in points
        ]
    params = [
        Param(name, value) for name, value in content.params.items() if name not in run.data.params
    ]
    wanted = {name: value for name, value in content.tags.items() if name != NOTE}
    wanted[NAMES_DIGEST] = names_digest(content.params, content.metric_names)
    if series:
        wanted[SERIES_DIGEST] = series
    wanted[REMOVABLE] = ",".join(sorted(REMOVABLE_TAGS & content.tags.keys()))
    if NOTE in content.tags:
        wanted |= note_tags(run.data.tags, content.tags[NOTE])
    tags = [
        RunTag(name, value) for name, value in wanted.items() if run.data.tags.get(name) != value
    ]
    # A run of an ackbench that did not record them has none of a person's under these names.
    own = run.data.tags.get(REMOVABLE, ",".join(REMOVABLE_TAGS)).split(",")
    for name in run.data.tags.keys() & {*own} - content.tags.keys():
        client.delete_tag(run.info.run_id, name)
    while len(metrics) > _METRICS_PER_BATCH:
        client.log_batch(run.info.run_id, metrics=metrics[:_METRICS_PER_BATCH])
        metrics = metrics[_METRICS_PER_BATCH:]
    client.log_batch(
        run.info.run_id, metrics=metrics, params=params[:_PARAMS_AND_TAGS_PER_BATCH], tags=tags
    )
    for begin in range(_PARAMS_AND_TAGS_PER_BATCH, len(params), _PARAMS_AND_TAGS_PER_BATCH):
        client.log_batch(run.info.run_id, params=params[begin : begin + _PARAMS_AND_TAGS_PER_BATCH])
