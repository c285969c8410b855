"""The runs that MLflow holds, in a real SQLite store."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.builders.records import a_record, a_spec, no_rows, record_of
from support.builders.result_tables import write_results
from support.golden_files import Says

from ackbench.experiments.ledger.digests import digest_of
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST, ResultsManifest
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, ProducerSummary, TrialManifest
from ackbench.experiments.orchestration.tracking import store, views
from ackbench.experiments.orchestration.tracking.runs import RunContent, trial_run
from ackbench.experiments.results.models import (
    Fates,
    FaultResult,
    Latencies,
    PhaseLatencies,
    Quantiles,
    TrialResult,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan, RefusedCell, TrialSpec
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home

SWEEP_ID = "planted-20260101T000000-abcd"


def a_sweep(home: Home, sweep_id: str = SWEEP_ID) -> SweepFolder:
    """Plan three trials and a refused cell; seal the first, fail the second, skip the third."""
    specs = tuple(
        a_spec(sweep_id=sweep_id, trial_id=f"{n:03d}-abcdef", label=f"acks=1 number={n}", order=n)
        for n in range(3)
    )
    refused = RefusedCell(
        trial_id="003-abcdef",
        cell={"acks": 0, "enable.idempotence": True},
        label="acks=0 idem=on",
        reason="acks must be all",
    )
    sweep = SweepFolder(home.sweeps / sweep_id)
    sweep.write_plan(
        Plan(
            sweep_id=sweep_id,
            experiment="planted",
            question="Who?",
            seed=42,
            repeats=1,
            trials=specs,
            refused=(refused,),
        )
    )
    seal_empty(sweep, specs[0])
    sweep.failed("001-abcdef").mkdir()
    (sweep.failed("001-abcdef") / "reason.txt").write_text("NodeFailed: node 2 died\n")
    return sweep


def seal_empty(sweep: SweepFolder, spec: TrialSpec) -> None:
    """Seal an empty ledger."""
    partial = sweep.partial(spec.trial_id)
    partial.mkdir()
    record = record_of(spec, stages_s={"load": 1.5})
    seal(partial, sweep.trial(spec.trial_id), record, no_rows())


@pytest.fixture(scope="module")
def tracked(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Home, SweepFolder, store.TrackedSweep]:
    """Track a sweep once, in a home whose path needs quoting."""
    home = Home(tmp_path_factory.mktemp("a home, 50% full"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        sweep = a_sweep(home)
        sweep.report.write_text("<!DOCTYPE html>")
        return home, sweep, store.track(sweep, home)


def runs(home: Home, sweep_id: str = SWEEP_ID) -> list[Any]:
    """Return the sweep's runs from MLflow."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(store.embedded_uri(home))
    experiments = client.search_experiments(filter_string="name = 'ackbench/planted'")
    return list(
        client.search_runs(
            [experiment.experiment_id for experiment in experiments],
            f"tags.sweep_id = '{sweep_id}'",
        )
    )


def run_of(home: Home, trial_id: str) -> Any:
    """Return the run of a trial, or the summary."""
    return next(run for run in runs(home) if run.data.tags["trial_id"] == trial_id)


def test_there_is_one_run_per_trial_and_cell_and_a_summary_and_none_is_nested(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """A trial that never ran has no run. MLflow's list would collapse nested runs."""
    found = runs(tracked[0])
    assert sorted(run.data.tags["trial_id"] for run in found) == [
        "000-abcdef",
        "001-abcdef",
        "cell acks=1 number=0",
        "summary",
    ]
    assert not any("mlflow.parentRunId" in run.data.tags for run in found)


def test_a_run_has_tags_to_search_for(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """Sweep, cell, experiment, status and fault."""
    tags = run_of(tracked[0], "000-abcdef").data.tags
    assert {
        name: tags[name]
        for name in ("sweep_id", "cell", "experiment", "status", "fault", "kind", "role")
    } == {
        "sweep_id": SWEEP_ID,
        "cell": "acks=1 number=0",
        "experiment": "planted",
        "status": "sealed",
        "fault": "none",
        "kind": "trial",
        "role": "cell",
    }


def test_params_have_kafkas_own_names(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """The workload's have a prefix."""
    params = run_of(tracked[0], "000-abcdef").data.params
    assert params["acks"] == "1"
    assert params["socket.timeout.ms"] == "1000"
    assert params["workload.rate_records_per_s"] == "1000.0"


def test_a_failed_trial_is_a_failed_run_with_its_reason_and_no_results(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """Zeros would look like results."""
    run = run_of(tracked[0], "001-abcdef")
    assert (run.info.status, run.data.tags["reason"]) == ("FAILED", "NodeFailed: node 2 died")
    assert not run.data.metrics


def test_the_summary_lists_refused_cells_and_has_the_table(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep], says: Says
) -> None:
    """The client's message is the reason; the table is in the description and an artifact."""
    home, _, _ = tracked
    summary = run_of(home, "summary")
    says(summary.data.tags["refused_cells"])
    assert "acks must be all" in summary.data.tags["mlflow.note.content"]
    assert summary.data.metrics["sealed_trials"] == 1
    artifacts = {path.name for path in (home.mlflow / "artifacts").rglob("*") if path.is_file()}
    assert artifacts == {"results.json", "table.txt", "report.html"}


def test_the_summary_has_the_verdicts_and_the_results_of_the_controls(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep], says: Says
) -> None:
    """There is one tag per guarantee; no verdict is HELD before the measurement."""
    summary = run_of(tracked[0], "summary")
    assert {
        name: value for name, value in summary.data.tags.items() if name.startswith("verdict.")
    } == {
        "verdict.no_acked_loss": "UNKNOWN 1",
        "verdict.no_duplicates": "NOT GUARANTEED 1",
        "verdict.order": "NOT GUARANTEED 1",
        "verdict.no_read_loss": "UNKNOWN 1",
        "verdict.availability": "NOT GUARANTEED 1",
        "verdict.read_availability": "NOT GUARANTEED 1",
    }
    says(summary.data.tags["controls"])
    assert summary.data.metrics["verdicts_unknown"] == 2


def test_a_locked_database_is_one_line_with_its_holder_and_the_sweep_is_tracked_later(
    retracked: tuple[Home, SweepFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy's error would be a traceback with the statement of SQL."""
    home, sweep = retracked
    before = store.tracked_sweep(sweep)
    assert before is not None
    monkeypatch.setattr("ackbench.infra.machine.files._SQLITE_LOCK_TIMEOUT_S", 0.1)
    with closing(sqlite3.connect(store.database_of_store(home))) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HarnessError, match=rf"is locked by process {os.getpid()}: [^\n]*$"):
            store.track(sweep, home)
    assert store.track(sweep, home).trial_run_ids == before.trial_run_ids


def test_tracking_again_adds_nothing(tracked: tuple[Home, SweepFolder, store.TrackedSweep]) -> None:
    """The runs stay the same, also their ends, and each metric keeps its single value."""
    home, sweep, first = tracked
    ends_ms = {run.info.run_id: run.info.end_time for run in runs(home)}
    assert store.track(sweep, home) == first
    assert {run.info.run_id: run.info.end_time for run in runs(home)} == ends_ms
    assert len(ends_ms) == 4
    from mlflow.tracking import MlflowClient

    history = MlflowClient(store.embedded_uri(home)).get_metric_history(
        first.trial_run_ids[0], "stages_load_s"
    )
    assert [metric.value for metric in history] == [1.5]


def test_every_name_can_be_filtered_by_without_quotes(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """MLflow takes a slash or a hyphen in a filter for an operator."""
    home, _, ids = tracked
    client = store.open_client(home)
    for run in runs(home):
        key = f"tags.trial_id = '{run.data.tags['trial_id']}'"
        for filtered in (
            *(f"params.{name} LIKE '%'" for name in run.data.params),
            *(f"metrics.{name} = {value}" for name, value in run.data.metrics.items()),
            *(f"tags.{name} LIKE '%'" for name in run.data.tags),
        ):
            found = client.search_runs([ids.experiment_id], f"{key} and {filtered}")
            assert [one.info.run_id for one in found] == [run.info.run_id], filtered


def test_a_run_names_its_ledger_its_digest_and_who_has_run_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is the run's dataset, once, however often the sweep is tracked."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("LOGNAME", "somebody")
    home = Home(tmp_path)
    sweep = a_sweep(home)
    sweep.write_plan(sweep.plan().model_copy(update={"experiment_commit": "0123abcd"}))
    write_results(sweep, {"000-abcdef": {}})
    folder = sweep.trial("000-abcdef")
    digest = hashlib.sha256((folder / "trial.json").read_bytes()).hexdigest()
    tables = {file.name: digest_of(file.read_bytes()) for file in sweep.results.iterdir()}
    manifest = ResultsManifest(tables=tables, trials={"000-abcdef": digest})
    (sweep.results / RESULTS_MANIFEST).write_text(manifest.to_json())
    store.track(sweep, home)
    store.track(sweep, home)

    run = run_of(home, "000-abcdef")
    assert (run.data.tags["ledger"], run.data.tags["ledger_sha256"]) == (folder.as_uri(), digest)
    (one,) = run.inputs.dataset_inputs
    assert (one.dataset.name, one.dataset.digest) == ("000-abcdef", digest[:36])
    assert json.loads(one.dataset.source) == {"uri": folder.as_uri()}
    assert run.data.tags["mlflow.source.name"] == "ackbench run planted"
    assert run.data.tags["mlflow.source.git.commit"] == "0123abcd"
    assert run.data.tags["mlflow.user"] == "somebody"
    assert not run_of(home, "summary").inputs.dataset_inputs


def test_a_resumed_trial_replaces_its_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run of the earlier attempt is left."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path)
    sweep = a_sweep(home)
    store.track(sweep, home)
    (sweep.failed("001-abcdef") / "reason.txt").unlink()
    sweep.failed("001-abcdef").rmdir()
    seal_empty(sweep, sweep.plan().trial("001-abcdef"))
    store.track(sweep, home)
    run = run_of(home, "001-abcdef")
    assert (run.info.status, run.data.tags["status"], "reason" in run.data.tags) == (
        "FINISHED",
        "sealed",
        False,
    )
    assert len(runs(home)) == 4


def test_a_team_chooses_what_the_names_of_experiments_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databricks has absolute paths, and a server of several teams a prefix for each."""
    home = Home(tmp_path)
    sweep = a_sweep(home)
    write_results(sweep, {"000-abcdef": {}})
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv(store.PREFIX_VARIABLE, "/Shared/kafka team/")
    ids = store.track(sweep, home)
    named = store.open_client(home).get_experiment(ids.experiment_id).name
    assert named == f"/Shared/kafka team/{sweep.plan().experiment}"


@pytest.mark.parametrize("prefix", ["it's/", 'x"/', "100%/", "a\nb/", "x" * 201])
def test_a_prefix_that_a_filter_would_read_is_one_line(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is part of the filter by which runs are deleted."""
    monkeypatch.setenv(store.PREFIX_VARIABLE, prefix)
    with pytest.raises(InputError, match=rf"^{store.PREFIX_VARIABLE} is [^\n]*; allowed: "):
        store.experiment_prefix()


def test_two_sweeps_that_create_an_experiment_at_once_are_both_tracked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server has the sweeps of several hosts; of its experiments none has the name of another."""
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home, ask = Home(tmp_path), MlflowClient.get_experiment_by_name
    first, second = (a_sweep(home, f"planted-2026010{day}T000000-abcd") for day in (1, 2))
    store.track(first, home)
    answers = iter([None])

    def asked(client: MlflowClient, name: str) -> Any:
        return next(answers, "later") and ask(client, name)

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", asked)
    ids = store.track(second, home)
    before = store.tracked_sweep(first)
    assert before is not None
    assert ids.experiment_id == before.experiment_id


def test_the_experiment_has_a_description(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """It says what the runs are, and how to open those of one sweep."""
    home, sweep, ids = tracked
    note = store.open_client(home).get_experiment(ids.experiment_id).tags["mlflow.note.content"]

    assert note.startswith(f"[answer by fault](#/experiments/{ids.experiment_id}/runs?")
    assert sweep.plan().question in note
    assert "ackbench open mlflow" in note


def test_the_newest_sweep_that_is_tracked_leads_to_the_answer_of_its_experiment(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """The view of all cells has a key of its own."""
    home, _, ids = tracked

    assert store.newest_tracked(home) == ids
    assert store.answer_link("http://127.0.0.1:5000", ids) == (
        f"http://127.0.0.1:5000/#/experiments/{ids.experiment_id}/runs"
        "?workflowType=machine_learning&viewStateShareKey=ackbench"
    )


def test_a_store_is_the_same_one_for_a_version_that_waits_longer_for_its_lock(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is in the address that an earlier version recorded."""
    home, _, ids = tracked
    monkeypatch.setattr("ackbench.infra.machine.files._SQLITE_LOCK_TIMEOUT_S", 7)

    assert ids.tracking_uri != store.embedded_uri(home)
    assert store.newest_tracked(home) == ids
    assert store.page_address(ids, home) == "http://127.0.0.1:5000"


def test_the_link_opens_the_charts_of_this_sweep_only(
    tracked: tuple[Home, SweepFolder, store.TrackedSweep],
) -> None:
    """Its saved view filters by the sweep's tag, so that the link is short."""
    _, sweep, ids = tracked
    link = store.charts_link("http://127.0.0.1:5000", sweep.sweep_id, ids)
    assert link.startswith(
        f"http://127.0.0.1:5000/#/experiments/{ids.experiment_id}/runs"
        "?workflowType=machine_learning&compareRunsMode=CHART"
    )
    assert SWEEP_ID in link
    assert len(link) < 300


@pytest.mark.further
def test_a_home_whose_name_has_to_be_quoted_is_written_only_below_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Database and artifacts; MLflow's client may take a path for a URI, and the reverse."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path / "a ü%41")
    store.ensure_store(home, lambda _: None)
    store.track(a_sweep(home), home)

    assert [path.name for path in tmp_path.iterdir()] == [home.root.name]
    assert (home.mlflow / "mlflow.db").is_file()
    assert list((home.mlflow / "artifacts").rglob("*.*"))


def test_a_sweep_that_was_never_tracked_has_no_ids(tmp_path: Path) -> None:
    """A link would open an empty page."""
    assert store.tracked_sweep(SweepFolder(tmp_path)) is None


def test_the_password_in_the_servers_address_is_not_recorded(tmp_path: Path) -> None:
    """Links show the address."""
    ids = store.TrackedSweep(
        tracking_uri=store.without_credentials("https://me:secret@mlflow.example"),
        experiment_id="7",
        summary_run_id="s",
        trial_run_ids=("a",),
    )
    (tmp_path / "mlflow.json").write_text(ids.model_dump_json())
    kept = store.tracked_sweep(SweepFolder(tmp_path))
    assert kept is not None
    assert kept.tracking_uri == "https://mlflow.example"


LATENCY = Quantiles(records=9, negative_records=0, p50=1.0, p90=2.0, p99=3.0, p99_9=4.0, max=5.0)
NO_FATES = dict.fromkeys(Fates.model_fields, 0)


def run_of_trial(**changes: Any) -> RunContent:
    """Return the run of a measured trial, with some values changed."""
    return run_of_spec(
        a_spec(
            topic={"min.insync.replicas": "2", "acks": "x"},
            consumer={"isolation.level": "read_uncommitted"},
        ),
        **changes,
    )


def run_of_spec(spec: TrialSpec, **changes: Any) -> RunContent:
    """Return the run of a measured trial with this plan."""
    measured: dict[str, Any] = {
        "trial_id": spec.trial_id,
        "cell": spec.cell,
        "label": spec.label,
        "repeat": 0,
        "status": "sealed",
        "fault": FaultResult(kind="none", took_effect=True),
        "lost": (3, 7),
        "duplicates": 2,
        "latency_ms": Latencies(ack=LATENCY),
        "unavailable_ms": 12.5,
        "fates": Fates(**NO_FATES),
    }
    record: TrialManifest = a_record(
        broker_settings={"broker.session.timeout.ms": "4000"},
        fault=FaultEvidence(kind="none", took_effect=True),
        producers=tuple(
            ProducerSummary(
                producer=n,
                records=1,
                version="2.16.1",
                lateness_us_p50=0,
                lateness_us_p99=p99,
                lateness_us_max=p99,
            )
            for n, p99 in enumerate((5, 9))
        ),
    )
    return trial_run(TrialResult(**{**measured, **changes}), spec, record, [])


def test_metrics_have_the_names_of_expect() -> None:
    """A phase or a quantile stands before the unit."""
    metrics = run_of_trial(
        reordered=4,
        missed=5,
        redelivered=6,
        generator_late=True,
        lateness_p99_ms=0.009,
        producer_stalled_ms=1200.0,
        latency_by_phase_ms=PhaseLatencies(during=Latencies(ack=LATENCY)),
    ).metrics
    expected: dict[str, float] = {
        "lost_low": 3,
        "lost_high": 7,
        "duplicates": 2,
        "ack_p99_ms": 3,
        "ack_p50_during_ms": 1,
        "unavailable_ms": 12.5,
        "lateness_p99_ms": 0.009,
        "took_effect": 1,
        "fates_lost": 0,
    }
    expected |= {
        "reordered": 4,
        "missed": 5,
        "redelivered": 6,
        "generator_late": 1,
        "producer_stalled_ms": 1200,
    }
    assert {name: metrics[name] for name in expected} == expected


def test_a_value_that_was_not_measured_is_no_metric() -> None:
    """Without reads there is no end-to-end latency; 0 would be wrong."""
    metrics = run_of_trial(lost=None, unavailable_ms=None).metrics
    assert "consumer_stalled_ms" not in metrics
    assert not any(name.startswith(("end_to_end", "lost", "unavailable")) for name in metrics)


def test_a_param_name_that_two_scopes_share_gets_a_prefix() -> None:
    """The producer's has none; the others have their scope."""
    params = run_of_trial().params
    assert (params["acks"], params["topic.acks"], params["min.insync.replicas"]) == ("1", "x", "2")
    assert params["broker.broker.session.timeout.ms"] == "4000"
    assert params["consumer.isolation.level"] == "read_uncommitted"


def test_params_describe_the_cluster() -> None:
    """Metadata store, its nodes and feature levels, under the names of an experiment's file."""
    spec = a_spec()
    kraft = spec.model_copy(
        update={
            "cluster": replace(
                spec.cluster, controllers=3, features={"eligible.leader.replicas.version": 1}
            )
        }
    )
    zookeeper = spec.model_copy(
        update={"cluster": replace(spec.cluster, coordination="zookeeper", zookeepers=3)}
    )
    kraft_params, zookeeper_params = run_of_spec(kraft).params, run_of_spec(zookeeper).params

    assert (
        kraft_params["coordination"],
        kraft_params["controllers"],
        kraft_params["eligible.leader.replicas.version"],
    ) == ("kraft", "3", "1")
    assert (
        zookeeper_params["coordination"],
        zookeeper_params["zookeeper.nodes"],
        "controllers" in zookeeper_params,
    ) == ("zookeeper", "3", False)
    assert kraft_params["client.defaults"] == "false"


def test_an_incomplete_database_is_made_again_and_the_sweeps_are_tracked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow refuses a database whose creation was killed, forever."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home, said = Home(tmp_path), list[str]()
    first = a_sweep(home)
    first.results.mkdir()
    home.mlflow.mkdir()
    with closing(sqlite3.connect(home.mlflow / "mlflow.db")) as half, half:
        half.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    store.ensure_store(home, said.append)
    assert ["incomplete" in line for line in said] == [True]
    assert (home.mlflow / "mlflow.db.incomplete").is_file()
    assert {run.data.tags["sweep_id"] for run in runs(home)} == {first.sweep_id}
    store.ensure_store(home, said.append)
    assert len(said) == 1


@pytest.fixture
def retracked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, SweepFolder]:
    """Return a home of the test's own with a sweep that has been tracked."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path)
    sweep = a_sweep(home)
    store.track(sweep, home)
    return home, sweep


def complete(sweep: SweepFolder, trial_id: str) -> None:
    """Seal a trial that failed in the first attempt."""
    (sweep.failed(trial_id) / "reason.txt").unlink()
    sweep.failed(trial_id).rmdir()
    seal_empty(sweep, sweep.plan().trial(trial_id))


@pytest.mark.parametrize("trial_id", ["000-abcdef", "001-abcdef", "summary"])
def test_what_a_person_added_to_a_run_stays_when_the_sweep_is_tracked_again(
    retracked: tuple[Home, SweepFolder], trial_id: str
) -> None:
    """A metric, a param, a tag, a note and an artifact, in the run with its id."""
    home, sweep = retracked
    client, run_id = store.open_client(home), run_of(home, trial_id).info.run_id
    client.log_metric(run_id, "mine/cost", 3.5)
    client.log_metric(run_id, "lost_mine", 1)
    client.log_param(run_id, "my.param", "yes")
    client.set_tag(run_id, "mine", "look here")
    client.set_tag(run_id, "lesson", "a person's")  # a name of ackbench's, which it did not write
    client.set_tag(run_id, "mlflow.note.content", "a person's note")
    client.log_text(run_id, "text", "mine.txt")
    if trial_id == "001-abcdef":  # its run is updated
        complete(sweep, trial_id)
    store.track(sweep, home)

    run = run_of(home, trial_id)
    assert run.info.run_id == run_id
    assert (run.data.metrics["mine/cost"], run.data.metrics["lost_mine"]) == (3.5, 1)
    assert run.data.params["my.param"] == "yes"
    assert (run.data.tags["mine"], run.data.tags["lesson"]) == ("look here", "a person's")
    assert run.data.tags["mlflow.note.content"] == "a person's note"
    assert "mine.txt" in [file.path for file in client.list_artifacts(run_id)]


def test_a_description_of_the_experiment_that_a_person_wrote_stays(
    retracked: tuple[Home, SweepFolder],
) -> None:
    """It is ackbench's only as long as nobody has changed it."""
    home, sweep = retracked
    client = store.open_client(home)
    (experiment,) = client.search_experiments(filter_string="name = 'ackbench/planted'")
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "a person's")
    store.track(sweep, home)

    kept = client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"]
    assert kept == "a person's"


def test_the_charts_of_an_older_sweep_can_be_opened_and_lead_nobody_to_it(
    retracked: tuple[Home, SweepFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its view has been replaced by those of newer sweeps; a missing one opens another page."""
    home, first = retracked
    client = store.open_client(home)
    before = store.tracked_sweep(first)
    assert before is not None
    monkeypatch.setattr(views, "KEPT_VIEWS", 2)
    newer = [f"planted-2026010{day}T000000-abcd" for day in (2, 3)]
    for sweep_id in newer:
        store.track(a_sweep(home, sweep_id), home)

    def tags() -> dict[str, str]:
        return dict(client.get_experiment(before.experiment_id).tags)

    def kept() -> set[str]:
        return {
            tag.removeprefix(views.TAG_PREFIX) for tag in tags() if tag.startswith(views.TAG_PREFIX)
        }

    note = tags()["mlflow.note.content"]
    assert kept() == {"ackbench", *newer}
    store.save_charts(first, home, before)
    store.save_charts(first, home, before)
    assert kept() == {"ackbench", first.sweep_id, newer[1]}
    store.track(first, home)
    assert tags()["mlflow.note.content"] == note
    assert newer[1] in note


def with_timeline(sweep: SweepFolder, acked: int) -> None:
    """Measure the sealed trial: it has acknowledged records in its first and third slot."""
    timeline = [{"trial_id": "000-abcdef", "slot": slot, "acked_records": acked} for slot in (0, 2)]
    write_results(sweep, {"000-abcdef": {}}, {"timeline": timeline})


def test_the_course_of_a_trial_is_written_once_and_another_one_makes_a_new_run(
    retracked: tuple[Home, SweepFolder],
) -> None:
    """MLflow cannot delete a point: after another measurement, both would be in one line."""
    home, sweep = retracked
    client = store.open_client(home)

    def points() -> list[tuple[int, float]]:
        run_id = store.track(sweep, home).trial_run_ids[0]
        history = client.get_metric_history(run_id, "timeline_acked_records_per_s")
        return sorted((point.step, point.value) for point in history)

    before = run_of(home, "000-abcdef")
    with_timeline(sweep, acked=3)
    assert points() == points() == [(0, 30), (100, 0), (200, 30)]
    first = run_of(home, "000-abcdef")
    assert first.info.run_id == before.info.run_id
    client.delete_tag(first.info.run_id, "ackbench.series")  # interrupted before it was written
    assert points() == [(0, 30), (100, 0), (200, 30)]
    with_timeline(sweep, acked=4)
    assert points() == points() == [(0, 40), (100, 0), (200, 40)]
    assert client.get_run(first.info.run_id).data.tags["kind"] == "superseded"


def test_a_comparison_opens_with_a_count_and_not_with_the_course_of_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's page takes the metric that it got first; of a series it shows the last point."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path)
    sweep = a_sweep(home)
    with_timeline(sweep, acked=3)
    (run_id, *_) = store.track(sweep, home).trial_run_ids
    metrics = store.open_client(home).get_run(run_id).data.metrics
    assert "timeline_acked_records_per_s" in metrics
    assert not next(iter(metrics)).startswith("timeline")


def test_a_value_that_changed_makes_a_new_run_and_marks_the_old_one(
    retracked: tuple[Home, SweepFolder],
) -> None:
    """MLflow cannot change a param. The old run keeps what a person added; no chart has both."""
    home, sweep = retracked
    client, old = store.open_client(home), run_of(home, "000-abcdef")
    client.log_metric(old.info.run_id, "mine/cost", 3.5)
    plan = sweep.plan()
    first, *others = plan.trials
    changed = first.model_copy(update={"producer": {**first.producer, "acks": "all"}})
    sweep.write_plan(plan.model_copy(update={"trials": (changed, *others)}))
    shutil.rmtree(sweep.trial(first.trial_id))
    seal_empty(sweep, changed)
    tracked = store.track(sweep, home)

    kept = client.get_run(old.info.run_id)
    assert kept.info.lifecycle_stage == "active"
    assert kept.data.metrics["mine/cost"] == 3.5
    assert kept.data.tags["kind"] == "superseded"
    new_id = kept.data.tags["superseded_by"]
    assert new_id == tracked.trial_run_ids[0]
    assert client.get_run(new_id).data.params["acks"] == "all"
    assert client.get_run(new_id).data.tags["kind"] == "trial"
    assert store.track(sweep, home) == tracked


def test_a_metric_that_a_trial_no_longer_has_makes_a_new_run(
    retracked: tuple[Home, SweepFolder],
) -> None:
    """It was not measured, and MLflow cannot delete a metric."""
    home, sweep = retracked
    old = run_of(home, "000-abcdef")
    shutil.rmtree(sweep.trial("000-abcdef"))
    partial = sweep.partial("000-abcdef")
    partial.mkdir()
    seal(partial, sweep.trial("000-abcdef"), record_of(sweep.plan().trials[0]), no_rows())
    store.track(sweep, home)

    kept = store.open_client(home).get_run(old.info.run_id)
    assert kept.data.tags["kind"] == "superseded"
    assert kept.data.metrics["stages_load_s"] == 1.5


def test_a_param_longer_than_mlflow_stores_is_equal_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow cuts values; their ends are not forgotten: another end is another value."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home(tmp_path)
    sweep = a_sweep(home)

    def ask(question: str) -> store.TrackedSweep:
        sweep.write_plan(sweep.plan().model_copy(update={"question": question}))
        return store.track(sweep, home)

    first = ask("Who? " * 2000)
    assert ask("Who? " * 2000) == first
    assert ask("Who? " * 2000 + "Why?").summary_run_id != first.summary_run_id
