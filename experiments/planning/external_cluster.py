"""What an experiment may say of a cluster that is somebody else's: where it is, who we are, and nothing that needs its nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from experiments.clients.settings.security import SECURITY_PREFIXES, SECRET_PROPERTIES, resolve_references, is_reference
from experiments.errors import ExperimentError
from experiments.faults import FAULTS
from experiments.messages.phrases import did_you_mean, format_value
from experiments.planning.axes import Scope, SettingPlace
from experiments.planning.cluster import NAMES, refuse_unknown
from experiments.planning.code_loading import refuse_code
from experiments.planning.experiment import Experiment
from experiments.planning.properties import kafka_properties
from experiments.sweep.plan import ClusterNeed, FaultRequest
from infra.errors import InputError

NOT_KNOWN: Final = "not known"
"""An external cluster's version: no broker tells it."""
_USUAL: Final = {"nodes": 3, "coordination": "kraft", "controllers": 0}
"""What a file says that leaves these out; its version then only decides which topic properties there are."""


def security_of(experiment: Experiment) -> dict[str, str]:
    """Return what librdkafka's clients are told of who we are, secrets as `$NAME`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in experiment.security.items()
    }


def check_whose(
    experiment: Experiment, places: Mapping[str, SettingPlace], properties: Collection[str]
) -> None:
    """See that the experiment says where an external cluster is, how to get in, and nothing of its nodes; and of a local one none of this.

    Args:
        experiment: the experiment.
        places: what its axes mean.
        properties: those that librdkafka knows.

    Raises:
        ExperimentError: it does not; one line.
    """
    if experiment.cluster == "local":
        if experiment.bootstrap_servers or experiment.security:
            raise ExperimentError(
                "bootstrap.servers and security are of a cluster that is somebody else's: write `cluster: external` beside them"
            )
        return
    if not experiment.bootstrap_servers:
        raise ExperimentError(
            "bootstrap.servers is missing; allowed: host:port,... of the external cluster"
        )
    _check_security(security_of(experiment), properties)
    _refuse_settings_of_nodes(experiment, places)
    clients = {
        experiment.client,
        *(str(value) for cross in experiment.axes for value in cross.get("client", ())),
    }
    if clients != {"librdkafka"}:
        raise ExperimentError(
            "client is java with cluster external; allowed: librdkafka, whose properties the section `security` holds"
        )


def _check_security(security: Mapping[str, str], properties: Collection[str]) -> None:
    known = [name for name in properties if name.startswith(SECURITY_PREFIXES)]
    for name, text in security.items():
        if name not in known:
            raise ExperimentError(f"unknown security property {name}{did_you_mean(name, known)}")
        refuse_code("security", name, text)
        if name in SECRET_PROPERTIES and not is_reference(name, text):
            raise ExperimentError(
                f"security property {name} is a secret; allowed: the name of an environment variable that holds it, as in $KAFKA_SECRET"
            )
    try:
        resolve_references(security)
    except InputError as error:
        raise ExperimentError(f"security property {error}") from error


def _refuse_settings_of_nodes(experiment: Experiment, places: Mapping[str, SettingPlace]) -> None:
    swept = [
        axis for axis, place in places.items() if place.scope is Scope.BROKER or place.name in NAMES
    ]
    said = [
        *experiment.broker,
        *(name for name, usual in _USUAL.items() if experiment.of_cluster(name) != usual),
        *swept,
    ]
    others = [
        name
        for name in NAMES
        if name not in {*_USUAL, "kafka.version"} and experiment.of_cluster(name) is not None
    ]
    if said or others:
        raise ExperimentError(
            f"{[*said, *others][0]} cannot be set with cluster external: what its brokers are is read from them, and recorded"
        )


def external_need(experiment: Experiment, topic: Mapping[str, str]) -> ClusterNeed:
    """Return the cluster; how many brokers it has and what they are set to is found out when it is reached.

    Raises:
        ExperimentError: a topic property is none that the version has which the experiment names.
    """
    refuse_unknown({"topic": topic}, kafka_properties(experiment.kafka_version))
    return ClusterNeed(
        nodes=experiment.nodes,
        kafka_version=NOT_KNOWN,
        external=experiment.bootstrap_servers,
        security=security_of(experiment),
    )


def refuse_from_outside(fault: FaultRequest) -> None:
    """See that a fault can be done to a cluster that is somebody else's.

    Raises:
        ExperimentError: it cannot; says which can.
    """
    for kind in {leaf.kind for leaf in fault.leaves()}:
        if not FAULTS[kind].supports_external_cluster:
            can = ", ".join(
                sorted(name for name, known in FAULTS.items() if known.supports_external_cluster)
            )
            raise ExperimentError(
                f"fault {format_value(kind)} needs the nodes, and the cluster is external; possible from outside: {can}"
            )
