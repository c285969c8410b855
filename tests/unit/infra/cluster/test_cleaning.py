"""What `clean` removes: clusters of ackbench that no process uses, on this machine or elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ackbench.infra.cluster.cleaning import IN_USE, CleanReport, clean, require_own_machine
from ackbench.infra.cluster.handle import LOCK_FILE, ClusterHandle, LeaseHolder
from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.spec import ClusterSpec, LaunchSpec, NodeStatus
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity

GONE = ProcessIdentity(2**22, 1)
CONTAINER = replace(MachineIdentity.own(), host="c0ffee", pid_namespace="pid:[1]")
OTHER_HOST = MachineIdentity("elsewhere", "0", "pid:[4026531836]")
BEFORE_REBOOT = replace(OTHER_HOST, host=MachineIdentity.own().host)


def a_cluster(
    clusters: Path,
    name: str,
    holder: ProcessIdentity = GONE,
    supervisor: ProcessIdentity | None = GONE,
    machine: MachineIdentity | None = None,
    grace_s: float = 0,
    lease_ends_s: float = 0,
) -> Path:
    """Write the handle of a cluster of one node into its folder."""
    folder = clusters / name
    (folder / "nodes" / "1" / "data").mkdir(parents=True)
    ClusterHandle(
        name,
        "id",
        ClusterSpec(),
        LaunchSpec((), ""),
        {},
        (LeaseHolder(holder, grace_s),) if holder else (),
        supervisor,
        (NodeStatus(1, "running", GONE.pid, 2, 1, 2, 3),),
        machine or MachineIdentity.own(),
        lease_ends_s,
    ).write(folder)
    return folder


@contextmanager
def a_process() -> Iterator[ProcessIdentity]:
    """Run a process that does nothing."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield ProcessIdentity.of(process.pid)
        process.kill()


def test_clean_keeps_a_cluster_that_is_being_provisioned(tmp_path: Path) -> None:
    """It has a living holder, although its supervisor has not started yet."""
    a_cluster(tmp_path, "new", ProcessIdentity.own())
    assert clean(tmp_path) == CleanReport(kept={"new": IN_USE})


def test_clean_removes_a_cluster_whose_holder_has_ended(tmp_path: Path) -> None:
    """The pids in its handle may have been reused: the start times differ, so none is killed."""
    a_cluster(tmp_path, "old")
    assert clean(tmp_path) == CleanReport(removed=("old",))
    assert list(tmp_path.iterdir()) == []


def test_clean_keeps_a_cluster_between_two_tasks(tmp_path: Path) -> None:
    """No process holds it, and its supervisor waits for the next task of a scheduler."""
    with a_process() as supervisor:
        a_cluster(tmp_path, "waits", supervisor=supervisor, lease_ends_s=1e18)
        a_cluster(tmp_path, "ending", supervisor=supervisor, grace_s=120)
        assert clean(tmp_path).kept == {"ending": IN_USE, "waits": IN_USE}
        assert supervisor.is_alive()


def test_clean_removes_a_cluster_whose_grace_is_over(tmp_path: Path) -> None:
    """The supervisor should have ended it; it is killed."""
    with a_process() as supervisor:
        a_cluster(tmp_path, "over", supervisor=supervisor, lease_ends_s=1)
        assert clean(tmp_path) == CleanReport(removed=("over",), killed=(supervisor,))


def test_clean_removes_a_cluster_between_two_tasks_of_a_run_that_has_ended(tmp_path: Path) -> None:
    """And keeps one without a process whose run goes on."""
    with a_process() as supervisor:
        a_cluster(tmp_path, "over.001", supervisor=supervisor, lease_ends_s=1e18)
        a_cluster(tmp_path, "runs.001")
        report = clean(tmp_path, ended=["over"], running=["runs"])
    assert report.removed == ("over.001",)
    assert report.kept == {"runs.001": "its run is in progress"}


@pytest.mark.parametrize("force", [False, True])
def test_clean_keeps_the_cluster_of_another_container(tmp_path: Path, force: bool) -> None:
    """Its pids are those of other processes here, and its supervisor has the lock."""
    with a_process() as innocent:
        folder = a_cluster(tmp_path, "theirs", innocent, innocent, CONTAINER)
        with try_lock(folder / LOCK_FILE) or pytest.fail("locked"):
            kept = clean(tmp_path, include_held=force).kept
        assert kept == {"theirs": "it is in use in another container"}
        assert clean(tmp_path) == CleanReport(removed=("theirs",))
        assert innocent.is_alive()


def test_clean_keeps_the_cluster_of_another_host(tmp_path: Path) -> None:
    """A lock does not show whether its supervisor runs; the message names the host."""
    with a_process() as innocent:
        folder = a_cluster(tmp_path, "theirs", innocent, innocent, OTHER_HOST)
        report = clean(tmp_path, include_held=True)
        assert (
            "it was made on the host elsewhere: run `ackbench clean` there" in report.kept["theirs"]
        )
        with pytest.raises(SupervisorError, match="cannot be used or destroyed here: it was made"):
            require_own_machine(folder)
        assert innocent.is_alive()


def test_clean_removes_a_cluster_from_before_a_restart_of_the_machine(tmp_path: Path) -> None:
    """Its pids are those of other processes now: none is killed."""
    with a_process() as innocent:
        a_cluster(tmp_path, "old", innocent, innocent, BEFORE_REBOOT)
        assert clean(tmp_path) == CleanReport(removed=("old",))
        assert innocent.is_alive()


def test_clean_keeps_what_is_not_a_cluster(tmp_path: Path) -> None:
    """A folder of the user's with the name of a cluster, and a link to one."""
    clusters, thesis = tmp_path / "clusters", tmp_path / "thesis"
    (clusters / "notes.001").mkdir(parents=True)
    (clusters / "notes.001" / "todo.txt").touch()
    a_cluster(tmp_path, "thesis")
    (clusters / "linked").symlink_to(thesis)
    (clusters / "begun").mkdir()
    (clusters / "begun" / LOCK_FILE).touch()
    report = clean(clusters, include_held=True)
    assert report.removed == ("begun",)
    assert report.kept == {
        "linked": "it is a link, and nothing is deleted through a link",
        "notes.001": "it has no valid cluster.json: delete it by hand if it is not needed",
    }
    assert (thesis / "nodes" / "1" / "data").is_dir()
