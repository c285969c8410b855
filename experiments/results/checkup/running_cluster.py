"""The settings of a running cluster, read from its brokers: nothing is created or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ackbench.experiments.planning.external_cluster import UNKNOWN_VERSION, release_of
from ackbench.experiments.planning.properties import defaults_of, kafka_properties, known_versions
from ackbench.experiments.results.checkup.configuration import OF_BROKER, ReportedCluster
from ackbench.experiments.results.checkup.files.properties_files import read_properties
from ackbench.experiments.trial.clients.settings.librdkafka import canonical_names
from ackbench.infra.cluster.external import describe_topic, probe_cluster
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import is_security_property, resolve_references
from ackbench.infra.machine.paths import user_path

_FEATURES: Final = ("eligible.leader.replicas.version", "transaction.version")
"""Those that the contract asks for; a feature that is not finalized has level 0."""


def reported_cluster(
    servers: str, topic: str | None = None, command_config: str | None = None
) -> ReportedCluster:
    """Return what a running cluster reports of its brokers and of a topic.

    Args:
        servers: its addresses, `host:port,...`.
        topic: the topic whose settings count; `None`: the brokers' defaults of topics.
        command_config: a property file with the security of the connection.

    Raises:
        InputError: the cluster cannot be reached, refuses the client or does not permit to read
            its settings, has no such topic, or the file cannot be read.
    """
    connection = {"bootstrap.servers": servers, **_security(command_config)}
    info = probe_cluster(connection)
    if info.settings is None:
        raise InputError(
            f"{servers} does not permit to read its brokers' settings (DescribeConfigs): give them "
            "with --broker FILE"
        )
    release = release_of(info.features) if info.features else UNKNOWN_VERSION
    version = next((one for one in known_versions() if one.startswith(f"{release}.")), None)
    described = describe_topic(connection, topic) if topic else None
    finalized = info.features.finalized if info.features else {}
    return ReportedCluster(
        servers=servers,
        nodes=len(info.brokers),
        kafka_version=version,
        broker=_set_by_somebody(info.settings, version),
        features={name: finalized.get(name, 0) for name in _FEATURES} if info.features else {},
        topic=dict(described.settings) if described else {},
        replication_factor=described.replication_factor if described else None,
        partitions=described.partitions if described else 1,
    )


def _security(command_config: str | None) -> dict[str, str]:
    if command_config is None:
        return {}
    properties = read_properties(user_path(command_config))
    security = {name: value for name, value in properties.items() if is_security_property(name)}
    return resolve_references(canonical_names(security))


def _set_by_somebody(settings: Mapping[str, str], version: str | None) -> dict[str, str]:
    """Return the settings that differ from Kafka's defaults, and that Kafka's documents know.

    Releases of others have further settings, which decide nothing here. What decides about
    guarantees is returned in any case.
    """
    definitions = kafka_properties(version or known_versions()[-1]).broker
    defaults = defaults_of(definitions)
    deciding = {*OF_BROKER.values(), "default.replication.factor"}
    return {
        one.name: settings[one.name]
        for one in definitions
        if one.name in settings
        and (one.name in deciding or settings[one.name] != defaults.get(one.name))
        and one.allowed_instead_of(settings[one.name]) is None
    }
