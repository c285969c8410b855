"""Small sweeps on an external cluster, as a user with the permissions that the docs list."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Collection
from pathlib import Path

from confluent_kafka.admin._acl import AclBinding, AclOperation
from confluent_kafka.admin._group import ListConsumerGroupsResult
from confluent_kafka.admin._resource import ResourceType
from support.external_brokers import ExternalBrokers, acl

from ackbench.experiments.orchestration.clusters import (
    assign_cluster,
    destroy_after_use,
    destroy_all,
)
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.trial.clients.librdkafka.topics import admin_client
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

DOCUMENTED = Path(__file__).parents[2] / "docs" / "external-clusters.md"
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
LOAD = {"rate_records_per_s": 500, "duration_s": 1.5}
_LIST_TIMEOUT_S = 10.0
_LOG = logging.getLogger(__name__)


def documented_permissions() -> list[tuple[str, str, str]]:
    """Return each resource, prefix and operation of the documentation's table."""
    section = DOCUMENTED.read_text().partition("## Permissions")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| ([a-z ]+) \| (?:`([\w-]+)`)? ?\| ([A-Z][\w, ]+) \|", section)
    return [(kind, name, one) for kind, name, all_ in rows for one in all_.split(", ")]


def acls(without: Collection[tuple[str, str]] = ()) -> list[AclBinding]:
    """Return the documented permissions as ACLs, without some pairs of resource and operation."""
    return [
        acl(RESOURCES[kind], prefix, AclOperation[re.sub(r"(?<=.)(?=[A-Z])", "_", one).upper()])
        for kind, prefix, one in documented_permissions()
        if (kind, one) not in without
    ]


def run_all(
    home: Home, brokers: ExternalBrokers, permitted: list[AclBinding], **changes: object
) -> SweepFolder:
    """Plan a small sweep, run its trials as the user, and return its folder."""
    experiment = {
        "name": "permitted",
        "title": "Permitted",
        "question": "May it?",
        "controls": False,
        "cluster": "external",
        "bootstrap.servers": brokers.sasl,
        "security": brokers.user_security(),
        "workload": LOAD,
        "axes": {"acks": ["all"], "fault": ["none"], "replication.factor": [1]},
        **changes,
    }
    file = home.root / "permitted.yaml"
    file.write_text(dump_yaml(experiment))
    with brokers.permitting(permitted):
        return run_file(home, file)


def run_file(home: Home, file: Path) -> SweepFolder:
    """Plan the sweep of a file and run its trials; return its folder.

    What may be left in the cluster is in the log.
    """
    sweep = new_sweep(home, str(file))
    try:
        for trial in sweep.plan().trials:
            cluster = assign_cluster(home, trial, 60).cluster
            try:
                run_trial(sweep, trial, cluster, home)
            finally:
                destroy_after_use(home, trial, cluster)
    finally:
        if left := destroy_all(home, sweep.sweep_id):
            _LOG.warning("%s", left)
    return sweep


def left_in(brokers: ExternalBrokers) -> set[str]:
    """Return the topics and groups that are not Kafka's own, as all brokers list them.

    Each broker lists the groups that it coordinates: while one is down, what its groups are is
    not known, and nothing is returned.

    Raises:
        WaitTimeout: a broker does not list its groups.
    """

    def by_all() -> ListConsumerGroupsResult | None:
        # A client goes on to ask a broker that has left the cluster: each request has its own.
        client = admin_client(brokers.plain)
        listed = client.list_consumer_groups(request_timeout=_LIST_TIMEOUT_S).result()
        return None if listed.errors else listed

    listed = wait_until(by_all, awaiting="each broker to list its groups", timeout_s=60)
    groups = {group.group_id for group in listed.valid or ()}
    return {name for name in topics(brokers) | groups if not name.startswith("__")}


def topics_left_in(brokers: ExternalBrokers) -> set[str]:
    """Return the topics that are not Kafka's own, also while a broker is down."""
    return {name for name in topics(brokers) if not name.startswith("__")}


def topics(brokers: ExternalBrokers) -> set[str]:
    """Return the names of all topics."""
    return set(admin_client(brokers.plain).list_topics(timeout=_LIST_TIMEOUT_S).topics)


if __name__ == "__main__":
    run_file(Home(Path(sys.argv[1])), Path(sys.argv[1]) / "experiment.yaml")
