"""The cluster that a cell asks for: its version of Kafka, its members, and the levels of its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from experiments.errors import ExperimentError
from experiments.ledger.record import Scalar
from experiments.messages.phrases import format_value
from experiments.planning.experiment import Experiment
from experiments.planning.properties import FEATURES, KafkaProperties, kafka_properties, versions
from experiments.sweep.plan import ClusterNeed
from infra.errors import InputError
from infra.kafka.spec import Coordination
from infra.kafka.versions import supports_zookeeper, parse_version

MOST_NODES: Final = 9
ENSEMBLES: Final = (1, 3)
NAMES: Final = (
    "nodes",
    "kafka.version",
    "coordination",
    "controllers",
    "zookeeper.nodes",
    *FEATURES,
)
"""What an experiment says of its cluster that is no property of Kafka's, each also an axis."""
_OF_KRAFT: Final = (
    "controller.quorum.",
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "initial.broker.registration.timeout.ms",
)
_OF_ZOOKEEPER: Final = "zookeeper."


def said_of_cluster(experiment: Experiment, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return all that is said of a cell's cluster, by `NAMES`: by its axes, or by the experiment; null where nobody says anything.

    Args:
        experiment: the experiment.
        given: what the cell's axes say; what is null there is not said.
    """
    said: dict[str, Scalar] = {
        name: experiment.of_cluster(name) if given.get(name) is None else given[name]
        for name in NAMES
    }
    return said | (
        {"zookeeper.nodes": ENSEMBLES[0]}
        if said["coordination"] == "zookeeper" and said["zookeeper.nodes"] is None
        else {}
    )


def cluster_of(
    structure: Mapping[str, Scalar], properties: Mapping[str, Mapping[str, str]]
) -> ClusterNeed:
    """Return the cluster, once it is known that there can be one.

    Args:
        structure: what the cell says of each of `NAMES`.
        properties: the `topic` and `broker` properties that were asked for; each must be one that the version knows.

    Raises:
        ExperimentError: there is no such cluster; one line that says what there is.
    """
    kafka, coordination = _version(structure["kafka.version"]), _coordination(structure)
    refuse_unknown(properties, kafka)
    _refuse_ineffective(properties["broker"], coordination)
    return ClusterNeed(
        nodes=_whole("nodes", structure["nodes"], 1, MOST_NODES),
        kafka_version=kafka.version,
        broker=dict(properties["broker"]),
        coordination=coordination,
        controllers=_controllers(structure, coordination),
        zookeepers=_zookeepers(structure["zookeeper.nodes"], coordination),
        features=_features(structure, kafka)
        if coordination == "kraft"
        else _no_features(structure),
    )


def _version(asked: Scalar) -> KafkaProperties:
    try:
        parse_version(str(asked))
    except InputError as error:
        raise ExperimentError(str(error)) from error
    if asked not in versions():
        raise ExperimentError(
            f"kafka.version is {format_value(asked)}; allowed: {', '.join(versions())}, or another that can be fetched when a sweep asks for it"
        )
    return kafka_properties(str(asked))


def _coordination(structure: Mapping[str, Scalar]) -> Coordination:
    asked, version = structure["coordination"], str(structure["kafka.version"])
    allowed: tuple[Coordination, ...] = get_args(Coordination)
    for coordination in allowed:
        if coordination == asked:
            if coordination == "zookeeper" and not supports_zookeeper(version):
                raise ExperimentError(
                    f"coordination is zookeeper with kafka.version {version}; allowed: with 3.9 only, 4.0 has it no more"
                )
            return coordination
    raise ExperimentError(f"coordination is {format_value(asked)}; allowed: {' or '.join(allowed)}")


def _controllers(structure: Mapping[str, Scalar], coordination: Coordination) -> int:
    controllers = _whole("controllers", structure["controllers"], 0, MOST_NODES)
    if controllers and coordination == "zookeeper":
        raise ExperimentError(
            f"controllers is {controllers} with coordination zookeeper; allowed: with kraft only, a broker is the controller there"
        )
    return controllers


def _zookeepers(asked: Scalar, coordination: Coordination) -> int:
    if coordination == "zookeeper":
        if asked not in ENSEMBLES:
            raise ExperimentError(
                f"zookeeper.nodes is {format_value(asked)}; allowed: {' or '.join(map(str, ENSEMBLES))}"
            )
        return _whole("zookeeper.nodes", asked, 1, MOST_NODES)
    if asked is not None:
        raise ExperimentError(
            f"zookeeper.nodes is {format_value(asked)} with coordination {coordination}; allowed: with zookeeper only"
        )
    return 0


def _features(structure: Mapping[str, Scalar], kafka: KafkaProperties) -> dict[str, int]:
    """Return the level of every feature that the version has; those that nobody asked for are written down too."""
    asked = {name: structure[name] for name in FEATURES if structure[name] is not None}
    for name, level in asked.items():
        feature = kafka.of_feature(name)
        if feature is None:
            raise ExperimentError(
                f"{name} is {format_value(level)}; Kafka {kafka.version} has no such feature"
            )
        allowed = feature.refusal(str(level))
        if allowed:
            raise ExperimentError(
                f"{name} is {format_value(level)}; allowed by Kafka {kafka.version}: {allowed}"
            )
    return {
        feature.name: int(str(asked.get(feature.name, feature.usual))) for feature in kafka.features
    }


def _no_features(structure: Mapping[str, Scalar]) -> dict[str, int]:
    named = next((name for name in FEATURES if structure[name] is not None), None)
    if named:
        raise ExperimentError(
            f"{named} is {format_value(structure[named])} with coordination zookeeper; allowed: with kraft only"
        )
    return {}


def refuse_unknown(properties: Mapping[str, Mapping[str, str]], kafka: KafkaProperties) -> None:
    """See that a version knows some `topic` and `broker` properties, and takes their values.

    Raises:
        ExperimentError: it does not.
    """
    for scope, of_scope in (("topic", kafka.of_topic), ("broker", kafka.of_broker)):
        for name, text in properties.get(scope, {}).items():
            definition = of_scope(name)
            if definition is None:
                raise ExperimentError(
                    f"{scope} property {name}: Kafka {kafka.version} knows none of that name"
                )
            allowed = definition.refusal(text)
            if allowed:
                raise ExperimentError(
                    f"{scope} property {name} is {format_value(text)}; allowed by Kafka {kafka.version}: {allowed}"
                )


def _refuse_ineffective(broker: Mapping[str, str], coordination: Coordination) -> None:
    """A setting that nobody reads would be recorded with the trial, and would have changed nothing."""
    others = _OF_KRAFT if coordination == "zookeeper" else _OF_ZOOKEEPER
    idle = next((name for name in broker if name.startswith(others)), None)
    if idle:
        raise ExperimentError(
            f"broker property {idle} does nothing with coordination {coordination}: leave it out"
        )


def _whole(name: str, value: Scalar, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ExperimentError(
            f"{name} is {format_value(value)}; allowed: a whole number from {least} to {most}"
        )
    return value
