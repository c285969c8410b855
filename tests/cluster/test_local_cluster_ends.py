"""How clusters end: asked to, with their holders, with their supervisors, and by being cleaned up."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.cluster.cleaning import CleanReport, clean
from infra.cluster.handle import ClusterHandle, read_handle
from infra.cluster.local import LocalCluster, attach, destroy, provision
from infra.cluster.supervisor_protocol import SOCKET
from infra.errors import InputError, NodeFailed, SupervisorError
from infra.kafka.spec import ClusterSpec
from infra.process.processes import kill_and_wait, send_signal
from infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
ONE_NODE = ClusterSpec(nodes=1)
HOLD = (
    "import sys, time; from pathlib import Path; from infra.kafka.spec import ClusterSpec; from infra.cluster.local import provision\n"
    "provision(Path(sys.argv[1]), Path(sys.argv[2]), 'held', ClusterSpec(nodes=1), float(sys.argv[3]))\n"
    "print('whole', flush=True); sys.stdin.read()"
)


@contextmanager
def _other_holder(
    clusters: Path, cache: Path, grace_s: float = 0
) -> Iterator[subprocess.Popen[str]]:
    """A process that has provisioned the cluster `held` and waits."""
    command = [sys.executable, "-c", HOLD, str(clusters), str(cache), str(grace_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "whole\n"
        yield process
        process.kill()


def _await_end(handle: ClusterHandle, timeout_s: float = 10) -> None:
    assert len(handle.processes()) == 1 + handle.spec.nodes
    wait_until(
        lambda: not any(p.is_alive() for p in handle.processes()),
        awaiting="the end of supervisor and nodes",
        timeout_s=timeout_s,
    )


def _data(folder: Path) -> list[Path]:
    return list(folder.glob("nodes/*/data"))


@pytest.fixture
def one_node(clusters: Path, cache: Path) -> Iterator[LocalCluster]:
    """A cluster of one node for the test alone."""
    cluster = provision(clusters, cache, "one", ONE_NODE)
    yield cluster
    clean(clusters, include_held=True)


def test_a_destroyed_cluster_leaves_its_logs_alone(one_node: LocalCluster, clusters: Path) -> None:
    """No process, no data, no socket; destroying it again does nothing, and `clean` takes the logs."""
    handle = read_handle(one_node.folder)
    one_node.destroy()
    _await_end(handle)
    assert (_data(one_node.folder), (one_node.folder / SOCKET).exists()) == ([], False)
    assert one_node.node_log(1).is_file()
    destroy(one_node.folder)
    assert clean(clusters).removed == ("one",)


def test_the_nodes_die_with_their_supervisor(one_node: LocalCluster, clusters: Path) -> None:
    """SIGKILL gives it no chance to end them itself; what it leaves on disk is cleaned, and a second time there is nothing."""
    handle = read_handle(one_node.folder)
    one_node.pause(1)
    assert handle.supervisor
    kill_and_wait(handle.supervisor)
    _await_end(handle)
    with pytest.raises(SupervisorError, match="cannot reach the supervisor"):
        one_node.status()
    assert clean(clusters, include_held=True).removed == ("one",)
    assert clean(clusters) == CleanReport()


def test_a_cluster_is_destroyed_though_its_supervisor_is_dead(one_node: LocalCluster) -> None:
    """The handle on disk is enough."""
    handle = read_handle(one_node.folder)
    assert handle.supervisor
    kill_and_wait(handle.supervisor)
    destroy(one_node.folder)
    _await_end(handle)
    assert _data(one_node.folder) == []


def test_sigterm_to_the_supervisor_is_an_orderly_end(one_node: LocalCluster) -> None:
    """It takes its nodes and their data with it."""
    handle = read_handle(one_node.folder)
    assert handle.supervisor
    assert send_signal(handle.supervisor, signal.SIGTERM)
    _await_end(handle)
    assert (_data(one_node.folder), read_handle(one_node.folder).supervisor) == ([], None)


def test_a_killed_run_takes_its_cluster_down(clusters: Path, cache: Path) -> None:
    """The one holder is gone by SIGKILL and no grace was asked for: everything ends, and only logs are left."""
    with _other_holder(clusters, cache) as holder:
        handle = read_handle(clusters / "held")
        holder.kill()
        _await_end(handle)
    assert _data(clusters / "held") == []
    assert clean(clusters).killed == ()


def test_a_grace_lets_the_next_task_take_over(clusters: Path, cache: Path) -> None:
    """A cluster outlives the task that made it, is held by the next one, and ends when that lets go."""
    with _other_holder(clusters, cache, grace_s=60) as holder:
        holder.kill()
    cluster = attach(clusters / "held")
    assert clean(clusters).kept == ("held",)
    assert cluster.wait_until_healthy().brokers == (1,)
    cluster.destroy()


def test_a_cluster_that_nobody_holds_is_cleaned_in_its_grace(clusters: Path, cache: Path) -> None:
    """Its supervisor and node are killed by pid and start time."""
    with _other_holder(clusters, cache, grace_s=60) as holder:
        handle = read_handle(clusters / "held")
        holder.kill()
    report = clean(clusters)
    assert (report.removed, bool(report.killed)) == (("held",), True)
    _await_end(handle)


def test_two_clusters_start_at_once(clusters: Path, cache: Path) -> None:
    """They share no port, and the end of one is nothing to the other."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(
            lambda name: provision(clusters, cache, name, ONE_NODE), ["first", "second"]
        )
    assert first.bootstrap_servers != second.bootstrap_servers
    first.destroy()
    assert second.wait_until_healthy().brokers == (1,)
    second.destroy()


def test_a_node_that_cannot_start_shows_its_own_last_words(clusters: Path, cache: Path) -> None:
    """The broker's own reason is in the error, and nothing is left running."""
    with pytest.raises(NodeFailed, match="Invalid value many for configuration log"):
        provision(
            clusters, cache, "wrong", ClusterSpec(nodes=1, broker={"log.retention.hours": "many"})
        )
    assert (_data(clusters / "wrong"), read_handle(clusters / "wrong").supervisor) == ([], None)


def test_a_name_that_is_taken_is_refused(clusters: Path, cache: Path) -> None:
    """Nothing of the cluster that has it is touched."""
    (clusters / "taken").mkdir()
    with pytest.raises(InputError, match="cluster folder .* already exists"):
        provision(clusters, cache, "taken", ONE_NODE)
