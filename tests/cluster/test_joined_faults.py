"""Composite faults with the same target on a real cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from ackbench.experiments.events.clock import now_ns
from ackbench.experiments.events.journal import Journal
from ackbench.experiments.faults import FaultContext
from ackbench.experiments.faults.composition.execution import inject
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.faults import fault_request
from ackbench.experiments.trial.metadata_poller import MetadataPoller
from ackbench.infra.cluster.local import LocalCluster

pytestmark = pytest.mark.cluster

EXPERIMENT: Final = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)
SCHEDULE: Final = (
    "(node-pause(node={0}, at_s=0.2, pause_s=2) & node-pause(node={0}, at_s=0.4, pause_s=7)"
    " & node-crash(node={0}, at_s=3, restart_after_s=1))"
    " >> crash-in-recovery(at_s=0.1, down_s=0.1, restart_after_s=1, recovers_within_s=60,"
    " patience_s=30)"
)
"""The shorter pause ends during the longer one, and the crash happens during that one."""


def test_overlapping_faults_on_one_node_heal(
    cluster: LocalCluster, make_topic: Callable[[int, int], str]
) -> None:
    """The cluster is healthy afterwards, and each fault has its own evidence.

    The node is paused twice, crashes meanwhile and is started once; then it crashes, and crashes
    again while it recovers.
    """
    topic, journal = make_topic(1, 3), Journal()
    (partition,) = cluster.describe([topic]).of(topic)
    fault = fault_request(EXPERIMENT, SCHEDULE.format(partition.leader), {})
    with MetadataPoller(cluster, topic, journal):
        shorter, longer, crash, second_crash = (
            one.evidence
            for one in inject(
                fault, FaultContext(cluster, topic, now_ns(), journal, client_timeout_s=0.1)
            )
        )
    assert not journal.events("fault_resume"), (
        "no pause may end the other one, and a crashed node is not resumed"
    )
    assert (shorter.took_effect, longer.took_effect) == (True, False), (
        "the crash ended the longer pause early, so that pause had no effect"
    )
    assert (crash.took_effect, second_crash.took_effect) == (True, True), (
        crash.evidence,
        second_crash.evidence,
    )
    cluster.wait_until_healthy()
    assert {node.state for node in cluster.status()} == {"running"}
