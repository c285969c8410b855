"""How clusters end: by request, with their holders, with their supervisors, and by clean-up."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ackbench.infra.cluster.cleaning import IN_USE, CleanReport, clean
from ackbench.infra.cluster.handle import ClusterHandle, read_handle
from ackbench.infra.cluster.local import LocalCluster, attach, destroy, provision
from ackbench.infra.cluster.supervisor_protocol import SOCKET
from ackbench.infra.errors import InputError, NodeFailed, SupervisorError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.process.processes import kill_and_wait, send_signal
from ackbench.infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
ONE_NODE = ClusterSpec(nodes=1)
HOLD = (
    "import sys, time; from pathlib import Path\n"
    "from ackbench.infra.kafka.spec import ClusterSpec\n"
    "from ackbench.infra.cluster.local import provision\n"
    "clusters, cache, grace_s = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])\n"
    "provision(clusters, cache, 'held', ClusterSpec(nodes=1), grace_s)\n"
    "print('healthy', flush=True); sys.stdin.read()"
)


@contextmanager
def _other_holder(
    clusters: Path, cache: Path, grace_s: float = 0
) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has provisioned the cluster `held` and waits."""
    command = [sys.executable, "-c", HOLD, str(clusters), str(cache), str(grace_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "healthy\n"
        yield process
        process.kill()


def _await_end(handle: ClusterHandle, timeout_s: float = 10) -> None:
    assert len(handle.processes()) == 1 + handle.spec.nodes
    wait_until(
        lambda: not any(p.is_alive() for p in handle.processes()),
        awaiting="supervisor and nodes to end",
        timeout_s=timeout_s,
    )


def _data(folder: Path) -> list[Path]:
    return list(folder.glob("nodes/*/data"))


@pytest.fixture
def one_node(clusters: Path, cache: Path) -> Iterator[LocalCluster]:
    """A cluster of one node, not shared with other tests."""
    cluster = provision(clusters, cache, "one", ONE_NODE)
    supervisor = read_handle(cluster.folder).supervisor
    assert supervisor
    yield cluster
    clean(clusters, include_held=True)
    with suppress(ChildProcessError):  # `destroy` has waited for it
        os.waitpid(supervisor.pid, 0)


@pytest.mark.further
def test_a_destroyed_cluster_leaves_only_its_logs(one_node: LocalCluster, clusters: Path) -> None:
    """No process, data or socket; a second destroy has no effect, and `clean` removes the logs."""
    handle = read_handle(one_node.folder)
    one_node.destroy()
    _await_end(handle)
    assert (_data(one_node.folder), (one_node.folder / SOCKET).exists()) == ([], False)
    assert one_node.node_log(1).is_file()
    destroy(one_node.folder)
    assert clean(clusters).removed == ("one",)


def test_the_nodes_end_with_their_supervisor(one_node: LocalCluster, clusters: Path) -> None:
    """SIGKILL gives it no chance to end them; `clean` removes its folder, then finds nothing."""
    handle = read_handle(one_node.folder)
    one_node.pause(1)
    assert handle.supervisor
    kill_and_wait(handle.supervisor)
    _await_end(handle)
    with pytest.raises(SupervisorError, match="cannot reach the supervisor"):
        one_node.status()
    assert clean(clusters, include_held=True).removed == ("one",)
    assert clean(clusters) == CleanReport()


@pytest.mark.further
def test_a_cluster_is_destroyed_although_its_supervisor_is_dead(one_node: LocalCluster) -> None:
    """The handle on disk is enough."""
    handle = read_handle(one_node.folder)
    assert handle.supervisor
    kill_and_wait(handle.supervisor)
    destroy(one_node.folder)
    _await_end(handle)
    assert _data(one_node.folder) == []


@pytest.mark.further
def test_sigterm_to_the_supervisor_destroys_the_cluster(one_node: LocalCluster) -> None:
    """The nodes end and their data are removed."""
    handle = read_handle(one_node.folder)
    assert handle.supervisor
    assert send_signal(handle.supervisor, signal.SIGTERM)
    _await_end(handle)
    assert (_data(one_node.folder), read_handle(one_node.folder).supervisor) == ([], None)


def test_a_cluster_ends_with_a_run_that_is_killed(clusters: Path, cache: Path) -> None:
    """The only holder was killed and has no grace: all processes end, and only logs are left."""
    with _other_holder(clusters, cache) as holder:
        handle = read_handle(clusters / "held")
        holder.kill()
        _await_end(handle)
    assert _data(clusters / "held") == []
    assert clean(clusters).killed == ()


@pytest.mark.further
def test_a_grace_lets_another_process_become_the_holder(clusters: Path, cache: Path) -> None:
    """A cluster outlives the process that provisioned it; another one uses and destroys it."""
    with _other_holder(clusters, cache, grace_s=60) as holder:
        holder.kill()
    cluster = attach(clusters / "held")
    assert clean(clusters).kept == {"held": IN_USE}
    assert cluster.wait_until_healthy().brokers == (1,)
    cluster.destroy()


@pytest.mark.further
def test_a_cluster_between_two_tasks_is_kept_unless_its_run_has_ended(
    clusters: Path, cache: Path
) -> None:
    """Its last holder has ended and its grace lasts: the next task of a scheduler takes it."""
    with _other_holder(clusters, cache, grace_s=60) as holder:
        handle = read_handle(clusters / "held")
        holder.kill()
    assert clean(clusters).kept == {"held": IN_USE}
    report = clean(clusters, ended=("held",))
    assert (report.removed, bool(report.killed)) == (("held",), True)
    _await_end(handle)


@pytest.mark.further
def test_two_clusters_start_at_once(clusters: Path, cache: Path) -> None:
    """They share no port, and the end of one does not affect the other."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(
            lambda name: provision(clusters, cache, name, ONE_NODE), ["first", "second"]
        )
    assert first.bootstrap_servers != second.bootstrap_servers
    first.destroy()
    assert second.wait_until_healthy().brokers == (1,)
    second.destroy()


def test_a_node_that_does_not_start_is_an_error_with_its_own_log(
    clusters: Path, cache: Path
) -> None:
    """The broker's own reason is in the message, and no process is left."""
    with pytest.raises(NodeFailed, match="Invalid value many for configuration log"):
        provision(
            clusters, cache, "wrong", ClusterSpec(nodes=1, broker={"log.retention.hours": "many"})
        )
    assert (_data(clusters / "wrong"), read_handle(clusters / "wrong").supervisor) == ([], None)


def test_a_name_that_is_in_use_is_refused(clusters: Path, cache: Path) -> None:
    """The cluster that has the name is not affected."""
    (clusters / "taken").mkdir()
    with pytest.raises(InputError, match=r"cluster folder .* already exists"):
        provision(clusters, cache, "taken", ONE_NODE)
