"""The warm-up of new brokers."""

from pathlib import Path
from statistics import median

import pytest

from ackbench.experiments.trial.clients.librdkafka import warm_up
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec

pytestmark = pytest.mark.cluster


@pytest.mark.further
def test_a_new_cluster_gets_faster_during_its_warm_up_and_its_topic_is_deleted(
    cache: Path, clusters: Path
) -> None:
    """The first round is compared with the last ones on the same brokers."""
    cluster = provision(clusters, cache, "new", ClusterSpec(nodes=1))
    try:
        rounds = warm_up.warm_up_brokers(cluster)
        assert len(rounds) == warm_up.ROUNDS
        assert median(rounds[-3:]) < rounds[0]
        assert cluster.describe([warm_up.TOPIC]).of(warm_up.TOPIC) == ()
    finally:
        cluster.destroy()
