"""Settings of an experiment on an external cluster: its addresses and security.

Settings and faults that need control over the nodes are refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean, format_value
from ackbench.experiments.planning.axes import Scope, SettingPlace
from ackbench.experiments.planning.cluster import CLUSTER_AXES, refuse_unknown_properties
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.properties import nearest_properties
from ackbench.experiments.planning.properties.protected import refuse_protected
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, FaultRequest, Plan
from ackbench.experiments.trial.clients.settings.java_security import refuse_unsupported
from ackbench.experiments.trial.clients.settings.librdkafka import CANONICAL_NAMES, canonical_names
from ackbench.experiments.trial.clients.settings.tokens import (
    OAUTHBEARER,
    TOKEN_COMMAND,
    encode_command,
)
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.operations.commands import (
    COMMAND,
    CommandParameters,
    may_not_be_injected,
    refused_value,
)
from ackbench.infra.kafka.api_versions import METADATA_VERSION, BrokerFeatures
from ackbench.infra.kafka.secrets import SECURITY_PREFIXES, resolve_reference

if TYPE_CHECKING:
    from ackbench.infra.cluster.external import ExternalClusterInfo

UNKNOWN_VERSION: Final = "unknown"
"""The Kafka version of an external cluster whose brokers do not tell what they support."""
_RELEASES: Final = {19: "3.7", 20: "3.8", 21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3"}
"""The release of Apache Kafka whose highest level of `metadata.version` is this one."""
_FILES: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.key.location",
        "ssl.keystore.location",
    }
)
"""Properties whose file librdkafka would only say that it cannot be read, with OpenSSL's words."""
_SEARCHED: Final = "probe"
"""The value of `ssl.ca.location` with which librdkafka searches for the file itself."""
_FILE_DEFAULTS: Final = {"nodes": 3, "coordination": "kraft", "controllers": None}
"""Values of keys that the file leaves out.

`kafka.version` may be set: it is that of Java's clients, and decides which topic properties are
known.
"""


def security_properties(experiment: Experiment) -> dict[str, str]:
    """Return librdkafka's security properties for the external cluster, secrets as `$NAME`.

    The command for tokens is among them.

    Raises:
        InputError: two names of one property have different values.
    """
    command = experiment.token_command
    tokens = {TOKEN_COMMAND: encode_command(command)} if command else {}
    return canonical_names(_security_section(experiment)) | tokens


def _security_section(experiment: Experiment) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in experiment.security.items()
    }


def check_cluster_access(
    experiment: Experiment, places: Mapping[str, SettingPlace], properties: Collection[str]
) -> None:
    """Check that addresses and security are given for an external cluster, and only for one.

    Args:
        experiment: the experiment.
        places: the setting of each axis.
        properties: the properties that librdkafka knows.

    Raises:
        ExperimentError: a local cluster has addresses or security, or an external one lacks its
            addresses, has an invalid security property, or settings of its nodes.
        InputError: Java's clients cannot have a security property.
    """
    if experiment.cluster_traits.planned:
        if experiment.bootstrap_servers or experiment.security or experiment.token_command:
            raise ExperimentError(
                "bootstrap.servers, security and token_command need an external cluster: add "
                "`cluster: external`"
            )
        return
    if not experiment.bootstrap_servers:
        raise ExperimentError(
            "bootstrap.servers is missing; allowed: host:port,... of the external cluster"
        )
    _check_security(experiment, properties)
    _check_token_command(experiment)
    _refuse_node_settings(experiment, places)
    clients = {
        experiment.client_name,
        *(str(value) for cross in experiment.axes for value in cross.get("client", ())),
    }
    if not all(traits_of(kind).planned_security for kind in clients):
        refuse_unsupported(security_properties(experiment))


def _check_security(experiment: Experiment, properties: Collection[str]) -> None:
    known = [name for name in properties if name.startswith(SECURITY_PREFIXES)]
    for name, text in _security_section(experiment).items():
        if CANONICAL_NAMES.get(name, name) not in known:
            raise ExperimentError(f"unknown security property {name}{did_you_mean(name, known)}")
        refuse_protected("security", name, text, allow_code=experiment.allow_code)
        if name in _FILES and text != _SEARCHED and not Path(text).exists():
            raise ExperimentError(f"security: {name} {text}: no such file")


def _check_token_command(experiment: Experiment) -> None:
    """Check that tokens are wanted where a command prints them, and that its program exists."""
    if not experiment.token_command:
        return
    mechanism = security_properties(experiment).get("sasl.mechanism")
    if mechanism != OAUTHBEARER:
        raise ExperimentError(
            f"token_command is given and sasl.mechanism is {format_value(mechanism)}; allowed: "
            f"with {OAUTHBEARER}"
        )
    program = experiment.token_command[0]
    if shutil.which(program) is None:
        raise ExperimentError(f"token_command: no such program: {program}")


def _refuse_node_settings(experiment: Experiment, places: Mapping[str, SettingPlace]) -> None:
    changed = [
        name
        for name, default in _FILE_DEFAULTS.items()
        if experiment.cluster_value(name) != default
    ]
    swept = [
        axis
        for axis, place in places.items()
        if place.scope is Scope.BROKER or place.name in CLUSTER_AXES
    ]
    others = [
        name
        for name in CLUSTER_AXES
        if name not in {*_FILE_DEFAULTS, "kafka.version"}
        and experiment.cluster_value(name) is not None
    ]
    settings = [*experiment.broker, *changed, *swept, *others]
    if settings:
        raise ExperimentError(
            f"{settings[0]} cannot be set with cluster external: "
            "the settings of its brokers are read from them and recorded"
        )


def external_cluster(experiment: Experiment, topic: Mapping[str, str]) -> ClusterNeed:
    """Return the external cluster; its brokers and their settings are added once it is reached.

    Args:
        experiment: the experiment.
        topic: topic properties of a cell.

    Raises:
        ExperimentError: the experiment's Kafka version does not know a topic property.
        InputError: the address is that of an environment variable that is not set.
    """
    refuse_unknown_properties({"topic": topic}, nearest_properties(experiment.kafka_version))
    return ClusterNeed(
        nodes=experiment.nodes,
        kafka_version=UNKNOWN_VERSION,
        external=ExternalAccess(
            addresses=resolve_reference("bootstrap.servers", experiment.bootstrap_servers or ""),
            java_client_version=experiment.kafka_version,
            security=security_properties(experiment),
        ),
    )


def as_reported(need: ClusterNeed, reported: ExternalClusterInfo) -> ClusterNeed:
    """Return a need of an external cluster with what the cluster reports of itself."""
    features, access = reported.features, need.external
    return replace(
        need,
        broker=dict(reported.settings or {}),
        features=dict(features.finalized) if features else {},
        kafka_version=release_of(features) if features else UNKNOWN_VERSION,
        external=access and access.model_copy(update={"cluster_id": reported.cluster_id}),
    )


def release_of(features: BrokerFeatures) -> str:
    """Return the release of a broker's software, as in `4.3`, or that it is unknown.

    Each release of Apache Kafka supports one more level of `metadata.version` than the one before
    (`MetadataVersion.java`). A release of others may support none, or have the level of Apache's.
    """
    return _RELEASES.get(features.highest.get(METADATA_VERSION, 0), UNKNOWN_VERSION)


def check_commands(
    experiment: Experiment,
    planned: Plan,
    cluster_id: str,
    down: Iterable[str] = (),
    hosts: Collection[str] = (),
) -> None:
    """Check that faults by command may be injected into a cluster, and that their programs exist.

    Args:
        experiment: has the permission, by the cluster's id.
        planned: has the faults of all cells.
        cluster_id: the id that the cluster reports.
        down: what of the cluster is down; not asked for without such a fault.
        hosts: of its brokers, as they advertise them.

    Raises:
        ExperimentError: the file does not permit it, a program is not on this machine, a command
            would get a host that could be an option, or a part of the cluster is down already: its
            own faults come before those of a test.
    """
    leaves = [leaf for trial in planned.trials for leaf in trial.fault.leaves()]
    injected = {str(leaf.parameters["name"]): leaf for leaf in leaves if leaf.kind == COMMAND}
    for name, leaf in injected.items():
        if experiment.allow_faults != cluster_id:
            raise ExperimentError(
                f"fault {name} is injected into the cluster {cluster_id}, and allow_faults is "
                f"{format_value(experiment.allow_faults)}; allowed: the cluster's id, if you mean "
                f"it: `allow_faults: {cluster_id}`"
            )
        for part, words in CommandParameters.model_validate(leaf.parameters).commands().items():
            if shutil.which(words[0]) is None:
                raise ExperimentError(f"faults.{name}.{part}: no such program: {words[0]}")
            for host in hosts:
                if reason := refused_value(words, {"NODE_HOST": host}):
                    raise ExperimentError(f"faults.{name}.{part} refused: {reason}")
    part_down = next(iter(down), None) if injected else None
    if part_down:
        raise ExperimentError(may_not_be_injected(sorted(injected), part_down))


def refuse_command_on_local_cluster(fault: FaultRequest) -> None:
    """Refuse a fault by command on a cluster of ackbench's own.

    Raises:
        ExperimentError: it is one; the message names what is meant for such a cluster.
    """
    for leaf in fault.leaves():
        if leaf.kind == COMMAND:
            raise ExperimentError(
                f"fault {leaf.parameters['name']} is a command; allowed: with `cluster: external`, "
                "for a cluster of its own ackbench has faults (`ackbench faults`)"
            )


def refuse_fault_on_external_cluster(fault: FaultRequest) -> None:
    """Check that a fault does not need control over the nodes.

    Raises:
        ExperimentError: it does; the message lists the faults that are possible.
    """
    for kind in {leaf.kind for leaf in fault.leaves()}:
        if not FAULTS[kind].supports_external_cluster:
            possible = sorted(
                name
                for name, known in FAULTS.items()
                if known.supports_external_cluster and name != COMMAND
            )
            raise ExperimentError(
                f"fault {format_value(kind)} needs control over the nodes, which an external "
                f"cluster does not give; allowed: {', '.join(possible)}, or commands of your own "
                f"(a section of `faults` with kind: {COMMAND})"
            )
