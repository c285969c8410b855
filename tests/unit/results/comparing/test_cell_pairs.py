"""Which settings of two trials are compared."""

from __future__ import annotations

from dataclasses import replace

from support.builders.records import a_spec

from ackbench.experiments.results.comparing.cell_pairs import comparable_settings
from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, TrialSpec

LOCAL = ClusterNeed(kafka_version="4.3.1")
EXTERNAL = ExternalAccess(addresses="kafka-1.example:9092")
REPORTED = {
    **LOCAL.settings(),
    "broker.session.timeout.ms": "18000",
    "num.io.threads": "8",
    "listeners": "PLAINTEXT://kafka-1.example:9092",
}


def differing(a: TrialSpec, b: TrialSpec) -> set[tuple[str, str]]:
    """Return scope and name of the settings that differ."""
    one, other = comparable_settings(a, b)
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def test_of_an_external_and_a_local_cluster_the_settings_are_compared_that_both_have() -> None:
    """One reports all settings of a broker, the other has those that ackbench sets."""
    external = replace(LOCAL, external=EXTERNAL, broker=REPORTED)
    local, other = a_spec(cluster=LOCAL), a_spec(cluster=external)
    assert differing(local, other) == {("broker", "broker.session.timeout.ms")}
    assert differing(other, local) == {("broker", "broker.session.timeout.ms")}


def test_a_setting_of_a_local_cluster_that_an_external_one_does_not_report_is_unknown() -> None:
    """It refused DescribeConfigs; nothing is assumed."""
    external = replace(LOCAL, external=EXTERNAL)
    assert differing(a_spec(cluster=LOCAL), a_spec(cluster=external)) == set()


def test_two_external_clusters_differ_in_all_that_they_report() -> None:
    """A setting that one does not have is a difference."""
    one = replace(LOCAL, external=EXTERNAL, broker=REPORTED)
    other = replace(one, broker={**REPORTED, "num.io.threads": "9"})
    less = replace(one, broker=LOCAL.settings())
    assert differing(a_spec(cluster=one), a_spec(cluster=other)) == {("broker", "num.io.threads")}
    assert ("broker", "listeners") in differing(a_spec(cluster=one), a_spec(cluster=less))
