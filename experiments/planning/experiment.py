"""An experiment file as a value: its keys, their types and their bounds. What the names in it mean is `experiments.planning.axes`'s."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    Strict,
    ValidationError,
)

from experiments.clients.record.layout import HEADER_BYTES
from experiments.errors import ExperimentError, UnknownName
from experiments.messages.phrases import did_you_mean
from experiments.messages.validation import describe_validation_error
from experiments.planning import yaml_reader
from experiments.sweep.plan import AutoOffsetReset, Claim, Delivery

# ---------- Is this a cron expression? Five fields as crontab(5) has them, or one of the nicknames that Airflow takes.


NICKNAMES: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905 - shorter to read
_DAYS: Final = "sun mon tue wed thu fri sat".split()  # noqa: SIM905 - shorter to read
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ITEM: Final = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")


def cron(given: object) -> object:
    """Return the expression with single spaces; what is no text is left to the caller.

    Raises:
        ValueError: it is no cron expression; says what would be one.
    """
    if not isinstance(given, str):
        return given
    fields = given.split()
    if given in NICKNAMES:
        return given
    if len(fields) != len(_FIELDS):
        raise ValueError(f"five cron fields, like '0 3 * * *', or one of {', '.join(NICKNAMES)}")
    for text, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        if not all(_fits(item.lower(), low, high, names) for item in text.split(",")):
            raise ValueError(
                f"{low}-{high}, *, lists, ranges and steps as the {name}, which is {text!r}"
            )
    return " ".join(fields)


def _fits(item: str, low: int, high: int, names: dict[str, int]) -> bool:
    found = _ITEM.fullmatch(item)
    if not found or found["step"] == "0":
        return False
    ends = [
        names.get(end, int(end) if end.isdecimal() else -1)
        for end in (found["low"], found["high"])
        if end
    ]
    return all(low <= end <= high for end in ends) and ends == sorted(ends)


def _value(given: object) -> str | int | float | bool:
    if isinstance(given, (str, int, float)):
        return given
    raise ValueError("one value: text, a number, true or false")


def _values(given: object) -> tuple[object, ...]:
    """Return what an axis runs through; a single value is an axis of one."""
    listed = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if not listed:
        raise ValueError("at least one value")
    return listed


def _crosses(given: object) -> object:
    """Return the cross products; a single mapping is a union of one."""
    return (given,) if isinstance(given, Mapping) else given


def _one_line(given: str) -> str:
    if "\n" in given.strip():
        raise ValueError("one line")
    return given.strip()


Value = Annotated[str | int | float | bool, PlainValidator(_value)]
Properties = dict[str, Value]
Axes = dict[str, Annotated[tuple[Value, ...], BeforeValidator(_values)]]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Text = Annotated[str, Strict(), Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class WorkloadSection(_Part):
    """The load of every trial: open loop, from all producers together."""

    rate_records_per_s: Number = Field(default=10_000.0, gt=0, le=10_000_000)
    record_size_bytes: Whole = Field(default=100, ge=HEADER_BYTES, le=1_000_000)
    duration_s: Number = Field(default=10.0, gt=0, le=86_400)
    keys: Whole = Field(default=64, ge=0, le=2**31 - 1)
    pairs: Literal["none", "own", "common"] = "none"
    pair_apart_records: Whole = Field(default=1, ge=1, le=1_000_000)
    hot_key_share: Number = Field(default=0.0, ge=0, lt=1)
    round_robin: Annotated[bool, Strict()] = False
    placement: Annotated[bool, Strict()] = False
    producers: Whole = Field(default=1, ge=1, le=64)
    transaction_records: Whole = Field(default=0, ge=0, le=1_000_000)
    abort_every: Whole = Field(default=0, ge=0, le=1_000_000)
    consumers: Whole = Field(default=0, ge=0, le=64)
    record_serving_brokers: Annotated[bool, Strict()] = False
    headers: Whole = Field(default=0, ge=0, le=9)
    groups: Whole = Field(default=1, ge=1, le=16)
    slow_members: Whole = Field(default=0, ge=0, le=64)
    slow_records_per_s: Number = Field(default=0.0, ge=0, le=10_000_000)
    auto_offset_reset: AutoOffsetReset = "earliest"
    commit: Literal["before", "after"] = "after"
    commit_every_records: Whole = Field(default=500, ge=1, le=100_000)
    kind: Literal["produce", "copy"] = "produce"
    copiers: Whole = Field(default=0, ge=0, le=64)
    delivery: Delivery = "at-least-once"


class Experiment(_Part):
    """One question, as its file puts it. The keys of the file are the aliases, or the names where there is none."""

    name: Annotated[str, Strict()] = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)
    title: Annotated[
        Text, BeforeValidator(lambda given: _one_line(given) if isinstance(given, str) else given)
    ]
    question: Text
    claim: Claim | None = None
    """What the lessons say of it, where it is one of theirs."""
    kafka_version: Text = Field(default="4.3.1", alias="kafka.version")
    nodes: Whole = Field(default=3, ge=1, le=9)
    """Brokers."""
    cluster: Literal["local", "external"] = "local"
    """Whose it is: made for the sweep on this machine, or somebody else's."""
    bootstrap_servers: Text | None = Field(default=None, alias="bootstrap.servers")
    """Of an external cluster."""
    security: Properties = Field(default_factory=dict)
    """How clients prove to an external cluster who they are: librdkafka's properties, a secret as `$NAME` of an environment variable."""
    coordination: Text = "kraft"
    """What holds the metadata: `kraft` or `zookeeper`."""
    controllers: Whole = Field(default=0, ge=0, le=9)
    """Nodes that are controllers and nothing else; 0: each broker is one too."""
    zookeeper_nodes: Whole | None = Field(default=None, alias="zookeeper.nodes")
    eligible_leader_replicas: Whole | None = Field(
        default=None, alias="eligible.leader.replicas.version"
    )
    group_version: Whole | None = Field(default=None, alias="group.version")
    transaction_version: Whole | None = Field(default=None, alias="transaction.version")
    client: Text = "librdkafka"
    """Whose clients are under test: `librdkafka` or `java`."""
    client_defaults: Annotated[bool, Strict()] = Field(default=False, alias="client.defaults")
    """Whether they keep their own defaults, but for what the experiment says."""
    axes: Annotated[tuple[Axes, ...], BeforeValidator(_crosses)] = Field(min_length=1)
    """A union of cross products."""
    producer: Properties = Field(default_factory=dict)
    consumer: Properties = Field(default_factory=dict)
    topic: Properties = Field(default_factory=dict)
    broker: Properties = Field(default_factory=dict)
    workload: WorkloadSection = Field(default_factory=WorkloadSection)
    faults: dict[str, Properties] = Field(default_factory=dict)
    """Parameters of faults, by kind; what is not named has the fault's own default."""
    repeats: Whole = Field(default=1, ge=1, le=1024)
    seed: Whole = Field(default=42, ge=0, lt=2**63)
    controls: Annotated[bool, Strict()] = True
    """Whether the sweep holds a cell in which nothing may be lost and one in which something must."""
    schedule: Annotated[Text, BeforeValidator(cron)] | None = None
    """A cron expression; an experiment that has one is run by the scheduler."""

    def of_cluster(self, name: str) -> str | int | None:
        """Return what the file says under a key of the cluster's; `None`: nothing.

        Raises:
            KeyError: it is no such key.
        """
        said: dict[str, str | int | None] = {
            "nodes": self.nodes,
            "kafka.version": self.kafka_version,
            "coordination": self.coordination,
            "controllers": self.controllers,
            "zookeeper.nodes": self.zookeeper_nodes,
            "eligible.leader.replicas.version": self.eligible_leader_replicas,
            "group.version": self.group_version,
            "transaction.version": self.transaction_version,
        }
        return said[name]

    def to_yaml(self) -> str:
        """Return the file that reads back as this experiment, every key in it."""
        return yaml_reader.dump(self.model_dump(mode="json", by_alias=True, exclude_none=True))


def experiment_of(data: Any, source: str) -> Experiment:
    """Return the experiment that parsed YAML describes.

    Args:
        data: what the YAML held.
        source: the file's name, for the message.

    Raises:
        ExperimentError: a key is unknown or missing, a type wrong, a value out of bounds; one line with file, key, value and what is allowed.
    """
    if not isinstance(data, Mapping):
        raise ExperimentError(
            f"{source}: holds {_kind_of(data)}; an experiment is a mapping with the keys name, title, question, axes, ..."
        )
    try:
        return Experiment.model_validate({_text_key(key): value for key, value in data.items()})
    except ValidationError as error:
        raise ExperimentError(f"{source}: {describe_validation_error(error, Experiment)}") from error


def read_experiment(path: Path) -> Experiment:
    """Return the experiment in a file; what its names mean is not looked at yet.

    Raises:
        ExperimentError: it cannot be read, is no YAML or no experiment.
    """
    return experiment_of(yaml_reader.read(path), str(path))


def _kind_of(data: object) -> str:
    return (
        "nothing"
        if data is None
        else "a list"
        if isinstance(data, list)
        else f"one value ({re.sub(chr(10), ' ', str(data))[:40]!r})"
    )


def _text_key(key: object) -> str:
    return {True: "on", False: "off"}.get(key, str(key)) if isinstance(key, bool) else str(key)


# ---------- Finding experiments: by name in the catalogue, or in a file of one's own.


CATALOG: Final = Path(__file__).parents[1] / "catalog"


def catalogue() -> tuple[Experiment, ...]:
    """Return the catalogue's experiments, by name.

    Raises:
        ExperimentError: an entry is no experiment.
    """
    return tuple(read_experiment(path) for path in sorted(CATALOG.glob("*.yaml")))


def names() -> tuple[str, ...]:
    """Return the catalogue's names; no file is read."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.yaml")))


def load(name_or_file: str) -> Experiment:
    """Return an experiment of the catalogue, or of a file: what ends in `.yaml` or `.yml` or holds a slash is one.

    Raises:
        UnknownName: the catalogue has no such name; the text names the nearest.
        ExperimentError: the file cannot be read or is no experiment.
    """
    if "/" in name_or_file or name_or_file.endswith((".yaml", ".yml")):
        return read_experiment(Path(name_or_file).expanduser())
    if name_or_file not in names():
        raise UnknownName(
            f"unknown experiment {name_or_file}{did_you_mean(name_or_file, names())} (`ackbench list`; a file's name ends in .yaml)"
        )
    return read_experiment(CATALOG / f"{name_or_file}.yaml")
