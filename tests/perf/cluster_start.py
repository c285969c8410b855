"""The start time of a cluster with and without start-up caches.

Both alternate, so that the machine's other load affects both.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from statistics import median

from ackbench.infra.cluster.local import provision_with
from ackbench.infra.kafka.commands import launch_spec
from ackbench.infra.kafka.spec import ClusterSpec, LaunchSpec
from ackbench.infra.machine.home import Home


@dataclass(frozen=True)
class Starts:
    """Seconds to a healthy cluster of three nodes, per round."""

    with_caches_s: tuple[float, ...]
    without_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Time without caches, divided by the time with them."""
        return median(self.without_s) / median(self.with_caches_s)


def cluster_starts(home: Home, rounds: int = 3) -> Starts:
    """Provision and destroy clusters, alternately with and without caches."""
    launch = launch_spec(home.cache, ClusterSpec())
    without_caches = replace(
        launch,
        command=tuple(word for word in launch.command if not word.startswith("-XX:AOTCache")),
    )
    pairs = [(_seconds(home, launch), _seconds(home, without_caches)) for _ in range(rounds)]
    return Starts(
        tuple(with_caches for with_caches, _ in pairs), tuple(without for _, without in pairs)
    )


def _seconds(home: Home, launch: LaunchSpec) -> float:
    begin = time.monotonic()
    cluster = provision_with(
        home.clusters, f"perf-start-{uuid.uuid4().hex[:6]}", ClusterSpec(), launch
    )
    taken_s = time.monotonic() - begin
    cluster.destroy()
    return taken_s
