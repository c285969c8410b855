"""Locks of trials: one process at a time has a trial, on whichever host."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ackbench.experiments.ledger.location import Location, open_location
from ackbench.experiments.messages.errors import StorageError
from ackbench.experiments.sweep import trial_lock
from ackbench.experiments.sweep.trial_lock import (
    LockLost,
    TrialLock,
    TrialLocked,
    read_locks,
    release_abandoned,
    release_lock,
    require_lock,
    take_lock,
)
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity

TRIAL = "007-a1b2c3"
FIRST, LAST = "0", "f" * 17
"""Tokens that go before and after all others."""
ELSEWHERE = MachineIdentity(host="kafka-2", boot_id="another", pid_namespace="pid:[1]")


@pytest.fixture
def sweep(tmp_path: Path) -> Location:
    """Return the place of a sweep's locks."""
    return open_location((tmp_path / "sweep").as_uri())


def written(sweep: Location, **fields: object) -> TrialLock:
    """Write a lock of another process, with these fields."""
    lock = TrialLock.own(TRIAL).model_copy(update=fields)
    sweep.write(lock.name, lock.model_dump_json().encode())
    return lock


def test_a_trial_is_locked_once(sweep: Location) -> None:
    """Until the lock is released; other trials are free."""
    first = take_lock(sweep, TRIAL)
    assert first is not None
    assert take_lock(sweep, TRIAL) is None
    assert take_lock(sweep, "008-a1b2c3") is not None
    release_lock(sweep, first)
    assert take_lock(sweep, TRIAL) is not None


def test_of_processes_that_lock_at_the_same_time_at_most_one_has_the_trial(
    sweep: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 40 rounds of 8; those without it leave nothing behind."""
    monkeypatch.setattr(trial_lock, "_WITHDRAW_S", 2.0)
    monkeypatch.setattr(trial_lock, "_POLL_S", 0.001)
    trials = [f"{number:03d}-abcdef" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for trial_id in trials:
            taken = [one for one in pool.map(lambda t: take_lock(sweep, t), [trial_id] * 8) if one]
            left = [lock for lock in read_locks(sweep) if lock.trial_id == trial_id]
            assert len(taken) <= 1
            assert left == taken


def test_the_one_that_goes_first_waits_until_the_other_has_withdrawn(
    sweep: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that of two at the same time one has the trial."""
    rival: list[TrialLock] = []
    listed = trial_lock._listed

    def list_with_a_rival(place: Location) -> list[tuple[str, str]]:
        found = list(listed(place))
        if found and not rival:
            rival.append(written(sweep, token=LAST))
            return list(listed(place))
        for lock in rival:
            sweep.delete(lock.name)
        return found

    monkeypatch.setattr(trial_lock, "_listed", list_with_a_rival)
    assert take_lock(sweep, TRIAL) is not None
    assert rival


def test_the_one_that_does_not_go_first_withdraws(
    sweep: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves no lock."""
    rival: list[TrialLock] = []
    listed = trial_lock._listed

    def list_with_a_rival(place: Location) -> list[tuple[str, str]]:
        if list(listed(place)) and not rival:
            rival.append(written(sweep, token=FIRST))
        return list(listed(place))

    monkeypatch.setattr(trial_lock, "_listed", list_with_a_rival)
    assert take_lock(sweep, TRIAL) is None
    assert read_locks(sweep) == rival


def test_a_lock_names_host_boot_process_and_dag_run(
    sweep: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the message to the one who resumes the sweep."""
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "ackbench_sweep")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    take_lock(sweep, TRIAL)
    (lock,) = read_locks(sweep)
    assert (lock.machine, lock.process) == (MachineIdentity.own(), ProcessIdentity.own())
    other = lock.model_copy(update={"machine": ELSEWHERE})
    run = "(Airflow's run ackbench_sweep/manual__1)"
    assert other.describe() == f"process {lock.process.pid} on the host kafka-2 {run}"


def test_resuming_releases_the_lock_of_a_killed_process(sweep: Location) -> None:
    """Its pid may be another process's by now."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        lock = written(sweep, process=ProcessIdentity.of(process.pid))
        with pytest.raises(TrialLocked, match=f"{TRIAL} is locked by process {process.pid}: "):
            release_abandoned(sweep)
        assert read_locks(sweep) == [lock]
        process.kill()
        process.wait()
        assert release_abandoned(sweep) == [lock]
    assert read_locks(sweep) == []


def test_resuming_releases_the_lock_of_another_host(sweep: Location) -> None:
    """Nothing is known here of its process; if that lives, it finds that its lock is lost."""
    lock = written(sweep, machine=ELSEWHERE, process=ProcessIdentity.own())
    require_lock(sweep, lock)
    assert release_abandoned(sweep) == [lock]
    with pytest.raises(LockLost, match=f"trial {TRIAL}: its lock was released while it ran"):
        require_lock(sweep, lock)


def test_the_lock_of_a_process_before_a_restart_is_not_held(sweep: Location) -> None:
    """The same host and pid after another boot is another process."""
    own = MachineIdentity.own()
    written(sweep, machine=replace(own, boot_id="earlier"), process=ProcessIdentity.own())
    assert [lock.is_held() for lock in read_locks(sweep)] == [False]


def test_a_damaged_lock_is_named(sweep: Location) -> None:
    """With the remedy, and no other process gets the trial."""
    sweep.write(f"claims/{TRIAL}.00.json", b"")
    assert take_lock(sweep, TRIAL) is None
    with pytest.raises(StorageError, match=rf"claims/{TRIAL}\.00\.json in .* is damaged: delete"):
        release_abandoned(sweep)


def test_a_lock_names_no_other_file_that_its_release_would_delete(
    sweep: Location, tmp_path: Path
) -> None:
    """Who can write the store could have any file deleted whose name has two dots."""
    victim = tmp_path / "victim.00.json"
    victim.touch()
    lock = TrialLock.own("../../victim").model_copy(
        update={"token": "00", "machine": ELSEWHERE, "process": ProcessIdentity(1, 1)}
    )
    sweep.write(f"claims/{TRIAL}.00.json", lock.model_dump_json().encode())
    with pytest.raises(StorageError, match=rf"claims/{TRIAL}\.00\.json in .* is damaged"):
        release_abandoned(sweep)
    assert victim.exists()


def test_a_store_that_refuses_is_one_line(tmp_path: Path) -> None:
    """And no lock is taken."""
    (tmp_path / "store").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match=r"sweep/claims cannot be read"):
        take_lock(open_location(f"{(tmp_path / 'store').as_uri()}/sweep"), TRIAL)
