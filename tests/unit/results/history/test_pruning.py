"""Pruning: what the limits select, what is deleted with a sweep, and what stays."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.nights import BEGIN_S, DAY_S
from support.golden_files import Says

from ackbench.experiments.commands.history.prune import prune_by_request
from ackbench.experiments.ledger.digests import with_digest
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.orchestration.history import delete_history
from ackbench.experiments.results.history.index import SweepState, index
from ackbench.experiments.results.history.pins import pin, pinned_sweeps, unpin
from ackbench.experiments.results.history.pruning import (
    SERVICE_LOG_BYTES,
    PruneLimits,
    StoredSweep,
    limits_of,
    machine_limits,
    plan_pruning,
    planned_pruning,
    prune,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock
from ackbench.experiments.sweep.lookup import find_sweep, list_sweeps
from ackbench.experiments.sweep.plan import Plan
from ackbench.infra.cluster import cleaning
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

NIGHTS = 1_000
MB = 1_000_000
NOW_S = BEGIN_S + NIGHTS * DAY_S


def night(number: int, *, experiment: str = "nightly", size: int = 100 * MB) -> StoredSweep:
    """Return a sweep of one night."""
    return StoredSweep(
        f"{experiment}-{number:04d}", experiment, BEGIN_S + number * DAY_S, bytes=size
    )


def plant(home: Home, name: str) -> SweepFolder:
    """Write a sweep that was planned and never ran, with logs."""
    sweep = SweepFolder(home.sweeps / name)
    sweep.write_plan(
        Plan(
            sweep_id=name,
            experiment=name.rsplit("-", 2)[0],
            question="?",
            seed=1,
            repeats=1,
            trials=(),
            refused=(),
        )
    )
    (home.logs / name).mkdir(parents=True)
    (home.logs / name / "run.log").write_text("x" * 20_000)
    return sweep


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with three nights."""
    home = Home(tmp_path / "home")
    for day in (1, 2, 3):
        plant(home, f"nightly-2026010{day}T020000-000{day}")
    return home


def names(home: Home) -> set[str]:
    """Return the ids of the sweeps that have a folder."""
    return {path.name for path in home.sweeps.iterdir()}


def run(home: Home, limits: PruneLimits) -> list[str]:
    """Prune, and return the lines."""
    plan = planned_pruning(home, limits, time.time())
    lines: list[str] = []
    prune(home, plan, lines.append)
    return lines


def test_the_newest_of_each_experiment_stay() -> None:
    """Whatever their age: a rare experiment keeps its few sweeps."""
    sweeps = [*(night(number) for number in range(50)), night(1, experiment="rare")]
    plan = plan_pruning(sweeps, PruneLimits(keep=30), bytes_before=0, now_s=NOW_S)
    assert [one.sweep_id for one in plan.doomed] == [f"nightly-{n:04d}" for n in range(20)]


def test_what_is_younger_than_the_age_stays() -> None:
    """With --keep and --older-than, both have to allow a deletion."""
    sweeps = [night(NIGHTS - 100 + number) for number in range(100)]
    limits = PruneLimits(keep=5, older_than_s=90 * DAY_S)
    plan = plan_pruning(sweeps, limits, bytes_before=0, now_s=NOW_S)
    assert [one.sweep_id for one in plan.doomed] == [f"nightly-{900 + n:04d}" for n in range(10)]


def test_a_size_alone_prunes_the_oldest_until_the_rest_fits() -> None:
    """And nothing more."""
    sweeps = [night(number) for number in range(20)]
    plan = plan_pruning(
        sweeps, PruneLimits(max_bytes=1_000 * MB), bytes_before=2_000 * MB, now_s=NOW_S
    )
    assert [one.sweep_id for one in plan.doomed] == [f"nightly-{n:04d}" for n in range(10)]
    assert plan.bytes_after == 1_000 * MB
    assert not plan.is_above_limit


def test_the_newest_stay_even_above_the_size() -> None:
    """And the plan says that the limit is not met."""
    sweeps = [night(number) for number in range(20)]
    limits = PruneLimits(keep=15, max_bytes=1_000 * MB)
    plan = plan_pruning(sweeps, limits, bytes_before=2_000 * MB, now_s=NOW_S)
    assert len(plan.doomed) == 5
    assert plan.is_above_limit


def test_pinned_and_running_sweeps_stay() -> None:
    """However old they are."""
    sweeps = [
        replace(night(0), pinned=True),
        replace(night(1), running=True),
        *(night(number) for number in range(2, 10)),
    ]
    limits = PruneLimits(keep=1, older_than_s=DAY_S, max_bytes=1)
    plan = plan_pruning(sweeps, limits, bytes_before=0, now_s=NOW_S)
    assert {one.sweep_id for one in plan.doomed} == {f"nightly-{n:04d}" for n in range(2, 9)}
    assert plan.kept == {"pinned": 1, "running": 1, "newest": 1}


def test_1000_nights_stay_below_the_limit_and_lose_nothing_pinned() -> None:
    """Pruned every night, with sizes that vary by a factor of 10 and a pin every 100 nights."""
    rng, limit = random.Random(1), 10_000 * MB  # noqa: S311 - not used for secrets
    limits = PruneLimits(keep=10, older_than_s=90 * DAY_S, max_bytes=limit)
    stored: list[StoredSweep] = []
    largest = 0
    for number in range(NIGHTS):
        one = night(number, size=rng.randint(50, 500) * MB)
        stored.append(replace(one, pinned=number % 100 == 0))
        total = sum(sweep.bytes for sweep in stored)
        now_s = one.planned_s + 3_600
        plan = plan_pruning(stored, limits, bytes_before=total, now_s=now_s)
        stored = [sweep for sweep in stored if sweep not in plan.doomed]
        largest = max(largest, sum(sweep.bytes for sweep in stored))
        assert len(stored) >= min(number + 1, 10)
    assert largest <= limit
    assert sum(sweep.pinned for sweep in stored) == NIGHTS / 100


def test_a_pruned_sweep_is_deleted_with_its_logs(home: Home) -> None:
    """Nothing of it takes space but its summary."""
    lines = run(home, PruneLimits(keep=1))
    assert names(home) == {"nightly-20260103T020000-0003"}
    assert {path.name for path in home.logs.iterdir()} == names(home)
    assert "pruned sweep nightly-20260101T020000-0001" in lines


@pytest.mark.parametrize(("removed", "count"), [(("a",), "1 cluster"), (("a", "b"), "2 clusters")])
def test_the_logs_of_its_clusters_are_counted(
    home: Home, monkeypatch: pytest.MonkeyPatch, removed: tuple[str, ...], count: str
) -> None:
    """In the singular, too."""
    home.clusters.mkdir()
    monkeypatch.setattr(cleaning, "clean", lambda *_, **__: cleaning.CleanReport(removed))
    assert f"removed the logs of {count}" in run(home, PruneLimits(keep=1))


def test_a_large_log_of_a_service_is_cut_though_no_sweep_is_pruned(home: Home, says: Says) -> None:
    """Services that run for months write without end; a small log stays as it is."""
    home.service_logs.mkdir(parents=True)
    large, small = (home.service_logs / name for name in ("scheduler.log", "mlflow.log"))
    large.write_text("a line\n" * (SERVICE_LOG_BYTES // 7 + 1))
    small.write_text("a line\n")
    says(run(home, PruneLimits(keep=100)))
    assert SERVICE_LOG_BYTES / 20 < large.stat().st_size < SERVICE_LOG_BYTES / 5
    assert small.read_text() == "a line\n"


def test_a_pruned_sweep_is_in_the_index(home: Home) -> None:
    """With its figures, so that trends reach further back than the ledgers."""
    run(home, PruneLimits(keep=1))
    states = [one.state for one in index(home)]
    assert states[1:] == [SweepState.PRUNED, SweepState.PRUNED]
    assert states[0] is not SweepState.PRUNED


def test_a_pruned_sweep_that_is_asked_for_is_one_line(home: Home) -> None:
    """It says that it was pruned, and where its figures are."""
    run(home, PruneLimits(keep=1))
    with pytest.raises(UnknownName, match=r"was pruned.*ackbench trend nightly") as raised:
        find_sweep(home, "nightly-20260101T020000-0001")
    assert "\n" not in str(raised.value)


def test_a_pinned_sweep_is_not_pruned(home: Home) -> None:
    """Until its pin is removed."""
    sweep = SweepFolder(home.sweeps / "nightly-20260101T020000-0001")
    pin(sweep, "before the upgrade")
    assert pinned_sweeps(home, names(home)) == {sweep.sweep_id}
    run(home, PruneLimits(keep=1))
    assert sweep.sweep_id in names(home)
    unpin(sweep)
    unpin(sweep)
    run(home, PruneLimits(keep=1))
    assert sweep.sweep_id not in names(home)


def test_a_sweep_in_use_is_kept_with_the_reason(home: Home) -> None:
    """Another command measures it; it is pruned the next time."""
    limits = PruneLimits(keep=1)
    plan = planned_pruning(home, limits, time.time())
    sweep = SweepFolder(home.sweeps / "nightly-20260101T020000-0001")
    lines: list[str] = []
    with SweepLock(home, sweep):
        prune(home, plan, lines.append)
    assert sweep.sweep_id in names(home)
    assert any(line.startswith(f"kept: {sweep.sweep_id}: ") for line in lines)


def test_a_link_is_never_pruned(home: Home, tmp_path: Path) -> None:
    """Nothing is deleted through a link."""
    elsewhere = Home(tmp_path / "elsewhere")
    plant(elsewhere, "nightly-20250101T020000-0009")
    (home.sweeps / "nightly-20250101T020000-0009").symlink_to(
        elsewhere.sweeps / "nightly-20250101T020000-0009"
    )
    run(home, PruneLimits(keep=1))
    assert (elsewhere.sweeps / "nightly-20250101T020000-0009" / "plan.json").is_file()


def test_an_interrupted_pruning_is_completed_by_the_next(home: Home, says: Says) -> None:
    """A sweep is renamed before it is deleted, so that no half of one is left as a sweep."""
    left = home.sweeps / ".nightly-20260101T020000-0001.pruned"
    (home.sweeps / "nightly-20260101T020000-0001").rename(left)
    lines = run(home, PruneLimits(keep=5))
    assert not left.exists()
    says(lines)


def test_a_sweep_whose_plan_cannot_be_read_is_kept(home: Home) -> None:
    """What is not known to be a sweep is not deleted."""
    plan = home.sweeps / "nightly-20260101T020000-0001" / "plan.json"
    plan.write_text(with_digest(json.dumps({"sweep_id": "another", "ledger_version": 99})))
    lines = run(home, PruneLimits(keep=1))
    assert plan.is_file()
    assert any(line.startswith("kept: nightly-20260101T020000-0001") for line in lines)


@pytest.mark.parametrize(
    ("older_than", "max_bytes"),
    [
        *((text, None) for text in ("90", "d", "-1d", "0d", "90 days", "101y", "40000d", "nan d")),
        *((None, text) for text in ("50", "GB", "-1GB", "50GBs", "1iB", "inf")),
    ],
)
def test_an_invalid_limit_is_one_line(older_than: str | None, max_bytes: str | None) -> None:
    """It names the value and what is allowed."""
    with pytest.raises(InputError, match="allowed") as raised:
        limits_of(None, older_than, max_bytes)
    assert "\n" not in str(raised.value)


def test_limits_have_units() -> None:
    """Decimal ones, binary ones, hours, days and weeks."""
    assert limits_of(3, "2w", "1.5GB") == PruneLimits(3, 14 * DAY_S, 1.5e9)
    assert limits_of(None, "36h", "1GiB") == PruneLimits(None, 1.5 * DAY_S, 2.0**30)


def test_no_limit_is_an_error() -> None:
    """Pruning everything by accident is impossible."""
    with pytest.raises(InputError, match="no limit"):
        limits_of(None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ",",
        "keep=0",
        "keep=-1",
        "keep=",
        "keep",
        "kep=30",
        "30",
        "older-than=90",
        "keep=1 2",
    ],
)
def test_a_machine_whose_limits_are_missing_or_invalid_prunes_nothing(text: str) -> None:
    """One line, with what is allowed."""
    with pytest.raises(InputError, match="allowed") as raised:
        machine_limits(text)
    assert "\n" not in str(raised.value)


def test_a_machine_has_the_limits_of_the_command() -> None:
    """Under the same names."""
    limits = machine_limits("keep=30, older-than=90d,max-bytes=50GB")
    assert limits == limits_of(30, "90d", "50GB")
    assert machine_limits("keep=30") == limits_of(30, None, None)


@pytest.mark.parametrize("request_", [{"keep": 1}, {"max_bytes": "1B"}, {"older_than": "1h"}])
def test_a_request_does_not_change_the_limits_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: dict[str, object]
) -> None:
    """Whoever may log in to Airflow's page could delete all other sweeps of each experiment."""
    home = Home(tmp_path)
    for hour in (1, 2):
        plant(home, f"nightly-20200101T0{hour}0000-0001")
    with pytest.raises(InputError, match=r"is unknown; a request does not change the limits"):
        prune_by_request(home, request_)
    with pytest.raises(InputError, match=r"ACKBENCH_PRUNE=: no limit, so that nothing is pruned"):
        prune_by_request(home, {})
    assert len(list_sweeps(home)) == 2
    monkeypatch.setenv("ACKBENCH_PRUNE", "keep=1")
    prune_by_request(home, {})
    assert [sweep.sweep_id for sweep in list_sweeps(home)] == ["nightly-20200101T020000-0001"]


@pytest.fixture
def airflow_logs(tmp_path: Path) -> Home:
    """Return a home with the logs of an old and a new run of Airflow."""
    import os

    home = Home(tmp_path / "home")
    for name, age_days in (("old", 100), ("new", 1)):
        folder = home.logs / "airflow" / "dag_id=ackbench_quick" / f"run_id={name}"
        folder.mkdir(parents=True)
        (folder / "attempt=1.log").write_text("x")
        then = time.time() - age_days * DAY_S
        os.utime(folder, (then, then))
    return home


def test_old_logs_of_airflow_are_removed(airflow_logs: Home, says: Says) -> None:
    """Those of younger runs stay."""
    lines = list(delete_history(airflow_logs, time.time() - 90 * DAY_S))
    left = {path.name for path in (airflow_logs.logs / "airflow").glob("*/*")}
    assert left == {"run_id=new"}
    says(lines)


def test_a_database_without_old_runs_is_left_alone(tmp_path: Path) -> None:
    """Airflow is not even started, which takes seconds."""
    home = Home(tmp_path)
    home.airflow.mkdir()
    with closing(sqlite3.connect(home.airflow / "airflow.db")) as database:
        database.execute("CREATE TABLE dag_run (start_date TEXT, run_after TEXT)")
        database.execute("INSERT INTO dag_run VALUES ('2026-01-01 00:00:00', NULL)")
        database.commit()
    assert list(delete_history(home, BEGIN_S - DAY_S)) == []
