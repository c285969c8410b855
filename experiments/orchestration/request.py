"""What a DAG run is asked for: the trigger form's fields, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.errors import ExperimentError
from experiments.ledger.record import Scalar
from experiments.spec.errors import sentence
from experiments.spec.override import Wishes, parse_override
from experiments.spec.reading import parse_values
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


class Request(BaseModel):
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
    def of(cls, form: Mapping[str, Any]) -> Request:
        """Return the request that a form's fields make.

        Raises:
            ExperimentError: a field is unknown or of the wrong type; one line. Airflow itself takes unknown fields in silence.
        """
        try:
            return cls.model_validate(dict(form))
        except ValidationError as error:
            raise ExperimentError(f"the run's parameters: {sentence(error, cls)}") from error

    def wishes(self) -> Wishes:
        """Return what is to be other than the experiment has it.

        Raises:
            InputError: as `axes`.
        """
        return Wishes(self.axes(), self.repeats, self.seed, {"on": True, "off": False}.get(self.controls))

    def axes(self) -> dict[str, tuple[Scalar, ...]]:
        """Return the values by axis.

        Raises:
            InputError: an axis is named twice, or `set` holds no `axis=values`.
        """
        axes = {AXES[field]: _values(field, value) for field in AXES if (value := getattr(self, field)) not in (None, [], "")}
        for axis, values in map(parse_override, self.set or ()):
            if axis in axes:
                raise InputError(f"{axis} is given twice: write all its values in one place")
            axes[axis] = values
        return axes


def _values(field: str, given: list[str] | str | float) -> tuple[Scalar, ...]:
    if isinstance(given, float):
        return (given,)
    return parse_values(",".join(given) if isinstance(given, list) else given, field)
