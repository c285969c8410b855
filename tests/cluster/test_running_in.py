"""New brokers are slow until they are run in."""

from pathlib import Path
from statistics import median

import pytest

from experiments.clients.librdkafka import warm_up
from infra.cluster.local import provision
from infra.kafka.spec import ClusterSpec

pytestmark = pytest.mark.cluster


def test_a_new_cluster_gets_faster_while_it_is_run_in_and_keeps_nothing_of_it(
    cache: Path, clusters: Path
) -> None:
    """The same rounds on the same brokers, the first beside those at the end, however slow the machine is; the topic is gone."""
    cluster = provision(clusters, cache, "new", ClusterSpec())
    try:
        rounds = warm_up.warm_up_brokers(cluster)
        assert len(rounds) == warm_up.ROUNDS
        assert median(rounds[-3:]) < rounds[0]
        assert cluster.describe([warm_up.TOPIC]).of(warm_up.TOPIC) == ()
    finally:
        cluster.destroy()
