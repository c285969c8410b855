"""A sweep is followed from trial to trial; what is not known of one is unknown, not 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders.live_trials import BEGIN_NS, MS, a_running_sweep, begin_trial
from support.golden_files import Says

from ackbench.experiments.pages.live import reader as live_reader
from ackbench.experiments.pages.live.files import DATA, LOCK, PAGE, live_folder
from ackbench.experiments.pages.live.reader import LiveReader
from ackbench.experiments.pages.live.sweep import LiveSweep, SweepFollower, sweep_under_way
from ackbench.experiments.sweep.folder import REASON, SweepFolder
from ackbench.experiments.sweep.lock import SweepLock
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import Home

from .conftest import cell_spec, end_trial, plant_events, plant_load


def test_the_trial_under_way_is_the_one_that_the_sweep_reports(live: LiveSweep) -> None:
    """With its place in the plan; the first one has ended."""
    assert live.trial is not None
    assert (live.trial.spec.trial_id, live.number) == ("001-abcdef", 2)
    assert (live.progress.done, live.progress.total, live.stage) == (1, 4, "trial")


def test_a_trial_that_was_not_followed_has_what_its_record_has(live: LiveSweep) -> None:
    """Its clients' files are gone: how many were acknowledged is known after the measuring."""
    (ended,) = live.ended
    assert (ended.number, ended.outcome) == (1, "sealed")
    assert (ended.in_log, ended.acked, ended.read) == (10_000, None, None)


def test_a_trial_that_was_followed_keeps_its_last_figures(home: Home) -> None:
    """Also those that were written after the reading before."""
    sweep = SweepFolder(home.sweeps / "quick-20260101T000000-abcd")
    follower = SweepFollower(sweep)
    follower.read()
    end_trial(sweep, cell_spec(1), "node 1 exited")
    sweep.report_activity("provision")
    live = follower.read()
    assert live.trial is not None
    assert not live.trial.running
    assert [(one.number, one.acked) for one in live.ended] == [(2, 6997), (1, None)]
    begin_trial(sweep, cell_spec(2))
    live = follower.read()
    assert live.trial is not None
    assert (live.trial.running, live.number, live.trial.figures) == (True, 3, None)
    follower.close()


def test_a_failed_trial_has_its_reason_until_it_is_run_again(home: Home) -> None:
    """`ackbench run --resume` runs it again."""
    sweep = SweepFolder(home.sweeps / "quick-20260101T000000-abcd")
    follower = SweepFollower(sweep)
    failed = sweep.failed("003-abcdef")
    failed.mkdir()
    (failed / REASON).write_text("node 3 exited\n")
    assert follower.read().ended[0].remark == "node 3 exited"
    assert follower.read().ended[0].outcome == "failed"
    end_trial(sweep, cell_spec(3), "node 1 exited")
    assert follower.read().ended[0].outcome == "sealed"
    follower.close()


def test_the_sweep_under_way_is_the_one_that_a_process_runs(home: Home) -> None:
    """`ackbench up` shows whichever runs."""
    sweep = SweepFolder(home.sweeps / "quick-20260101T000000-abcd")
    assert sweep_under_way(home) is None
    with SweepLock(home, sweep):
        assert sweep_under_way(home) == sweep
        sweep.report_activity("done")
        assert sweep_under_way(home) is None


def test_what_an_earlier_run_reported_is_over(home: Home) -> None:
    """It was killed in a trial; the run that resumes the sweep starts Airflow first."""
    sweep = SweepFolder(home.sweeps / "quick-20260101T000000-abcd")
    activity = sweep.activity()
    assert activity is not None
    live = SweepFollower(sweep, activity.since_ns + 1).read()
    assert (live.trial, live.stage, live.activity) == (None, "start", "starting")


# The reader


def test_the_reader_writes_the_page_of_its_sweep(home: Home) -> None:
    """Both files; at the end it says that the run has ended."""
    reader = LiveReader(home, "quick-20260101T000000-abcd")
    SweepFolder(home.sweeps / "quick-20260101T000000-abcd").report_activity(
        "trial", "load", "001-abcdef"
    )
    reader.tick()
    assert "Trial 2 of 4" in (live_folder(home) / PAGE).read_text()
    reader.tick(over=True)
    assert "The run has ended." in (live_folder(home) / DATA).read_text()
    reader.close()


def test_the_page_itself_is_written_less_often_than_its_data(home: Home) -> None:
    """Half of the reader's cost would be writing what no open page loads."""
    reader = LiveReader(home, None)
    reader.tick()
    (live_folder(home) / PAGE).write_text("untouched")
    (live_folder(home) / DATA).write_text("untouched")
    reader.tick()
    assert (live_folder(home) / PAGE).read_text() == "untouched"
    assert (live_folder(home) / DATA).read_text() != "untouched"
    reader.close()


def test_a_run_that_failed_says_why(home: Home) -> None:
    """As `verify` reports it."""
    sweep = SweepFolder(home.sweeps / "quick-20260101T000000-abcd")
    reader = LiveReader(home, sweep.sweep_id)
    sweep.report_activity("failed", "3 of 4 trials are missing")
    reader.tick(over=True)
    page = (live_folder(home) / PAGE).read_text()
    assert "The run failed: 3 of 4 trials are missing." in page
    reader.close()


def test_without_a_sweep_the_reader_follows_whichever_runs(home: Home) -> None:
    """Between two sweeps the page shows the end of the last one."""
    reader = LiveReader(home, None)
    reader.tick()
    assert "No sweep runs now" in (live_folder(home) / PAGE).read_text()
    with SweepLock(home, SweepFolder(home.sweeps / "quick-20260101T000000-abcd")):
        reader.tick()
        assert "Trial 2 of 4" in (live_folder(home) / PAGE).read_text()
    reader.tick()
    assert "The run has ended" in (live_folder(home) / PAGE).read_text()
    reader.close()


def test_a_second_reader_of_a_home_leaves_the_page_alone(home: Home) -> None:
    """Its sweep waits for the machine; it takes over when the first one ends."""
    live_folder(home).mkdir(parents=True)
    lock = try_lock(live_folder(home) / LOCK)
    reader = LiveReader(home, "quick-20260101T000000-abcd")
    reader.tick()
    assert not (live_folder(home) / PAGE).exists()
    assert lock is not None
    lock.close()
    reader.tick()
    assert (live_folder(home) / PAGE).is_file()
    reader.close()


def test_a_failure_is_logged_once_and_the_reader_goes_on(
    says: Says, home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, for example: the page is written again once there is room."""
    reader = LiveReader(home, "quick-20260101T000000-abcd")

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr("ackbench.experiments.pages.live.page.replace_file", full)
        for _ in range(3):
            reader.tick()
    says([record.message for record in caplog.records])
    reader.tick()
    assert (live_folder(home) / PAGE).is_file()
    reader.close()


def test_a_sweep_without_a_plan_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader may start before the plan is there."""
    monkeypatch.setattr("time.time_ns", lambda: BEGIN_NS)
    home = Home(tmp_path)
    reader = LiveReader(home, "quick-20260101T000000-abcd")
    reader.tick()
    sweep = a_running_sweep(home.sweeps)  # its activity is no older than the reader
    plant_events(sweep, sweep.plan().trials[0])
    plant_load(sweep.partial("000-abcdef") / "clients", 0.2)
    reader.tick()
    assert reader.latest is not None
    assert reader.latest.trial is not None
    assert reader.latest.trial.figures is not None
    reader.close()


def test_the_constants_of_the_builders_are_a_moment_in_the_past() -> None:
    """So that no planted load is in the future of the clock."""
    assert BEGIN_NS // MS < 1_800_000_000_000
    assert live_reader.EVERY_S == 1.0
