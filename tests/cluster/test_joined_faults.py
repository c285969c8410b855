"""Two faults that strike the same node of a real cluster: neither undoes the other, each has its own evidence, and the cluster is whole in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from experiments.events.clock import now_ns
from experiments.events.journal import Journal
from experiments.faults import FaultContext
from experiments.faults.composition.execution import inject
from experiments.planning.experiment import parse_experiment
from experiments.planning.faults import fault_request
from experiments.trial.metadata_poller import MetadataPoller
from infra.cluster.local import LocalCluster

pytestmark = pytest.mark.cluster

EXPERIMENT: Final = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)
SCHEDULE: Final = (
    "(node-pause(node={0}, at_s=0.2, pause_s=2) & node-pause(node={0}, at_s=0.4, pause_s=7) & node-crash(node={0}, at_s=3, restart_after_s=1))"
    " >> crash-in-recovery(at_s=0.1, down_s=0.1, restart_after_s=1, recovers_within_s=60, patience_s=30)"
)
"""The shorter pause ends within the longer one, and the crash falls into that."""


def test_joined_faults_on_one_node_heal(
    cluster: LocalCluster, make_topic: Callable[[int, int], str]
) -> None:
    """It stands still for one and for another, is killed meanwhile, is started once, is killed and killed again: each says what it saw."""
    topic, journal = make_topic(1, 3), Journal()
    (partition,) = cluster.describe([topic]).of(topic)
    fault = fault_request(EXPERIMENT, SCHEDULE.format(partition.leader), {})
    with MetadataPoller(cluster, topic, journal):
        shorter, longer, crash, again = (
            one.evidence
            for one in inject(
                fault, FaultContext(cluster, topic, now_ns(), journal, client_timeout_s=0.1)
            )
        )
    assert not journal.events("fault_resume"), (
        "neither pause may end the other, and a killed node is not told to go on"
    )
    assert (shorter.took_effect, longer.took_effect) == (True, False), (
        "the crash cut the longer pause short, which says so"
    )
    assert (crash.took_effect, again.took_effect) == (True, True), (crash.evidence, again.evidence)
    cluster.wait_until_healthy()
    assert {node.state for node in cluster.status()} == {"running"}
