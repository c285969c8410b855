"""New brokers are slow until they are run in."""

from pathlib import Path
from statistics import median

import pytest

from experiments.clients.running_in import TOPIC, run_in
from infra.cluster import ClusterSpec
from infra.local import provision

pytestmark = pytest.mark.cluster


def test_a_new_cluster_gets_faster_while_it_is_run_in_and_keeps_nothing_of_it(cache: Path, clusters: Path) -> None:
    """The same rounds on the same brokers, the first beside those at the end; the topic is gone."""
    cluster = provision(clusters, cache, "new", ClusterSpec())
    try:
        rounds = run_in(cluster)
        assert median(rounds[-3:]) < rounds[0]
        assert cluster.describe([TOPIC]).of(TOPIC) == ()
    finally:
        cluster.destroy()
