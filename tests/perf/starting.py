"""How long a cluster takes to start, with start-up caches and without, by turns: the machine's weather is the same for both."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from statistics import median

from infra.cluster.local import provision_with
from infra.kafka.commands import launch_spec
from infra.kafka.spec import ClusterSpec, LaunchSpec
from infra.machine.home import Home


@dataclass(frozen=True)
class Starts:
    """Seconds from nothing to a whole cluster of three nodes, each round."""

    with_caches_s: tuple[float, ...]
    without_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times longer it takes without."""
        return median(self.without_s) / median(self.with_caches_s)


def cluster_starts(home: Home, rounds: int = 3) -> Starts:
    """Provision and destroy clusters, by turns with and without."""
    launch = launch_spec(home.cache, ClusterSpec())
    cold = replace(
        launch,
        command=tuple(word for word in launch.command if not word.startswith("-XX:AOTCache")),
    )
    pairs = [(_seconds(home, launch), _seconds(home, cold)) for _ in range(rounds)]
    return Starts(tuple(warm for warm, _ in pairs), tuple(without for _, without in pairs))


def _seconds(home: Home, launch: LaunchSpec) -> float:
    began = time.monotonic()
    cluster = provision_with(
        home.clusters, f"perf-start-{uuid.uuid4().hex[:6]}", ClusterSpec(), launch
    )
    taken_s = time.monotonic() - began
    cluster.destroy()
    return taken_s
