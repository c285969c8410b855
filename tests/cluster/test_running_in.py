"""New brokers are slow until they are run in."""

from pathlib import Path
from statistics import median

import pytest

from experiments.clients import running_in
from infra.cluster_spec import ClusterSpec
from infra.local import provision

pytestmark = pytest.mark.cluster


def test_a_new_cluster_gets_faster_while_it_is_run_in_and_keeps_nothing_of_it(cache: Path, clusters: Path) -> None:
    """The same rounds on the same brokers, the first beside those at the end, however slow the machine is; the topic is gone."""
    cluster = provision(clusters, cache, "new", ClusterSpec())
    try:
        rounds = running_in.run_in(cluster)
        assert len(rounds) == running_in.ROUNDS
        assert median(rounds[-3:]) < rounds[0]
        assert cluster.describe([running_in.TOPIC]).of(running_in.TOPIC) == ()
    finally:
        cluster.destroy()
