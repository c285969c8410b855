"""Real clusters for tests: one per module, which is healthy again before each test."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.external_brokers import PASSWORD, VARIABLE
from support.set_up_home import SET_UP

from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.cluster.setup import ensure_kafka_ready
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

AWKWARD = (
    "clusters in a folder, with a näme that alone is längér than the 108 bytes that the address "
    "of a Unix socket may have"
)


@pytest.fixture(scope="session")
def cache() -> Path:
    """Jars and JVM startup caches of the home in use, made where they are missing."""
    folder = SET_UP.cache
    ensure_kafka_ready(folder, ClusterSpec(), print)
    return folder


@pytest.fixture
def home(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with the jars of the session's; an external cluster's password is set."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.cache.symlink_to(cache)
    return home


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    """A folder for a test's own clusters, with a name that breaks careless code."""
    folder = tmp_path / AWKWARD
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def shared_cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes, shared by the tests of a module."""
    cluster = provision(
        tmp_path_factory.mktemp("clusters") / AWKWARD, cache, "shared", ClusterSpec()
    )
    yield cluster
    cluster.destroy()


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The module's cluster, healthy; what a test does to it is undone afterwards."""
    shared_cluster.wait_until_healthy()
    yield shared_cluster
    for name in shared_cluster.active_impairments():
        shared_cluster.heal(name)
    for node_id in shared_cluster.node_ids():
        shared_cluster.resume(node_id)
        shared_cluster.start(node_id)


@pytest.fixture
def make_topic(cluster: LocalCluster) -> Callable[[int, int], str]:
    """Makes a topic of so many partitions and replicas; returns its name once it is healthy."""

    def make(partitions: int, replicas: int) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(timeout=30)
        cluster.wait_until_healthy()
        return name

    return make
