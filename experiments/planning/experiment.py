"""The model of an experiment file: its keys, with their types, bounds and defaults.

The names of axes, properties and faults are resolved later, by `experiments.planning.axes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, Strict, ValidationError, field_validator

from ackbench.experiments.ledger.moved import SIZES, is_absent, moved_parameters, moved_settings
from ackbench.experiments.ledger.trial_manifest import Boolean, Frozen, Scalar, WholeNumber
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.field_types import (
    AlertCondition,
    AxesUnion,
    Cron,
    ExpectUnion,
    FaultSection,
    KafkaVersion,
    Line,
    Properties,
    Text,
)
from ackbench.experiments.planning.properties import newest_patch
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, ClientKind
from ackbench.experiments.sweep.cluster_kinds import CLUSTER_KINDS, ClusterKind, ClusterTraits
from ackbench.experiments.sweep.plan import Claim
from ackbench.experiments.sweep.workload import LOAD_SECTIONS, LoadSections, ProducerLoad
from ackbench.experiments.trial.clients.record.layout import HEADER_BYTES
from ackbench.experiments.trial.faults.operations.commands import COMMAND

_KAFKA_VERSION: Final = "kafka.version"


class WorkloadSection(ProducerLoad):
    """The load of the producers of every trial, of values that ackbench's own ones write."""

    record_size_bytes: WholeNumber = Field(default=100, ge=HEADER_BYTES, le=1_000_000)


class ClientProgram(Frozen):
    """A program of the experiment's own as producer and consumer (`docs/clients.md`)."""

    name: ClientKind
    version: Text | None = None
    """Of its library, as its tables name it; `None`: what the program reports."""
    command: tuple[Text, ...] = Field(min_length=1)
    """The program and its arguments, without a shell; the role and its options follow."""


class KnownBug(Frozen):
    """A bug that others have reported, and that the experiment is to show."""

    report: Annotated[str, Strict()] = Field(pattern=r"^https://\S+$")
    """The public report."""
    affected: Line
    """Releases, as the report or the changelog has it."""
    fixed: Line
    mechanism: Text


class Experiment(LoadSections):
    """One question, with the settings to sweep. The file's keys are the aliases, where given."""

    name: Annotated[str, Strict()] = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)
    title: Line
    question: Text
    construction: Text | None = None
    """Where the experiment's own construction decides the outcome, in one sentence.

    Every experiment of the catalogue has it.
    """
    claim: Claim | None = None
    """The lesson's claim that this experiment tests, if it tests one."""
    bug: KnownBug | None = None
    """The known bug that this experiment is to show, if it is to show one."""
    kafka_version: KafkaVersion = Field(default="4.3.1", alias="kafka.version")
    nodes: WholeNumber = Field(default=3, ge=1, le=9)
    """Number of brokers."""
    cluster: ClusterKind = "local"
    """`local`: started for the sweep on this machine. `external`: an existing cluster."""
    bootstrap_servers: Text | None = Field(default=None, alias="bootstrap.servers")
    """Addresses of the external cluster, `host:port,...`."""
    security: Properties = Field(default_factory=dict)
    """librdkafka's security properties for the external cluster.

    A secret is the name of an environment variable, as in `$NAME`.
    """
    token_command: tuple[Text, ...] = ()
    """A command that prints a token for OAUTHBEARER: a program and its arguments, without a shell.

    Only for `ackbench run` with a file, as `allow_code`.
    """
    coordination: Text = "kraft"
    """Where the metadata is kept: `kraft` or `zookeeper`."""
    controllers: WholeNumber | None = Field(default=None, ge=0, le=9)
    """Number of dedicated controllers; 0: each broker is also a controller (combined mode).

    `None`: see `experiments.planning.cluster.default_controllers`.
    """
    zookeeper_nodes: WholeNumber | None = Field(default=None, alias="zookeeper.nodes")
    eligible_leader_replicas: WholeNumber | None = Field(
        default=None, alias="eligible.leader.replicas.version"
    )
    group_version: WholeNumber | None = Field(default=None, alias="group.version")
    transaction_version: WholeNumber | None = Field(default=None, alias="transaction.version")
    client: Text | ClientProgram = DEFAULT_CLIENT
    """The clients under test: `librdkafka`, `java`, an adapter, or a program."""
    clients: tuple[ClientProgram, ...] = ()
    """Further programs, which an axis `client` names.

    Programs are only for `ackbench run` with a file, as `allow_code`.
    """
    client_version: Text | None = Field(default=None, alias="client.version")
    """The clients' release; `None`: the installed librdkafka, Java's clients of the brokers'."""
    client_defaults: Boolean = Field(default=False, alias="client.defaults")
    """Whether the clients keep their own defaults for properties that the experiment omits."""
    axes: AxesUnion = Field(min_length=1)
    producer: Properties = Field(default_factory=dict)
    consumer: Properties = Field(default_factory=dict)
    topic: Properties = Field(default_factory=dict)
    broker: Properties = Field(default_factory=dict)
    workload: WorkloadSection = Field(default_factory=WorkloadSection)
    faults: dict[str, FaultSection] = Field(default_factory=dict)
    """Parameters of faults, by fault; omitted parameters have the fault's own defaults.

    A section with `kind: command` is a fault of the experiment's own: commands on an external
    cluster.
    """
    allow_faults: Text | None = None
    """Id of the external cluster that commands may inject faults into."""
    allow_code: Boolean = False
    """Whether properties may name libraries, commands and classes of others than Kafka.

    Only for `ackbench run` with a file: a sweep that is started by a form cannot have it.
    """
    expect: ExpectUnion = ()
    """What the experiment expects of its cells; see `experiments.planning.expectations`."""
    repeats: WholeNumber = Field(default=1, ge=1, le=1024)
    seed: WholeNumber = Field(default=42, ge=0, lt=2**63)
    controls: Boolean = True
    """Whether a control and a positive control are added to the sweep."""
    schedule: Cron | None = None
    """When the scheduler runs the experiment: a cron expression, UTC."""
    alert_on: tuple[AlertCondition, ...] = ()
    """What a sweep of the experiment is reported for; see `experiments.orchestration.alerts`."""

    @field_validator("axes")
    @classmethod
    def _newest_patches(cls, axes: AxesUnion) -> AxesUnion:
        """Replace lines such as 3.9 by their newest patch, so that equal versions are equal."""
        return tuple(
            {
                name: (
                    tuple(dict.fromkeys(newest_patch(str(value)) for value in values))
                    if name == _KAFKA_VERSION
                    else values
                )
                for name, values in cross.items()
            }
            for cross in axes
        )

    @property
    def client_name(self) -> str:
        """The kind of the clients, in cells that do not name another."""
        return self.client.name if isinstance(self.client, ClientProgram) else self.client

    def all_programs(self) -> tuple[ClientProgram, ...]:
        """Return the experiment's own programs, as the file has them."""
        own = (self.client,) if isinstance(self.client, ClientProgram) else ()
        return (*own, *self.clients)

    @property
    def cluster_traits(self) -> ClusterTraits:
        """The traits of the kind of cluster."""
        return CLUSTER_KINDS[self.cluster]

    def programs(self) -> dict[str, ClientProgram]:
        """Return the experiment's own programs by their names."""
        return {program.name: program for program in self.all_programs()}

    def kafka_versions(self) -> tuple[str, ...]:
        """Return the Kafka versions of all cells, each once, as the experiment spells them."""
        swept = [cross[_KAFKA_VERSION] for cross in self.axes if _KAFKA_VERSION in cross]
        versions = [str(version) for values in swept for version in values]
        if len(swept) < len(self.axes):
            versions.append(self.kafka_version)
        return tuple(dict.fromkeys(versions))

    def commands(self) -> tuple[str, ...]:
        """Return the names of the experiment's own faults, which are commands."""
        return tuple(
            name for name, section in self.faults.items() if section.get("kind") == COMMAND
        )

    def cluster_value(self, key: str) -> str | int | None:
        """Return the value of a key that describes the cluster; `None` if the file omits it.

        Raises:
            KeyError: the key does not describe the cluster.
        """
        values: dict[str, str | int | None] = {
            "nodes": self.nodes,
            "kafka.version": self.kafka_version,
            "coordination": self.coordination,
            "controllers": self.controllers,
            "zookeeper.nodes": self.zookeeper_nodes,
            "eligible.leader.replicas.version": self.eligible_leader_replicas,
            "group.version": self.group_version,
            "transaction.version": self.transaction_version,
        }
        return values[key]

    def section(self, name: str) -> Frozen | None:
        """Return a section of the load by its name in the file."""
        return self.workload if name == "workload" else super().section(name)

    def load_values(self, section: str, axes: Mapping[str, Scalar]) -> dict[str, Scalar] | None:
        """Return the values of a section of the load in a cell, with defaults.

        Args:
            section: its name in the file.
            axes: the values of the cell's axes that are of this section, by the setting's name.

        Returns:
            `None`: the cell is without the section. Neither the file nor an axis has it, or its
            size is 0.
        """
        own = self.section(section)
        if own is None and not axes:
            return None
        values = {**(own or LOAD_SECTIONS[section]()).model_dump(), **axes}
        return None if is_absent(values.get(SIZES.get(section, ""))) else values

    def to_yaml(self) -> str:
        """Return YAML with every key, which parses to an equal experiment."""
        written = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        places = {name: place for place, name in enumerate(written)}
        places |= dict.fromkeys(LOAD_SECTIONS, places["workload"])
        return dump_yaml({name: written[name] for name in sorted(written, key=places.__getitem__)})


def parse_experiment(data: Any, source: str) -> Experiment:
    """Return the experiment that parsed YAML describes.

    Args:
        data: the value that the YAML holds.
        source: name of the file, for the error message.

    Raises:
        ExperimentError: a key is unknown or missing, or a value has the wrong type or is out of
            bounds. One line with the file, the key, the value and what is allowed.
    """
    if not isinstance(data, Mapping):
        raise ExperimentError(
            f"{source}: holds {_describe_data(data)}; "
            "allowed: a mapping with the keys name, title, question, axes, ..."
        )
    written = {_key_text(key): value for key, value in data.items()}
    load, faults = _section(written, "workload"), _section(written, "faults")
    if moved := [*moved_settings(load), *moved_parameters(faults)]:
        raise ExperimentError(f"{source}: {'; '.join(moved)}")
    try:
        return Experiment.model_validate(written)
    except ValidationError as error:
        text = describe_validation_error(error, Experiment, written=written)
        raise ExperimentError(f"{source}: {text}") from error


def _section(written: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a section as it is written; empty if it is none, which the model refuses."""
    section = written.get(key)
    return section if isinstance(section, Mapping) else {}


def _describe_data(data: object) -> str:
    if data is None:
        return "nothing"
    if isinstance(data, list):
        return "a list"
    return f"one value ({re.sub(chr(10), ' ', str(data))[:40]!r})"


def _key_text(key: object) -> str:
    """Return a key as text; YAML reads the keys `on` and `off` as booleans."""
    if isinstance(key, bool):
        return "on" if key else "off"
    return str(key)
