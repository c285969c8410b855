"""What a DAG run is asked for: the trigger form's fields, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airflow.sdk import Param
from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.errors import ExperimentError
from experiments.ledger.record import Scalar
from experiments.messages.validation import describe_validation_error
from experiments.planning.overrides import Overrides, parse_override
from experiments.planning.yaml_reader import parse_values
from infra.errors import InputError

AXES = {
    "acks": "acks",
    "idempotence": "enable.idempotence",
    "replication_factor": "replication.factor",
    "partitions": "partitions",
    "fault": "fault",
    "client": "client",
    "client_defaults": "client.defaults",
    "rate_records_per_s": "workload.rate_records_per_s",
    "duration_s": "workload.duration_s",
}
"""Fields of the form that are axes, and the axis's name."""

Controls = Literal["as the experiment has it", "on", "off"]
"""A drop-down: Airflow's page has no field for "yes, no or nothing said"."""


class SweepRequest(BaseModel):
    """The form, filled in; a field left empty is as the experiment has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: str
    acks: list[str] | None = None
    idempotence: list[str] | None = None
    replication_factor: str | None = None
    partitions: str | None = None
    fault: list[str] | None = None
    client: list[str] | None = None
    client_defaults: list[str] | None = None
    rate_records_per_s: float | None = None
    duration_s: float | None = None
    repeats: int | None = None
    seed: int | None = None
    controls: Controls = "as the experiment has it"
    set: list[str] | None = None
    """`axis=value1,value2`, an axis or property each."""
    sweep_id: str | None = None
    """A sweep that is planned already: to be gone on with, all other fields left alone."""

    @classmethod
    def of(cls, form: Mapping[str, Any]) -> SweepRequest:
        """Return the request that a form's fields make.

        Raises:
            ExperimentError: a field is unknown or of the wrong type; one line. Airflow itself takes unknown fields in silence.
        """
        try:
            return cls.model_validate(dict(form))
        except ValidationError as error:
            raise ExperimentError(
                f"the run's parameters: {describe_validation_error(error, cls)}"
            ) from error

    def overrides(self) -> Overrides:
        """Return what is to be other than the experiment has it.

        Raises:
            InputError: as `axes`.
        """
        return Overrides(
            self.axes(), self.repeats, self.seed, {"on": True, "off": False}.get(self.controls)
        )

    def axes(self) -> dict[str, tuple[Scalar, ...]]:
        """Return the values by axis.

        Raises:
            InputError: an axis is named twice, or `set` holds no `axis=values`.
        """
        axes = {
            AXES[field]: _values(field, value)
            for field in AXES
            if (value := getattr(self, field)) not in (None, [], "")
        }
        for axis, values in map(parse_override, self.set or ()):
            if axis in axes:
                raise InputError(f"{axis} is given twice: write all its values in one place")
            axes[axis] = values
        return axes


def _values(field: str, given: list[str] | str | float) -> tuple[Scalar, ...]:
    if isinstance(given, float):
        return (given,)
    return parse_values(",".join(given) if isinstance(given, list) else given, field)


# ---------- The trigger form: Airflow draws it from these Params, and refuses what does not fit them.


NUMBERS = r"^ *\d+ *(, *\d+ *)*$"
AS_IT_IS = "Empty: as the experiment has it."


def form(experiments: Sequence[str], faults: Sequence[str], chosen: str) -> dict[str, Param]:
    """Return the fields; `experiments.orchestration.request` reads them.

    Args:
        experiments: the catalogue's names, offered beside any path of a YAML file.
        faults: the kinds of fault, to choose from.
        chosen: the experiment that is filled in.
    """
    return {
        "experiment": Param(
            chosen,
            type="string",
            minLength=1,
            title="Experiment",
            description="A name of the catalogue, or the path of a YAML file on the machine that runs the tasks.",
            examples=list(experiments),
        ),
        "acks": _choice("acks", ("0", "1", "all")),
        "idempotence": _choice("enable.idempotence", ("false", "true")),
        "replication_factor": _numbers("replication.factor"),
        "partitions": _numbers("partitions"),
        "fault": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "minLength": 1},
            examples=list(faults),
            title="fault",
            description=f"Axis; any of them. {AS_IT_IS} Joined faults and parameters go below: `fault=leader-crash(at_s=1) >> follower-pause`.",
        ),
        "client": _choice("client", ("librdkafka", "java")),
        "client_defaults": _choice("client.defaults", ("false", "true")),
        "rate_records_per_s": _number(
            "Rate", "Records per second, of all producers together.", 10_000_000
        ),
        "duration_s": _number("Duration", "Seconds of load in each trial.", 86_400),
        "repeats": _whole("Repeats", "Trials of each cell.", 1, 1024),
        "seed": _whole("Seed", "Decides keys, order and timing.", 0, 2**53 - 1),
        "controls": Param(
            "as the experiment has it",
            type="string",
            enum=["as the experiment has it", "on", "off"],
            title="Controls",
            description="A cell in which nothing may be lost, and one in which something must: whether the figures can be believed.",
        ),
        "set": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^[^=]+=.+$"},
            title="Other axes and properties",
            description="One a line: `linger.ms=0,50`, `workload.record_size_bytes=1000`, `broker.broker.session.timeout.ms=6000`.",
        ),
        "sweep_id": Param(
            None,
            type=["null", "string"],
            title="Sweep to go on with",
            description="Normally empty. The id of a sweep that was planned already: its missing trials are run, and the fields above are left alone.",
            section="Go on",
        ),
    }


def _choice(axis: str, values: Sequence[str]) -> Param:
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "enum": list(values)},
        examples=list(values),
        title=axis,
        description=f"Axis; any of them. {AS_IT_IS}",
    )


def _numbers(axis: str) -> Param:
    return Param(
        None,
        type=["null", "string"],
        pattern=NUMBERS,
        title=axis,
        description=f"Axis; whole numbers, like `1,3`. {AS_IT_IS}",
    )


def _number(title: str, description: str, maximum: float) -> Param:
    return Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        maximum=maximum,
        title=title,
        description=f"{description} {AS_IT_IS}",
    )


def _whole(title: str, description: str, minimum: int, maximum: int) -> Param:
    return Param(
        None,
        type=["null", "integer"],
        minimum=minimum,
        maximum=maximum,
        title=title,
        description=f"{description} {AS_IT_IS}",
    )
