"""What a consumer group asks of a cell's settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.clients.group_settings import CLASSIC, CLASSIC_ONLY, PROTOCOL
from experiments.clients.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.plan import ClusterNeed, Workload

_GROUPS_PROTOCOL_SINCE: Final = (4, 0)
"""KIP-848's protocol is there for production from Kafka 4.0 on; 3.9 has it as a preview."""
_AUTO_COMMIT: Final = "enable.auto.commit"
_TRUE: Final = frozenset({"true", "t", "1"})


def refuse_what_groups_lack(client: ClientChoice, workload: Workload, consumer: Mapping[str, str], cluster: ClusterNeed) -> None:
    """See that there can be such groups.

    Raises:
        ExperimentError: there are no members for what is said of them; or they are not librdkafka's, would commit by themselves, or ask for a protocol
            that the cluster, or a setting of theirs, does not know.
    """
    _refuse_what_nobody_is(workload)
    if not workload.members:
        return
    if consumer.get(PROTOCOL, CLASSIC) != CLASSIC:
        _refuse_what_kip_848_lacks(consumer, cluster)
    kind, says = ("copiers", "delivery") if workload.kind == "copy" else ("consumers", "commit")
    members = f"workload.{kind} is {workload.members}"
    if client.kind != "librdkafka":
        raise ExperimentError(f"{members} and client is {client.kind}; allowed: members of librdkafka's, which can be held between processing and committing")
    if consumer.get(_AUTO_COMMIT, "false").lower() in _TRUE:
        raise ExperimentError(f"{members} and {_AUTO_COMMIT} is true; allowed: false, as when a member commits is workload.{says}")


def _refuse_what_nobody_is(workload: Workload) -> None:
    """See that who is said to be slow is there, and that several groups have members."""
    if workload.groups > 1 and not workload.consumers:
        raise ExperimentError(f"workload.groups is {workload.groups} and workload.consumers is 0; allowed: 1 member a group or more")
    if workload.slow_members > workload.members:
        raise ExperimentError(f"workload.slow_members is {workload.slow_members}; allowed: at most the members of a group, which are {workload.members}")
    if bool(workload.slow_members) != bool(workload.slow_records_per_s):
        said = f"workload.slow_members is {workload.slow_members} and workload.slow_records_per_s is {workload.slow_records_per_s:g}"
        raise ExperimentError(f"{said}; allowed: both, or neither")


def _refuse_what_kip_848_lacks(consumer: Mapping[str, str], cluster: ClusterNeed) -> None:
    asked = f"{PROTOCOL} is {consumer[PROTOCOL]}"
    forbidden = next((name for name in CLASSIC_ONLY if name in consumer), None)
    if forbidden:
        raise ExperimentError(f"{forbidden} is {consumer[forbidden]} and {asked}; allowed: none, for with KIP-848 the brokers decide (group.consumer.*)")
    if cluster.external:
        return
    version = tuple(int(part) for part in cluster.kafka_version.split(".")[:2])
    if version < _GROUPS_PROTOCOL_SINCE:
        raise ExperimentError(f"{asked} and kafka.version is {cluster.kafka_version}; allowed: 4.0 or newer, or {PROTOCOL} {CLASSIC}")
    if cluster.features.get("group.version", 1) < 1:
        raise ExperimentError(f"{asked} and group.version is 0; allowed: 1, or {PROTOCOL} {CLASSIC}")
