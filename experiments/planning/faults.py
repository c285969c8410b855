"""The fault that a cell requests, with all its parameters, and whether the cell allows it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.composition.composite import (
    impossible_reason,
    needs_load_s,
    parameters_of,
    unnoticed_reason,
)
from ackbench.experiments.trial.faults.composition.notation import parse_fault
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.operations.commands import COMMAND


def fault_request(experiment: Experiment, text: str, axes: Mapping[str, Scalar]) -> FaultRequest:
    """Return the fault that a cell requests, with all parameters.

    A parameter in the fault's own brackets takes precedence over an axis, and an axis over the
    experiment's section `faults`.

    Args:
        experiment: supplies the section `faults`.
        text: the fault in the notation of `experiments.trial.faults.composition.notation`.
        axes: the cell's values of axes that sweep a parameter of a fault.

    Raises:
        ExperimentError: a fault or one of its parameters is unknown, or a value is not allowed.
    """

    def with_parameters(leaf: FaultRequest) -> FaultRequest:
        if leaf.kind == "none":
            return leaf
        kind = COMMAND if leaf.kind in experiment.commands() else leaf.kind
        swept = {
            name: value
            for name, value in axes.items()
            if name in FAULTS[kind].parameters.model_fields
        }
        given = {**experiment.faults.get(leaf.kind, {}), **swept, **leaf.parameters}
        return FaultRequest(kind=kind, parameters=fault_parameters(leaf.kind, given))

    return parse_fault(text, experiment.commands()).with_leaves(with_parameters)


def fault_parameters(name: str, given: Mapping[str, Scalar | tuple[str, ...]]) -> dict[str, Scalar]:
    """Return all parameters of a fault, with its defaults where none are given.

    Args:
        name: the fault, or that of a section with `kind: command`.
        given: the section's values, with those of axes and brackets.

    Raises:
        ExperimentError: the fault or a parameter is unknown, or a value is not allowed.
    """
    if given.get("kind") == COMMAND:
        if name in FAULTS:
            raise ExperimentError(f"faults.{name} is a fault of the catalogue: choose another name")
        others = {key: value for key, value in given.items() if key != "kind"}
        kind, given = COMMAND, {**others, "name": name}
    elif name in FAULTS:
        kind = name
    else:
        raise ExperimentError(
            f"unknown fault {name}{did_you_mean(name, FAULTS)}; a fault of your own has kind: "
            f"{COMMAND}"
        )
    model = FAULTS[kind].parameters
    try:
        return dict(model.model_validate(dict(given)).model_dump())
    except ValidationError as error:
        raise ExperimentError(describe_validation_error(error, model, f"faults.{name}.")) from error


def scalar_parameter(experiment: Experiment, fault: str, parameter: str) -> Scalar:
    """Return a parameter of the section `faults`; `None`: it is not there."""
    value = experiment.faults.get(fault, {}).get(parameter)
    return None if isinstance(value, tuple) else value


def refuse_invalid_fault(
    fault: FaultRequest, topology: Topology, duration_s: float, request_timeout_ms: int, acks: str
) -> None:
    """Check that a fault is possible, falls into the load and can be noticed by the client.

    Args:
        fault: the fault with all its parameters.
        topology: the cluster and topic that the fault finds.
        duration_s: duration of the load.
        request_timeout_ms: how long the producer waits for a response.
        acks: the producer's acks.

    Raises:
        ExperimentError: one of these does not hold; the message names what would be allowed.
    """
    if fault.kind == "none":
        return
    reason = impossible_reason(fault, topology)
    if reason:
        raise ExperimentError(f"fault {fault.kind} is not possible: {reason}")
    needed_s = needs_load_s(fault, topology)
    if needed_s >= duration_s:
        begins_s = min(parameters_of(leaf).at_s for leaf in fault.leaves())
        raise ExperimentError(
            f"fault {fault.kind} begins at {begins_s:g} s and lasts until {needed_s:.4g} s; "
            f"allowed: before the load ends, at {duration_s:g} s "
            f"(long enough: --set workload.duration_s={math.floor(needed_s) + 1})"
        )
    reason = unnoticed_reason(fault, request_timeout_ms / 1000, acks)
    if reason:
        raise ExperimentError(f"fault {fault.kind} would go unnoticed: {reason}")
