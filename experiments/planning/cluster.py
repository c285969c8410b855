"""The cluster that a cell requests: its Kafka version, its nodes and the levels of its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.properties import FEATURES, KafkaProperties, nearest_properties
from ackbench.experiments.sweep.plan import ClusterNeed
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.spec import Coordination
from ackbench.infra.kafka.versions import supports_zookeeper

MAX_NODES: Final = 9
ENSEMBLE_SIZES: Final = (1, 3)
"""Allowed numbers of ZooKeeper servers; the first is the default."""
DEDICATED_CONTROLLERS: Final = 3
"""Default number of dedicated controllers of a cluster with several brokers."""
CLUSTER_AXES: Final = (
    "nodes",
    "kafka.version",
    "coordination",
    "controllers",
    "zookeeper.nodes",
    *FEATURES,
)
"""Keys of an experiment that describe its cluster, without properties; each can be an axis."""


def cluster_values(experiment: Experiment, axes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the value of each of `CLUSTER_AXES` in a cell; null where neither source has one.

    Args:
        experiment: supplies the values that the cell does not have.
        axes: the cell's values; null counts as absent.
    """
    values: dict[str, Scalar] = {
        name: experiment.cluster_value(name) if axes.get(name) is None else axes[name]
        for name in CLUSTER_AXES
    }
    if values["coordination"] == "zookeeper" and values["zookeeper.nodes"] is None:
        values["zookeeper.nodes"] = ENSEMBLE_SIZES[0]
    if values["controllers"] is None:
        values["controllers"] = default_controllers(values["nodes"], values["coordination"])
    return values


def default_controllers(nodes: Scalar, coordination: Scalar) -> int:
    """Return the number of dedicated controllers of a cell that does not specify it.

    Kafka's documentation calls combined brokers and controllers "not recommended in critical
    deployment environments" (https://kafka.apache.org/documentation/#kraft_role). A single node
    is for development, and combined.
    """
    return DEDICATED_CONTROLLERS if nodes != 1 and coordination == "kraft" else 0


def resolve_cluster(
    values: Mapping[str, Scalar], properties: Mapping[str, Mapping[str, str]]
) -> ClusterNeed:
    """Return the cluster that a cell needs.

    Args:
        values: the value of each of `CLUSTER_AXES`.
        properties: the `topic` and `broker` properties of the cell, by scope.

    Raises:
        ExperimentError: a value is not allowed, values contradict each other, or this version of
            Kafka does not know a property or does not allow its value.
    """
    version = str(values["kafka.version"])
    kafka, coordination = _properties_of(version), _resolve_coordination(values)
    refuse_unknown_properties(properties, kafka)
    _refuse_ineffective(properties["broker"], coordination)
    return ClusterNeed(
        nodes=check_whole_number("nodes", values["nodes"], 1, MAX_NODES),
        kafka_version=version,
        broker=dict(properties["broker"]),
        coordination=coordination,
        controllers=_resolve_controllers(values, coordination),
        zookeepers=_resolve_zookeepers(values["zookeeper.nodes"], coordination),
        features=_resolve_features(values, kafka, coordination),
    )


def _properties_of(version: str) -> KafkaProperties:
    try:
        return nearest_properties(version)
    except InputError as error:
        raise ExperimentError(str(error)) from error


def _resolve_coordination(values: Mapping[str, Scalar]) -> Coordination:
    requested, version = values["coordination"], str(values["kafka.version"])
    allowed: tuple[Coordination, ...] = get_args(Coordination)
    for coordination in allowed:
        if coordination == requested:
            if coordination == "zookeeper" and not supports_zookeeper(version):
                raise ExperimentError(
                    f"coordination is zookeeper with kafka.version {version}; "
                    "allowed: with 3.9 only (Kafka 4.0 removed ZooKeeper)"
                )
            return coordination
    raise ExperimentError(
        f"coordination is {format_value(requested)}; allowed: {' or '.join(allowed)}"
    )


def _resolve_controllers(values: Mapping[str, Scalar], coordination: Coordination) -> int:
    controllers = check_whole_number("controllers", values["controllers"], 0, MAX_NODES)
    if controllers and coordination == "zookeeper":
        raise ExperimentError(
            f"controllers is {controllers} with coordination zookeeper; "
            "allowed: with kraft only (with ZooKeeper, a broker is the controller)"
        )
    return controllers


def _resolve_zookeepers(requested: Scalar, coordination: Coordination) -> int:
    if coordination == "zookeeper":
        if requested not in ENSEMBLE_SIZES:
            sizes = " or ".join(map(str, ENSEMBLE_SIZES))
            raise ExperimentError(f"zookeeper.nodes is {format_value(requested)}; allowed: {sizes}")
        return check_whole_number("zookeeper.nodes", requested, 1, MAX_NODES)
    if requested is not None:
        raise ExperimentError(
            f"zookeeper.nodes is {format_value(requested)} with coordination {coordination}; "
            "allowed: with zookeeper only"
        )
    return 0


def _resolve_features(
    values: Mapping[str, Scalar], kafka: KafkaProperties, coordination: Coordination
) -> dict[str, int]:
    """Return the level of every feature that the version has, also of those not requested."""
    requested = {name: values[name] for name in FEATURES if values[name] is not None}
    for name, level in requested.items():
        if coordination == "zookeeper":
            raise ExperimentError(
                f"{name} is {format_value(level)} with coordination zookeeper; "
                "allowed: with kraft only"
            )
        feature = kafka.feature(name)
        if feature is None:
            raise ExperimentError(
                f"{name} is {format_value(level)}; Kafka {kafka.version} has no such feature"
            )
        allowed = feature.allowed_instead_of(str(level))
        if allowed:
            raise ExperimentError(
                f"{name} is {format_value(level)}; allowed by Kafka {kafka.version}: {allowed}"
            )
    if coordination == "zookeeper":
        return {}
    return {
        feature.name: int(str(requested.get(feature.name, feature.usual)))
        for feature in kafka.features
    }


def refuse_unknown_properties(
    properties: Mapping[str, Mapping[str, str]], kafka: KafkaProperties
) -> None:
    """Check `topic` and `broker` properties against a version of Kafka.

    Args:
        properties: the properties by scope.
        kafka: the properties of the version.

    Raises:
        ExperimentError: the version does not know a property or does not allow its value.
    """
    for scope, definition_of in (
        ("topic", kafka.topic_property),
        ("broker", kafka.broker_property),
    ):
        for name, text in properties.get(scope, {}).items():
            definition = definition_of(name)
            if definition is None:
                raise ExperimentError(
                    f"{scope} property {name} is unknown to Kafka {kafka.version}"
                )
            allowed = definition.allowed_instead_of(text)
            if allowed:
                raise ExperimentError(
                    f"{scope} property {name} is {format_value(text)}; "
                    f"allowed by Kafka {kafka.version}: {allowed}"
                )


_KRAFT_ONLY: Final = (
    "controller.quorum.",
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "initial.broker.registration.timeout.ms",
)
_ZOOKEEPER_ONLY: Final = "zookeeper."
"""Prefixes of broker properties that have an effect with one coordination only."""


def _refuse_ineffective(broker: Mapping[str, str], coordination: Coordination) -> None:
    """Refuse properties without effect: a trial would name a setting that never was."""
    prefixes = _KRAFT_ONLY if coordination == "zookeeper" else _ZOOKEEPER_ONLY
    ineffective = next((name for name in broker if name.startswith(prefixes)), None)
    if ineffective:
        raise ExperimentError(
            f"broker property {ineffective} has no effect with coordination {coordination}: "
            "leave it out"
        )


def check_whole_number(name: str, value: Scalar, least: int, most: int) -> int:
    """Return the value if it is a whole number within bounds.

    Raises:
        ExperimentError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ExperimentError(
            f"{name} is {format_value(value)}; allowed: a whole number from {least} to {most}"
        )
    return value
