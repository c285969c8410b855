"""The request of a DAG run: the fields of the trigger form, checked before anything starts.

Importing this module does not import Airflow, which takes about 3 s of CPU time. Only
`trigger_form` needs it, and only a DAG file calls that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_value
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.catalog import catalog_names, stored_extents
from ackbench.experiments.planning.overrides import Overrides, parse_override
from ackbench.experiments.planning.yaml_reader import parse_values
from ackbench.experiments.sweep.client_kinds import LIBRARIES
from ackbench.experiments.trial.clients.adapters import adapters
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import SENSITIVE_NAME
from ackbench.infra.machine.paths import is_file, user_path

if TYPE_CHECKING:
    from airflow.sdk import Param

AXES: Final = {
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
"""The attributes of a request that are axes, and their names in the form and in experiments."""

ControlsChoice = Literal["as in the experiment", "on", "off"]
"""A drop-down, because Airflow's form has no field for a boolean that may be unset."""
EXPERIMENTS_VARIABLE: Final = "ACKBENCH_EXPERIMENTS"
"""A folder of YAML files that requests may name, beside the experiments of the catalogue."""
CONTROLS_OF_EXPERIMENT: Final = "as in the experiment"
INTEGERS_PATTERN: Final = r"^ *\d+ *(, *\d+ *)*$"
SETTING_PATTERN: Final = rf"^(?! *(?:[^=]*\.)?{SENSITIVE_NAME} *=)[^=]+=.+$"
"""`axis=values`, and no secret: Airflow would store it with the run before a task reads it."""
_IF_EMPTY: Final = "Empty: as in the experiment."
_MAX_SEED: Final = 2**53 - 1


class SweepRequest(BaseModel):
    """The completed trigger form. An empty field leaves the experiment as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    experiment: str
    acks: list[str] | None = None
    idempotence: list[str] | None = Field(default=None, alias=AXES["idempotence"])
    replication_factor: str | None = Field(default=None, alias=AXES["replication_factor"])
    partitions: str | None = None
    fault: list[str] | None = None
    client: list[str] | None = None
    client_defaults: list[str] | None = Field(default=None, alias=AXES["client_defaults"])
    rate_records_per_s: float | None = Field(default=None, alias=AXES["rate_records_per_s"])
    duration_s: float | None = Field(default=None, alias=AXES["duration_s"])
    repeats: int | None = None
    seed: int | None = None
    controls: ControlsChoice = CONTROLS_OF_EXPERIMENT
    set: list[str] | None = None
    """`axis=value1,value2`; one axis or property each."""
    sweep_id: str | None = None
    """The id of a planned sweep of the home to resume. All other fields are ignored."""

    @classmethod
    def of(cls, form: Mapping[str, Any]) -> SweepRequest:
        """Return the request of a form's fields.

        Raises:
            ExperimentError: a field is unknown or has a wrong type; one line. Airflow itself
                accepts unknown fields.
        """
        try:
            return cls.model_validate(dict(form))
        except ValidationError as error:
            raise ExperimentError(
                f"the run's parameters: {describe_validation_error(error, cls)}"
            ) from error

    def source(self) -> str:
        """Return the experiment to plan: a name of the catalogue, or a file of the operator's.

        Whoever can log in may start a sweep; which files are experiments is up to the operator.

        Raises:
            UnknownName: it is neither; a path is neither, too.
        """
        if self.experiment in catalog_names():
            return self.experiment
        files = offered_files()
        if self.experiment in files:
            return str(files[self.experiment])
        known = (*catalog_names(), *files)
        where = f" and the files of {EXPERIMENTS_VARIABLE}" if files else ""
        raise UnknownName(
            f"unknown experiment {format_value(self.experiment)}"
            f"{did_you_mean(self.experiment, known)} (allowed: names of the catalogue{where}; the "
            f"operator may offer the files of a folder with `ackbench up --experiments FOLDER`)"
        )

    def is_only(self, experiment: str | None) -> bool:
        """Return whether this requests an experiment as it is in its file.

        Args:
            experiment: the name of the experiment; `None`: no.
        """
        return experiment is not None and self == SweepRequest(experiment=experiment)

    def overrides(self) -> Overrides:
        """Return the request's changes to the experiment.

        Raises:
            InputError: as `axes`.
        """
        controls = {"on": True, "off": False}.get(self.controls)
        return Overrides(self.axes(), self.repeats, self.seed, controls, from_form=True)

    def axes(self) -> dict[str, tuple[Scalar, ...]]:
        """Return the values of each axis that the request changes.

        Raises:
            InputError: an axis is given twice, or an entry of `set` is not `axis=values`.
        """
        axes = {
            AXES[field]: _parse(field, value)
            for field in AXES
            if (value := getattr(self, field)) not in (None, [], "")
        }
        for axis, values in map(parse_override, self.set or ()):
            if axis in axes:
                raise InputError(f"{axis} is given twice: write all its values in one field")
            axes[axis] = values
        return axes


def offered_files() -> Mapping[str, Path]:
    """Return the experiments of the operator's folder, by file name; empty if none is named.

    Links are left out: they could lead anywhere.
    """
    named = os.environ.get(EXPERIMENTS_VARIABLE)
    if not named:
        return {}
    files = sorted(user_path(named).glob("*.yaml"))
    return {file.name: file for file in files if is_file(file) and not file.is_symlink()}


def _parse(field: str, value: list[str] | str | float) -> tuple[Scalar, ...]:
    if isinstance(value, float):
        return (value,)
    return parse_values(",".join(value) if isinstance(value, list) else value, field)


def trigger_form(
    experiments: Sequence[str], faults: Sequence[str], default: str
) -> dict[str, Param]:
    """Return the fields of the trigger form.

    Each field's label is its key in a request to Airflow's API, and Kafka's own name where it has
    one.

    Airflow draws the form from these `Param`s and refuses values that do not fit their schemas.
    `SweepRequest` has the same fields.

    Args:
        experiments: the names to choose from.
        faults: the fault kinds to choose from.
        default: the experiment that the form is filled in with.
    """
    from airflow.sdk import Param

    fields: dict[str, dict[str, Any]] = {
        "experiment": {
            "default": default,
            "type": "string",
            "minLength": 1,
            "title": "experiment",
            "description": _about_experiment(default),
            "examples": list(experiments),
        },
        "acks": _choices("acks", ("0", "1", "all")),
        "enable.idempotence": _choices("enable.idempotence", ("false", "true")),
        "replication.factor": _integers("replication.factor"),
        "partitions": _integers("partitions"),
        "fault": {
            "type": ["null", "array"],
            "items": {"type": "string", "minLength": 1},
            "examples": list(faults),
            "title": "fault",
            "description": f"Axis; choose one or more. {_IF_EMPTY} Combined faults and parameters "
            "go below: `fault=leader-crash(at_s=1) >> follower-pause`.",
        },
        "client": _choices("client", (*LIBRARIES, *adapters())),
        "client.defaults": _choices("client.defaults", ("false", "true")),
        "workload.rate_records_per_s": _number(
            "workload.rate_records_per_s",
            "Records per second, of all producers together.",
            10_000_000,
        ),
        "workload.duration_s": _number("workload.duration_s", "Seconds of load per trial.", 86_400),
        "repeats": _integer("repeats", "Trials per cell.", 1, 1024),
        "seed": _integer("seed", "Determines keys, order and timing.", 0, _MAX_SEED),
        "controls": {
            "default": CONTROLS_OF_EXPERIMENT,
            "type": "string",
            "enum": [CONTROLS_OF_EXPERIMENT, "on", "off"],
            "title": "controls",
            "description": "A cell that must lose nothing, and a cell that must lose records: "
            "they show whether the harness measures correctly.",
        },
        "set": {
            "type": ["null", "array"],
            "items": {"type": "string", "pattern": SETTING_PATTERN},
            "title": "set",
            "description": "Other axes and properties, one per line: `linger.ms=0,50`, "
            "`workload.record_size_bytes=1000`, `broker.broker.session.timeout.ms=6000`.",
        },
        "sweep_id": {
            "type": ["null", "string"],
            "title": "sweep_id",
            "description": "A sweep to resume. Normally empty. The id of a planned sweep: its "
            "missing trials run, and the fields above are ignored.",
            "section": "Resume",
        },
    }
    return {name: Param(**{"default": None, **field}) for name, field in fields.items()}


def _about_experiment(default: str) -> str:
    extent = stored_extents().get(default)
    # Without Markdown: Airflow's page covers the next line with the background of code.
    compared = f" ({extent.compared})" if extent and extent.compared else ""
    of_default = f"{default} has {extent.text()}{compared}. " if extent else ""
    return (
        f"{of_default}A name from the catalogue (the documentation of this DAG lists them with "
        "their cells and minutes), or a file of the folder that the operator offers "
        "(ackbench up --experiments FOLDER)."
    )


def _choices(axis: str, values: Sequence[str]) -> dict[str, Any]:
    return {
        "type": ["null", "array"],
        "items": {"type": "string", "enum": list(values)},
        "examples": list(values),
        "title": axis,
        "description": f"Axis; choose one or more. {_IF_EMPTY}",
    }


def _integers(axis: str) -> dict[str, Any]:
    return {
        "type": ["null", "string"],
        "pattern": INTEGERS_PATTERN,
        "title": axis,
        "description": f"Axis; integers, separated by commas: `1,3`. {_IF_EMPTY}",
    }


def _number(title: str, description: str, maximum: float) -> dict[str, Any]:
    return {
        "type": ["null", "number"],
        "exclusiveMinimum": 0,
        "maximum": maximum,
        "title": title,
        "description": f"{description} {_IF_EMPTY}",
    }


def _integer(title: str, description: str, minimum: int, maximum: int) -> dict[str, Any]:
    return {
        "type": ["null", "integer"],
        "minimum": minimum,
        "maximum": maximum,
        "title": title,
        "description": f"{description} {_IF_EMPTY}",
    }
