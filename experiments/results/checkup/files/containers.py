"""Containers: Docker Compose, Dockerfiles, files of variables, and workloads of Kubernetes.

What the images make of variables: hub.docker.com/r/apache/kafka, Confluent's "Configure Docker",
github.com/bitnami/containers and github.com/wurstmeister/kafka-docker.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.checkup.files.applications import take_framework
from ackbench.experiments.results.checkup.files.compose_files import ComposeFiles
from ackbench.experiments.results.checkup.files.found import (
    FoundFile,
    FoundNode,
    FoundTopic,
    Scope,
    Taking,
)
from ackbench.experiments.results.checkup.files.names import (
    decides_nothing,
    dotted,
    names_of,
    property_of_variable,
    variable_of,
)
from ackbench.experiments.results.checkup.files.properties_files import pairs_of
from ackbench.experiments.results.checkup.files.trees import LineText, at, items, line_of, mapping

_STARTS_BARE: Final = re.compile(r"(^|/)(kafka|kafka-native|confluent-local)(:|@|$)")
"""Images that are a broker without any variable."""
_SAMPLE_FILE: Final = re.compile(r"(^|/)(bitnami(legacy)?|wurstmeister)/kafka")
"""Images that change Kafka's own config/server.properties, so its values count where none is given.

github.com/wurstmeister/kafka-docker (start-kafka.sh) and github.com/bitnami/containers
(libkafka.sh).
"""
_OF_SAMPLE_FILE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_BROKER_VARIABLES: Final = (
    "KAFKA_BROKER_ID",
    "KAFKA_NODE_ID",
    "KAFKA_PROCESS_ROLES",
    "KAFKA_ZOOKEEPER_CONNECT",
    "KAFKA_LISTENERS",
    "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_ADVERTISED_HOST_NAME",
)
_TAG: Final = re.compile(r":v?(\d+)\.(\d+)(?:\.(\d+))?")
_CONFLUENT_IMAGE: Final = re.compile(r"(^|/)(cp-|confluent-local)")
_OF_CONFLUENT: Final = {5: (2, 0), 6: (2, 6), 7: (3, 0), 8: (4, 0)}
"""The release of Kafka in the first one of each major version of Confluent Platform."""
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?:(:?[-?+])([^}]*))?\}|\$(\w+)")
_ZOOKEEPER_NAME: Final = re.compile(r"zoo|zk", re.IGNORECASE)
_WORKLOADS: Final = ("StatefulSet", "Deployment", "DaemonSet", "Pod", "ReplicaSet", "Job")
_ROLES: Final = {"broker", "controller"}


def read_compose(document: Mapping[str, Any], path: Path) -> FoundFile:
    """Return what the services of a Docker Compose file are.

    Each service that is a broker or a controller is a node, or as many as `deploy.replicas` or
    `scale` says. A service of Kafka Connect is a client.

    Raises:
        InputError: no service is one of Kafka's.
    """
    taking = Taking(path, "Docker Compose")
    compose = ComposeFiles(path, mapping(document["services"]), taking.note)
    others: list[str] = []
    for name in compose.services:
        service = compose.service(name)
        image = str(at(service, "image") or "")
        variables = _resolved(compose.variables(name, service), taking)
        command = at(service, "command") or at(service, "entrypoint")
        if _is_broker(image, variables, command):
            replicas = str(at(service, "deploy", "replicas") or at(service, "scale") or 1)
            _take_node(
                taking,
                str(name),
                image,
                variables,
                count=int(replicas) if replicas.isdecimal() else 1,
                volumes=None if at(service, "extends") else _volumes(str(name), service),
                share_volumes=True,
            )
        elif not _take_connect(taking, variables):
            others.append(str(name))
    others = [one for one in others if not _ZOOKEEPER_NAME.match(one)]
    share_settings(taking)
    if taking.nodes or taking.settings:
        taking.leave("services that are no part of Kafka", others)
    return taking.found()


def read_dockerfile(text: str, path: Path) -> FoundFile:
    """Return the settings of the `ENV` instructions of a Dockerfile.

    Raises:
        InputError: none is a setting of Kafka.
    """
    taking = Taking(path, "Dockerfile")
    variables: dict[LineText, str] = {}
    image = ""
    line = 0
    for instruction in re.split(r"(?<!\\)\n", text):
        line += 1
        words = instruction.replace("\\\n", " ").strip()
        keyword, _, rest = words.partition(" ")
        if keyword.upper() == "FROM":
            image = rest.split()[0] if rest.split() else ""
        elif keyword.upper() == "ENV":
            variables |= _instruction(rest, line)
        line += instruction.count("\n")
    if _is_broker(image, variables):
        _take_node(taking, path.name, image, _resolved(variables, taking), volumes=None)
    else:
        _take_connect(taking, variables)
    share_settings(taking)
    return taking.found()


def _instruction(rest: str, line: int) -> dict[LineText, str]:
    """Return the variables of one `ENV`: `a=1 b=2`, or the old form `a 1`."""
    try:
        words = shlex.split(rest)
    except ValueError:
        return {}
    if words and "=" not in words[0]:
        return {LineText(words[0], line): " ".join(words[1:])}
    pairs = (word.partition("=") for word in words)
    return {LineText(name, line): value for name, _, value in pairs}


def is_variables(names: Sequence[str]) -> bool:
    """Return whether a property file is one of variables of a container."""
    return any(property_of_variable(name) in names_of("broker") for name in names)


def read_variables(text: str, path: Path) -> FoundFile:
    """Return the settings of a file of variables, `KAFKA_MIN_INSYNC_REPLICAS=2`.

    Raises:
        InputError: none is a setting of Kafka.
    """
    taking = Taking(path, "environment variables")
    variables = {name: value.strip("\"'") for name, value in pairs_of(text, path)}
    _take_node(taking, path.name, "", _resolved(variables, taking), volumes=None)
    _take_connect(taking, variables)
    share_settings(taking)
    return taking.found()


def is_workload(document: object) -> bool:
    """Return whether a document of Kubernetes has containers."""
    return str(at(document, "kind")) in _WORKLOADS


def take_workload(document: Mapping[str, Any], taking: Taking) -> None:
    """Take the settings of the containers of a workload of Kubernetes."""
    spec = at(document, "spec", "template", "spec") or at(document, "spec")
    name = str(at(document, "metadata", "name") or at(document, "kind"))
    replicas = str(at(document, "spec", "replicas") or 1)
    claims = items(at(document, "spec", "volumeClaimTemplates"))
    volumes = tuple(str(at(one, "metadata", "name")) for one in claims) or tuple(
        f"{at(one, 'name')} (emptyDir)" if "emptyDir" in one else str(at(one, "name"))
        for one in map(mapping, items(at(spec, "volumes")))
        if "configMap" not in one and "secret" not in one
    )
    for container in items(at(spec, "containers")):
        variables = {
            LineText(str(at(one, "name")), line_of(at(one, "name")) or 1): str(at(one, "value"))
            for one in items(at(container, "env"))
            if at(one, "value") is not None
        }
        referred = [
            str(at(one, "name"))
            for one in items(at(container, "env"))
            if at(one, "valueFrom") and str(at(one, "name")).startswith("KAFKA_")
        ]
        taking.leave("values that stand elsewhere (valueFrom)", referred)
        image = str(at(container, "image") or "")
        if _is_broker(image, variables, at(container, "args")):
            _take_node(
                taking,
                name,
                image,
                _resolved(variables, taking),
                count=int(replicas) if replicas.isdecimal() else 1,
                volumes=volumes,
            )
        else:
            _take_connect(taking, variables)


def _resolved(variables: Mapping[LineText, str], taking: Taking) -> dict[LineText, str]:
    """Return the variables with `${NAME:-default}` as its default; those without one left out."""
    resolved = {}
    for name, value in variables.items():
        open_ones: list[str] = []

        def replacement(found: re.Match[str], open_ones: list[str] = open_ones) -> str:
            if found[2] and found[2].endswith("-"):
                return str(found[3])
            open_ones.append(str(found[1] or found[4]))
            return ""

        text = _VARIABLE.sub(replacement, value.replace("$$", "\0")).replace("\0", "$")
        setting = property_of_variable(name)
        if open_ones and setting and not decides_nothing(setting):
            taking.leave("values of variables that are not set here", [str(name)])
        elif not open_ones:
            resolved[name] = text
    return resolved


def _is_broker(image: str, variables: Mapping[LineText, str], command: object = None) -> bool:
    """Return whether a container is a broker, or a controller: not one that runs Kafka's tools."""
    if any(name in variables for name in _BROKER_VARIABLES):
        return True
    if any((property_of_variable(name) or "") in names_of("broker") for name in variables):
        return True
    return bool(_STARTS_BARE.search(image)) and not command


def _volumes(name: str, service: object) -> tuple[str, ...] | None:
    """Return what a service keeps its data in; `None`: what is mounted may be data, or not."""
    found, unclear = [], False
    for one in items(at(service, "volumes")):
        source, target = (
            (str(at(one, "source") or ""), str(at(one, "target") or ""))
            if isinstance(one, dict)
            else (str(one).split(":")[0], [*str(one).split(":"), ""][1])
        )
        if not target:  # an anonymous volume, which is the service's own
            source, target = f"{name}:{source}", source
        named = not source.startswith((".", "/", "~", "$"))
        if named or _DATA.search(target or source):
            found.append(source)
        elif "." not in Path(target or source).name:
            unclear = True
    return tuple(found) if found or not unclear else None


_DATA: Final = re.compile(r"/var/lib/kafka|/bitnami|/kafka(-logs|/data)?$|data|kraft.*logs")
"""Where the images keep the log."""


def _take_node(
    taking: Taking,
    name: str,
    image: str,
    variables: Mapping[LineText, str],
    *,
    count: int = 1,
    volumes: tuple[str, ...] | None,
    share_volumes: bool = False,
) -> None:
    """Take a node, and the topics that its image makes."""
    settings, of_image = [], []
    for variable, value in variables.items():
        setting = property_of_variable(variable)
        if setting is not None:
            settings.append(taking.setting("broker", setting, value, variable.line, variable.file))
        elif variable == "KAFKA_CREATE_TOPICS":
            _take_topics(taking, value)
        elif variable.startswith("KAFKA_"):
            of_image.append(str(variable))
    taking.leave("variables of the image", of_image)
    bitnamis = any(variable.startswith("KAFKA_CFG_") for variable in variables)
    taking.spelling = partial(_as_variable, "KAFKA_CFG_" if bitnamis else "KAFKA_")
    given = {one.name: one.value for one in settings}
    roles = _ROLES & {one.strip() for one in given.get("process.roles", "broker").split(",")}
    taking.nodes.append(
        FoundNode(
            name=name,
            count=count,
            roles=frozenset(roles) or frozenset({"broker"}),
            settings=tuple(settings),
            volumes=volumes,
            share_volumes=share_volumes,
        )
    )
    taking.kafka_version = taking.kafka_version or _version_of(image)
    if _SAMPLE_FILE.search(image) or any(name.startswith("KAFKA_CFG_") for name in variables):
        for setting, value in _OF_SAMPLE_FILE.items():
            if setting not in given:
                taking.default("broker", setting, value, "the image")


def _as_variable(prefix: str, scope: Scope, name: str, value: str) -> str | None:
    return f"{variable_of(prefix, name)}={value}" if scope == "broker" else None


def _take_topics(taking: Taking, value: str) -> None:
    """Take `KAFKA_CREATE_TOPICS`: `name:partitions:replicas[:cleanup.policy]`, several of them."""
    for one in re.split(r"[,\s]+", value):
        name, *rest = one.strip(" '\"").split(":")
        partitions, replicas = ([*rest, "", ""])[:2]
        if name and replicas.isdecimal():
            count = int(partitions) if partitions.isdecimal() else None
            taking.topics.append(FoundTopic(name, int(replicas), count))


def _version_of(image: str) -> str | None:
    """Return the version of Kafka in an image, by its tag; Confluent's 7.x is Kafka's 3.x."""
    found = _TAG.search(image)
    if not found:
        return None
    major, minor, patch = int(found[1]), int(found[2]), found[3]
    if _CONFLUENT_IMAGE.search(image):
        first = _OF_CONFLUENT.get(major)
        return f"{first[0]}.{first[1] + minor}" if first else None
    if not re.search(r"apache/kafka|bitnami|kafka-native", image):
        return None
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


def _take_connect(taking: Taking, variables: Mapping[LineText, str]) -> bool:
    """Take the settings of a worker of Kafka Connect, `CONNECT_PRODUCER_ACKS=all`."""
    pairs = [
        (LineText(dotted(name.removeprefix("CONNECT_")), name.line), value)
        for name, value in variables.items()
        if name.startswith("CONNECT_")
    ]
    taken = take_framework(pairs, taking)
    if taken:
        taking.spelling = _as_connect
    return taken


def _as_connect(scope: Scope, name: str, value: str) -> str:
    return f"{variable_of(f'CONNECT_{scope.upper()}_', name)}={value}"


def share_settings(taking: Taking) -> None:
    """Make those settings of the nodes that all brokers have settings of the file.

    Where brokers differ in one that decides about guarantees, the first one's counts.
    """
    brokers = [node for node in taking.nodes if "broker" in node.roles]
    if not brokers:
        return
    values = [{one.name: one.value for one in node.settings} for node in brokers]
    shared = {
        name for name, value in values[0].items() if all(one.get(name) == value for one in values)
    }
    for one in brokers[0].settings:
        if one.name in shared:
            taking.take_found(one)
    differing = sorted(
        {
            one.name
            for node in brokers
            for one in node.settings
            if one.name not in shared and one.name in _DECIDING
        }
    )
    for name in differing:
        texts = [
            f"{node.name} {one.get(name, 'none')}"
            for node, one in zip(brokers, values, strict=True)
        ]
        taking.note(f"brokers differ in {name}: {format_list(texts)}; the first one's counts")
        for setting in brokers[0].settings:
            if setting.name == name:
                taking.take_found(setting)


_DECIDING: Final = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "auto.create.topics.enable",
)
