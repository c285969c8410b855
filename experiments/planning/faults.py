"""What an experiment says of a cell's fault: which one or ones, with all their parameters; and that there can be such a fault at all. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from experiments.errors import ExperimentError
from experiments.faults import FAULTS
from experiments.faults.composition.composite import heals_at_s, impossible_reason, parameters_of, unnoticed_reason
from experiments.faults.composition.notation import parse_fault
from experiments.faults.core.effects import Topology
from experiments.ledger.record import Scalar
from experiments.messages.phrases import did_you_mean
from experiments.messages.validation import describe_validation_error
from experiments.planning.experiment import Experiment
from experiments.sweep.plan import FaultRequest


def fault_parameters(kind: str, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return all parameters of a fault, its defaults among them.

    Raises:
        ExperimentError: there is no such fault, or it does not take these.
    """
    if kind not in FAULTS:
        raise ExperimentError(f"unknown fault {kind}{did_you_mean(kind, FAULTS)}")
    try:
        return dict(FAULTS[kind].parameters.model_validate(dict(given)).model_dump())
    except ValidationError as error:
        raise ExperimentError(
            describe_validation_error(error, FAULTS[kind].parameters, f"faults.{kind}.")
        ) from error


def asked_for(experiment: Experiment, text: str, axes: Mapping[str, Scalar]) -> FaultRequest:
    """Return the fault that a cell asks for: each parameter as the fault itself has it in brackets, or the axis, or the section `faults`.

    Args:
        experiment: whose section `faults` counts.
        text: the fault as `experiments.faults.composition.notation` has it.
        axes: the values of axes that are a fault's parameters.

    Raises:
        ExperimentError: there is no such fault, or it does not take these parameters.
    """

    def filled(leaf: FaultRequest) -> FaultRequest:
        if leaf.kind == "none":
            return leaf
        swept = {
            name: value
            for name, value in axes.items()
            if name in FAULTS[leaf.kind].parameters.model_fields
        }
        given = {**experiment.faults.get(leaf.kind, {}), **swept, **leaf.parameters}
        return leaf.model_copy(update={"parameters": fault_parameters(leaf.kind, given)})

    return parse_fault(text).with_leaves(filled)


def refuse_what_cannot_be(
    fault: FaultRequest, shape: Topology, duration_s: float, answer_timeout_ms: int, acks: str
) -> None:
    """See that there can be such a fault on such a cluster, within the load, and that the client could notice it.

    Args:
        fault: with all its parameters.
        shape: the cluster and the topic.
        duration_s: how long the load lasts.
        answer_timeout_ms: how long the producer gives a request to be answered.
        acks: the producer's.

    Raises:
        ExperimentError: it cannot; says what would be right.
    """
    if fault.kind == "none":
        return
    reason = impossible_reason(fault, shape)
    if reason:
        raise ExperimentError(f"fault {fault.kind} cannot be: {reason}")
    if heals_at_s(fault) >= duration_s:
        begins_s = min(parameters_of(leaf).at_s for leaf in fault.leaves())
        times = f"begins at {begins_s:g} s and is healed at {heals_at_s(fault):g} s"
        raise ExperimentError(
            f"fault {fault.kind} {times}; allowed: before the load ends, at {duration_s:g} s"
        )
    reason = unnoticed_reason(fault, answer_timeout_ms / 1000, acks)
    if reason:
        raise ExperimentError(f"fault {fault.kind} could not be noticed: {reason}")
