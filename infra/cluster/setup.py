"""Makes a kind of cluster ready to be provisioned at once: its jars, a formatted folder, and its programs' start-up caches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from infra.cluster.local import provision_with
from infra.jvm.startup_cache import StartupCache
from infra.kafka.commands import broker_startup_cache, launch_spec, zookeeper_startup_cache
from infra.kafka.jars import has_cached_jars, kafka_jars
from infra.kafka.spec import ClusterSpec, LaunchSpec

_END_TIMEOUT_S: Final = 60.0


def ensure_kafka_ready(cache: Path, spec: ClusterSpec, say: Callable[[str], None]) -> None:
    """Make what is missing, or was made for another JVM, other jars or other flags; costs next to nothing when nothing is.

    Args:
        cache: the home's cache folder.
        spec: of the cluster; its version, what holds its metadata and its features matter.
        say: tells a person what takes long.

    Raises:
        InputError: the version is none.
        MachineError: its jars cannot be had.
        HarnessError: a broker to learn from did not start or end.
    """
    version = spec.kafka_version
    if not has_cached_jars(cache, version):
        say(f"fetching the jars of Kafka {version} (once; about a minute)")
        kafka_jars(cache, version)
    launch = launch_spec(cache, spec)
    if any(not made.fresh for made in _caches(cache, spec)):
        with_what = " with ZooKeeper" if spec.coordination == "zookeeper" else ""
        say(f"making the start-up cache of Kafka {version}{with_what} (once; about 10 seconds)")
        _train(cache, spec, launch)


def with_options(launch: LaunchSpec, options: tuple[str, ...]) -> LaunchSpec:
    """Return a launch whose brokers' JVM gets more options."""
    return replace(launch, command=_with_options(launch.command, options))


def _caches(cache: Path, spec: ClusterSpec) -> tuple[StartupCache, ...]:
    """Of its brokers, and of its ZooKeeper servers where it has any."""
    broker = broker_startup_cache(cache, spec)
    return (
        (broker, zookeeper_startup_cache(cache, spec))
        if spec.coordination == "zookeeper"
        else (broker,)
    )


def _with_options(command: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...]:
    java, *rest = command
    return (java, *options, *rest)


def _train(cache: Path, spec: ClusterSpec, launch: LaunchSpec) -> None:
    """Run the smallest such cluster for real and stop it cleanly. Three nodes under load made a cache that is 4 % larger and no faster."""
    smallest = ClusterSpec(
        nodes=1,
        kafka_version=spec.kafka_version,
        coordination=spec.coordination,
        zookeepers=min(1, spec.zookeepers),
    )
    with (
        tempfile.TemporaryDirectory(prefix="training-", dir=cache) as clusters,
        ExitStack() as trainings,
    ):
        options = [trainings.enter_context(made.training()) for made in _caches(cache, spec)]
        learning = with_options(launch, options[0])
        if launch.zookeeper:
            learning = replace(learning, zookeeper=_with_options(launch.zookeeper, options[1]))
        _run_once(Path(clusters), smallest, learning)


def _run_once(clusters: Path, spec: ClusterSpec, launch: LaunchSpec) -> None:
    cluster = provision_with(clusters, "smallest", spec, launch)
    try:
        for member in cluster.status():
            cluster.stop(member.node_id, timeout_s=_END_TIMEOUT_S)
    finally:
        cluster.destroy()
