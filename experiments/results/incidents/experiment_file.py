"""The experiment that asks a cluster what an incident did, as a file that its reader completes.

What the logs and files say is taken; what they cannot say is a question in a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.messages.visible import visible
from ackbench.experiments.planning.axes import SET_BY_ACKBENCH, Scope
from ackbench.experiments.planning.cluster import MAX_NODES
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.properties import (
    kafka_properties,
    known_versions,
    nearest_version,
)
from ackbench.experiments.planning.yaml_reader import dump_yaml, parse_yaml
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.incidents.likeness import Likeness
from ackbench.experiments.results.incidents.node_outages import Incident
from ackbench.experiments.results.incidents.sightings import Kind
from ackbench.experiments.trial.faults import FAULTS

_AT_S: Final = 5.0
_MOST_CHARACTERS: Final = 150
"""Of a line that is quoted."""
_DURATIONS_S: Final = (20, 40, 60, 120, 300)
_REPEATS: Final = 20
_DEFAULT_NODES: Final = 3
_OF_MACHINES: Final = (
    "dir",
    "listener",
    "ssl.",
    "sasl.",
    "security.",
    "jaas",
    "host",
    "port",
    "path",
)
"""Parts of names of what is not repeated here: another machine's folders, addresses and keys."""


@dataclass(frozen=True)
class IncidentFile:
    """The experiment's text, and what its reader has to answer."""

    name: str
    text: str
    questions: tuple[str, ...]
    problem: str = ""
    """Why ackbench would refuse it as it is; empty: it can be run."""


@dataclass
class _Draft:
    document: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)
    """By key: what stands above it."""
    questions: list[str] = field(default_factory=list)

    def ask(self, key: str, question: str) -> None:
        self.questions.append(question)
        self.comments[key] = question


def experiment_of(
    incident: Incident,
    likeness: Likeness | None,
    configuration: Configuration | None = None,
    guarantee: str = "lost",
) -> IncidentFile:
    """Return the experiment that asks the same of a cluster.

    Args:
        incident: what the logs say.
        likeness: the fault that is most like it; `None`: none is.
        configuration: the settings of configuration files; `None`: there were none.
        guarantee: the measure that is to be 0, such as `lost` or `duplicates`.
    """
    begun_s = likeness.at_s if likeness else incident.begin_s or incident.end_s
    name = f"incident-{datetime.fromtimestamp(begun_s, UTC):%Y%m%d-%H%M%S}"
    draft = _Draft({"name": name})
    fault = likeness.fault if likeness else "none"
    happened = "; ".join(likeness.reasons) if likeness else "no fault was recognised"
    draft.document |= {
        "title": f"What does an incident such as that of {name.removeprefix('incident-')} do?",
        "question": f"In the incident: {happened}. Are records {guarantee} with these settings?",
    }
    _add_cluster(draft, incident, configuration)
    _add_clients(draft, configuration, _printed(incident, "ProducerConfig"))
    draft.document["axes"] |= {"fault": fault}
    _add_fault(draft, likeness)
    draft.document["expect"] = {guarantee: 0}
    draft.comments["expect"] = (
        "The guarantee in question; each cell that does not meet it is named."
    )
    draft.document["repeats"] = _REPEATS
    problem = _fit_duration(draft)
    if _UNNOTICED in problem:
        _shorten_waiting(draft)
        problem = _fit_duration(draft)
    return IncidentFile(name, _text(draft, incident, likeness), tuple(draft.questions), problem)


def _add_cluster(draft: _Draft, incident: Incident, configuration: Configuration | None) -> None:
    versions = [one.detail for one in incident.of(Kind.VERSION, before=True) if one.by is not None]
    if not versions and configuration:
        versions = [configuration.kafka_version]
    version = versions[-1] if versions else None
    if version:
        draft.document["kafka.version"] = nearest_version(version)
        if nearest_version(version) != version:
            draft.comments["kafka.version"] = f"It was {version}, which ackbench does not start."
    else:
        draft.ask("kafka.version", "Which version did the brokers run? The logs do not say.")
        draft.document["kafka.version"] = known_versions()[-1]
    nodes = incident.total_brokers or (configuration.nodes if configuration else _DEFAULT_NODES)
    if not incident.total_brokers and not configuration:
        draft.questions.append("How many brokers does the cluster have?")
    draft.document["nodes"] = min(max(nodes, 1), MAX_NODES)
    if nodes > MAX_NODES:
        draft.comments["nodes"] = f"There were {nodes}; this machine starts {MAX_NODES} at most."
    isr = [len(one.isr) for one in incident.of(Kind.ISR, Kind.NEW_LEADER, before=True) if one.isr]
    factor = configuration.replication_factor if configuration else None
    replicas = factor or max(isr, default=0)
    draft.document["axes"] = {"replication.factor": min(replicas or 3, draft.document["nodes"])}
    if not replicas:
        draft.questions.append("How many replicas do the topics have?")
    partitions = configuration.partitions if configuration else 1
    draft.document["axes"]["partitions"] = max(partitions, 1)
    broker = {
        **_printed(incident, "KafkaConfig"),
        **(configuration.broker if configuration else {}),
    }
    known = kafka_properties(draft.document["kafka.version"])
    draft.document["broker"] = _differing(
        broker, {one.name: one.default for one in known.broker}, SET_BY_ACKBENCH[Scope.BROKER]
    )
    draft.document["topic"] = {
        **_min_in_sync(incident),
        **(configuration.topic if configuration else {}),
    }
    if not broker:
        draft.ask("broker", "Which settings do the brokers have? Their start is not in the logs.")


def _min_in_sync(incident: Incident) -> dict[str, int]:
    """Return what brokers said that they required, where a leader had fewer replicas in sync."""
    required = [int(one.detail) for one in incident.of(Kind.TOO_FEW_REPLICAS)]
    return {"min.insync.replicas": required[-1]} if required else {}


def _add_clients(
    draft: _Draft, configuration: Configuration | None, printed: Mapping[str, str]
) -> None:
    producer = {**printed, **(configuration.producer if configuration else {})}
    axes = draft.document["axes"]
    if configuration:
        draft.document["client"] = configuration.client
    elif printed:
        draft.document["client"] = "java"
    if "acks" in producer:
        axes["acks"] = parse_yaml(producer.pop("acks"), "acks")
    else:
        axes["acks"] = "all"
        draft.questions.append("Which acks do the producers use? all is the default of clients.")
    if "enable.idempotence" in producer:
        axes["enable.idempotence"] = producer.pop("enable.idempotence") == "true"
    else:
        axes["enable.idempotence"] = [False, True]
        draft.questions.append("Are the producers idempotent? Both are tried.")
    own, known = SET_BY_ACKBENCH[Scope.PRODUCER], kafka_properties(draft.document["kafka.version"])
    configured = configuration.producer if configuration else {}
    draft.document["producer"] = {
        **_differing(producer, {one.name: one.default for one in known.producer}, own),
        **_differing(producer, dict.fromkeys(configured, ""), own),
    }
    draft.document["workload"] = {"duration_s": _DURATIONS_S[0]}
    draft.ask("workload", "How much do the producers send? rate_records_per_s, record_size_bytes.")


_REPEATED: Final = frozenset(
    {
        *("delivery.timeout.ms", "request.timeout.ms", "max.block.ms", "linger.ms", "batch.size"),
        *("max.in.flight.requests.per.connection", "retries", "retry.backoff.ms"),
        *("compression.type", "buffer.memory"),
    }
)
"""The settings of a producer that matter here, of all that Java prints."""


def _printed(incident: Incident, head: str) -> dict[str, str]:
    """Return the settings that programs printed when they started; of several, the last."""
    found: dict[str, str] = {}
    for log in incident.logs:
        found |= log.file.settings.get(head, {})
    if head != "ProducerConfig":
        return found
    kept = {*_REPEATED, "acks", "enable.idempotence"}
    return {name: value for name, value in found.items() if name in kept}


def _differing(
    values: Mapping[str, str], defaults: Mapping[str, str], own: frozenset[str]
) -> dict[str, Any]:
    """Return what differs from defaults and is not of one machine."""
    return {
        name: parse_yaml(_plain(value), name)
        for name, value in sorted(values.items())
        if name in defaults
        and _plain(value) not in {_plain(defaults[name]), "null", ""}
        and name not in own
        and not value.startswith("class ")
        and not any(part in name for part in _OF_MACHINES)
    }


def _plain(value: str) -> str:
    """Return a value as files have it: Java prints a list as `[a, b]`."""
    is_list = value.startswith("[") and value.endswith("]")
    return ",".join(map(str.strip, value[1:-1].split(","))) if is_list else value


def _add_fault(draft: _Draft, likeness: Likeness | None) -> None:
    if likeness is None:
        draft.questions.append("What happened? No fault was recognised (ackbench faults).")
        return
    known = FAULTS[likeness.fault].parameters.model_fields
    parameters = {name: value for name, value in likeness.parameters.items() if name in known}
    if "at_s" in known:
        parameters = {"at_s": _AT_S, **parameters}
    draft.document["faults"] = {likeness.fault: parameters}


def _fit_duration(draft: _Draft) -> str:
    """Give the load a duration that outlasts the fault; return why the experiment is refused."""
    problem = ""
    for duration_s in _DURATIONS_S:
        draft.document["workload"] = {"duration_s": duration_s}
        try:
            plan(parse_experiment(draft.document, draft.document["name"]), "incident")
        except ExperimentError as error:
            problem = one_line(str(error))
            continue
        return ""
    return problem


_UNNOTICED: Final = "would go unnoticed"
"""The planner refuses a pause during which a client only waits."""
_WAITING: Final = {"java": "request.timeout.ms"}


def _shorten_waiting(draft: _Draft) -> None:
    name = _WAITING.get(draft.document.get("client", ""), "socket.timeout.ms")
    draft.document["producer"] = {**draft.document["producer"], name: 1000}
    draft.comments["producer"] = (
        f"{name} is below the pause, or the client would only wait: what was it in the incident?"
    )


def _text(draft: _Draft, incident: Incident, likeness: Likeness | None) -> str:
    return "\n".join([*_head(incident, likeness), *_body(draft)]) + "\n"


def _head(incident: Incident, likeness: Likeness | None) -> Iterator[str]:
    yield "# Written by `ackbench reproduce` from:"
    for log in incident.logs:
        yield f"#   {visible(log.file.name)}"
    for one in likeness.evidence[:5] if likeness else ():
        yield visible(f"# {one.source}: {one.text[:_MOST_CHARACTERS]}")


def _body(draft: _Draft) -> Iterator[str]:
    for key, value in draft.document.items():
        if value in ({}, None):
            continue
        if comment := draft.comments.get(key):
            yield f"# {comment}"
        yield dump_yaml({key: value}).rstrip()
